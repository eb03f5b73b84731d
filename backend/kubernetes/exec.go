package kubernetes

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// maxStderr is how much of an exec's stderr is kept, in bytes.
const maxStderr = 4 << 10

// closeTime is how long a program may take to end when its stdin has ended. A connection
// that is broken off leaves goroutines of the client library's, and lines in its log.
const closeTime = 2 * time.Second

// An execStream is the stdin and stdout of an exec as one connection. One goroutine may
// read while others write. What the API server says of the exec's exit code is of no
// use: a stream that was cut may have 0.
type execStream struct {
	stdin  *io.PipeWriter
	stdout *queue
	stop   context.CancelFunc
	ended  chan struct{} // closed when err is set
	err    error

	begin sync.Once     // closes begun
	begun chan struct{} // closed when the program has said something, or has ended

	mu     sync.Mutex // guards stderr
	stderr []byte
}

// exec starts a program in a container of a pod.
func (b *Backend) exec(pod, container string, argv []string) (*execStream, error) {
	executor, err := b.executor(pod, container, argv)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	in, stdin := io.Pipe()
	s := &execStream{stdin: stdin, stdout: newQueue(), stop: stop, ended: make(chan struct{}), begun: make(chan struct{})}
	go func() {
		defer stop()
		s.err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: &stdinReader{s, in}, Stdout: (*stdoutWriter)(s), Stderr: (*stderrWriter)(s)})
		close(s.ended)
		s.begin.Do(func() { close(s.begun) })
		stdin.Close()
		s.stdout.end(cmp.Or(s.err, io.EOF))
	}()
	return s, nil
}

// executor returns what runs an exec: over WebSocket, or over SPDY where the API server,
// or a proxy in front of it, has no WebSocket.
func (b *Backend) executor(pod, container string, argv []string) (remotecommand.Executor, error) {
	at := b.execURL(pod, container, argv)
	spdy, err := remotecommand.NewSPDYExecutor(b.config, http.MethodPost, at)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	ws, err := remotecommand.NewWebSocketExecutor(b.config, http.MethodGet, at.String())
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	return remotecommand.NewFallbackExecutor(ws, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

func (b *Backend) execURL(pod, container string, argv []string) *url.URL {
	return b.core.Post().Namespace(b.namespace).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: container, Command: argv, Stdin: true, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec).URL()
}

// Read reads from the exec's stdout.
func (s *execStream) Read(p []byte) (int, error) { return s.stdout.Read(p) }

// Write writes to the exec's stdin.
func (s *execStream) Write(p []byte) (int, error) { return s.stdin.Write(p) }

// Close ends the connection. The program notices that by the end of its stdin.
func (s *execStream) Close() error {
	s.stdin.Close()
	s.stdout.discard()
	time.AfterFunc(closeTime, s.stop)
	return nil
}

// ending says why the connection has ended, as far as that is known.
func (s *execStream) ending() string {
	why := ""
	if err := s.cause(); err != nil {
		why = ": " + err.Error()
	}
	return why + s.stderrText()
}

// cause returns what the client library says of the end of the exec; nil where there is no
// end yet, or nothing of use in it.
func (s *execStream) cause() error {
	select {
	case <-s.ended:
		if !errors.Is(s.err, context.Canceled) {
			return s.err
		}
	default:
	}
	return nil
}

// stderrText returns what has come on stderr, for the end of an error's text.
func (s *execStream) stderrText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := bytes.TrimSpace(s.stderr); len(text) > 0 {
		return fmt.Sprintf(": it said %q", text)
	}
	return ""
}

// A stdinReader gives nothing before the program has begun to speak, as an agent does. The
// client library logs it when it cannot write, and many a program is tried too early.
type stdinReader struct {
	s  *execStream
	in io.Reader
}

func (r *stdinReader) Read(p []byte) (int, error) {
	<-r.s.begun
	return r.in.Read(p)
}

// A stdoutWriter takes an exec's stdout.
type stdoutWriter execStream

func (w *stdoutWriter) Write(p []byte) (int, error) {
	w.begin.Do(func() { close(w.begun) })
	return w.stdout.Write(p)
}

// A stderrWriter keeps the beginning of an exec's stderr.
type stderrWriter execStream

func (w *stderrWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stderr = append(w.stderr, p[:min(len(p), maxStderr-len(w.stderr))]...)
	return len(p), nil
}
