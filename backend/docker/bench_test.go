package docker_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/docker"
	"github.com/sandbox-go/sandbox/internal/benchtest"
	"github.com/sandbox-go/sandbox/internal/dockerexec"
)

// A way is one of those that a benchmark compares, the first with the others.
type way struct {
	name string
	do   func() error
}

// compare does each way in turns with the others, and reports the median of each and, of
// the first, its ratio to each of the others in the same run.
func compare(b *testing.B, bytes int64, ways ...way) {
	took := make([][]time.Duration, len(ways))
	for b.Loop() {
		for n, way := range ways {
			begin := time.Now()
			if err := way.do(); err != nil {
				b.Fatal(err)
			}
			took[n] = append(took[n], time.Since(begin))
		}
	}
	median := func(n int) float64 { return float64(benchtest.Median(took[n])) }
	first := median(0)
	b.ReportMetric(0, "ns/op")
	for n, way := range ways {
		b.ReportMetric(median(n)/1e6, "ms/"+way.name)
		if n > 0 {
			b.ReportMetric(first/median(n), ways[0].name+"/"+way.name)
		}
	}
	if bytes > 0 {
		b.ReportMetric(float64(bytes)/1e6/(first/1e9), "MB/s")
	}
}

var echo = []string{"sh", "-c", "echo hi"}

// BenchmarkEcho runs echo hi, so many at once.
func BenchmarkEcho(b *testing.B) {
	api := engine(b)
	for _, n := range []int{1, 4, 16, 64} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			sb := newSandbox(b, newBackend(b, docker.Options{Limits: backend.Limits{CPUs: -1}}), nil)
			atOnce := func(do func() error) func() error {
				return func() error {
					var all errgroup.Group
					for range n {
						all.Go(do)
					}
					return all.Wait()
				}
			}
			compare(b, 0,
				way{"sandbox", atOnce(func() error { return benchtest.Echo(context.Background(), sb) })},
				way{"os-exec", atOnce(func() error { return exec.Command(echo[0], echo[1:]...).Run() })},
				way{"docker-exec", atOnce(func() error { return dockerexec.Run(context.Background(), api, containerOf(sb), echo) })},
			)
		})
	}
}

// BenchmarkFile writes and reads a file of 1 KiB.
func BenchmarkFile(b *testing.B) {
	sb := newSandbox(b, newBackend(b, docker.Options{}), nil)
	content := make([]byte, 1<<10)
	for _, file := range []way{
		{"write", func() error { return sb.Files().WriteFile(b.Context(), "f", content, nil) }},
		{"read", func() error {
			_, err := sb.Files().ReadFile(b.Context(), "f", nil)
			return err
		}},
	} {
		b.Run(file.name, func(b *testing.B) {
			compare(b, 0, file, way{"echo", func() error { return benchtest.Echo(context.Background(), sb) }})
		})
	}
}

// BenchmarkLargeFile writes and reads 100 MB, in turns with a file of the machine itself.
func BenchmarkLargeFile(b *testing.B) {
	const size = 100e6
	sb := newSandbox(b, newBackend(b, docker.Options{Limits: backend.Limits{CPUs: -1}}), nil)
	outside := filepath.Join(b.TempDir(), "f")
	if err := errors.Join(benchtest.WriteFile(b.Context(), sb, "f", size), benchtest.WriteLocalFile(outside, size)); err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		compare(b, size,
			way{"sandbox", func() error { return benchtest.WriteFile(context.Background(), sb, "f", size) }},
			way{"os", func() error { return benchtest.WriteLocalFile(outside, size) }},
		)
	})
	b.Run("read", func(b *testing.B) {
		compare(b, size,
			way{"sandbox", func() error { return benchtest.ReadFile(context.Background(), sb, "f", size) }},
			way{"os", func() error { return benchtest.ReadLocalFile(outside, size) }},
		)
	})
}

func BenchmarkStream(b *testing.B) {
	const size = 64 << 20
	api := engine(b)
	sb := newSandbox(b, newBackend(b, docker.Options{Limits: backend.Limits{CPUs: -1}}), nil)
	zeros := []string{"busybox", "head", "-c", "67108864", "/dev/zero"} // the same program everywhere
	compare(b, size,
		way{"sandbox", func() error {
			return benchtest.Stream(context.Background(), sb, sandbox.Command{Argv: zeros, MaxOutput: -1}, size)
		}},
		way{"os-exec", func() error { return pipeExec(zeros) }},
		way{"docker-exec", func() error { return dockerexec.Run(context.Background(), api, containerOf(sb), zeros) }},
	)
}

// pipeExec reads what a command prints from a pipe of os/exec.
func pipeExec(argv []string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout = struct{ io.Writer }{io.Discard} // hides every other way to copy
	return cmd.Run()
}

// BenchmarkPort connects to a port of a sandbox and reads what comes, in turns with the same
// server on the machine itself. With no bytes it is the time that a connection takes.
func BenchmarkPort(b *testing.B) {
	const size = 64 << 20
	sb := newSandbox(b, newBackend(b, docker.Options{Limits: backend.Limits{CPUs: -1}}), nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	server := []string{"busybox", "nc", "-ll", "-p", strconv.Itoa(port), "-e", "busybox", "head", "-c", strconv.Itoa(size), "/dev/zero"}
	if _, err := sb.Start(b.Context(), sandbox.Command{Argv: server}); err != nil {
		b.Fatal(err)
	}
	outside := exec.CommandContext(b.Context(), server[0], server[1:]...)
	if err := outside.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { outside.Wait() })
	inSandbox := func() (net.Conn, error) { return sb.Dial(context.Background(), port) }
	directly := func() (net.Conn, error) { return net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) }
	for _, dial := range []func() (net.Conn, error){inSandbox, directly} {
		for began := time.Now(); benchtest.Receive(dial, 0) != nil; time.Sleep(10 * time.Millisecond) {
			if time.Since(began) > testTime {
				b.Fatal("a server does not listen")
			}
		}
	}
	for _, size := range []int64{0, size} {
		b.Run(strconv.FormatInt(size, 10), func(b *testing.B) {
			compare(b, size,
				way{"sandbox", func() error { return benchtest.Receive(inSandbox, size) }},
				way{"directly", func() error { return benchtest.Receive(directly, size) }},
			)
		})
	}
}

// From nothing to the first result.
func BenchmarkSandbox(b *testing.B) {
	back := newBackend(b, docker.Options{})
	ctx := context.Background()
	for b.Loop() {
		sb, err := sandbox.New(ctx, back, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := benchtest.Echo(context.Background(), sb); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := sb.Close(ctx); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
