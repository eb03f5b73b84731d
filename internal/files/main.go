package files

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/framing"
)

// Main does what a Client asks for, one operation after the other, as a process of its own,
// until its stdin ends. It returns the exit code. Operations begin in the directory in
// which it was started.
func Main() int {
	start, err := os.Getwd()
	in := bufio.NewReaderSize(os.Stdin, bufferSize)
	for more := true; more && err == nil; {
		if _, end := in.Peek(1); end == io.EOF {
			return 0
		}
		more, err = serve(in, start)
	}
	if err != nil {
		fmt.Fprint(os.Stderr, err)
		return 1
	}
	return 0
}

// bufferSize is how much is read and written at once, in bytes.
const bufferSize = 64 << 10

// serve does one operation, and reports whether another can follow. After an error it has
// not begun.
func serve(in io.Reader, start string) (more bool, err error) {
	line, err := io.ReadAll(framing.NewReader(in))
	if err != nil {
		return false, err
	}
	root, r, err := decodeCall(string(line))
	if err != nil {
		return false, err
	}
	if err := os.Chdir(start); err != nil { // it may be another by now, or closed
		return false, err
	}
	if err := framing.End(os.Stdout); err != nil {
		return false, err
	}
	w := bufio.NewWriterSize(os.Stdout, bufferSize)
	out := bufio.NewWriterSize(framing.NewWriter(w), 32<<10)
	r.Output = out
	if r.Op == backend.FileStat || r.Op == backend.FileList {
		r.Found = func(i backend.FileInfo) bool { return encodeInfo(out, i) == nil }
	}
	content := &whole{Reader: r.Content, end: r.Content == nil}
	if r.Content != nil {
		content.Reader = framing.NewReader(in)
		r.Content = content
	}
	problem := operate(root, r)
	out.Flush() // also what came before an error
	framing.End(w)
	sign, text := signLast, ""
	if content.end {
		sign = signMore
	}
	if problem != nil {
		text = encodeError(problem)
	}
	framing.Copy(w, strings.NewReader(string(sign)+text))
	return content.end, w.Flush()
}

// operate does r below root, or everywhere where that is empty.
func operate(root string, r *backend.FileRequest) error {
	if root == "" {
		return Everywhere().File(context.Background(), r)
	}
	below, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer below.Close()
	return In(below, ".").File(context.Background(), r)
}

// A whole is content, and knows whether it was read to its end.
type whole struct {
	io.Reader
	end bool
}

func (w *whole) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.end = w.end || err == io.EOF
	return n, err
}

// callFormat is one line: a root or nothing, whether content follows, and the request.
// Quoted strings keep bytes that are not UTF-8.
const (
	callFormat    = "%q %t "
	requestFormat = "%q %d %q %q %d %d %d\n"
)

func encodeCall(root string, r *backend.FileRequest) string {
	return fmt.Sprintf(callFormat, root, r.Content != nil) + encodeRequest(r)
}

// decodeCall returns a request whose Content is not nil where content follows.
func decodeCall(line string) (root string, r *backend.FileRequest, err error) {
	in := strings.NewReader(line)
	content := false
	if _, err = fmt.Fscanf(in, callFormat, &root, &content); err != nil {
		return "", nil, err
	}
	rest, err := io.ReadAll(in)
	if err != nil {
		return "", nil, err
	}
	if r, err = decodeRequest(string(rest)); err == nil && content {
		r.Content = in
	}
	return root, r, err
}

func encodeRequest(r *backend.FileRequest) string {
	return fmt.Sprintf(requestFormat, r.Op, r.Flags, r.Name, r.To, r.Mode, r.Offset, r.Limit)
}

func decodeRequest(line string) (*backend.FileRequest, error) {
	r := new(backend.FileRequest)
	_, err := fmt.Sscanf(line, requestFormat, &r.Op, &r.Flags, &r.Name, &r.To, &r.Mode, &r.Offset, &r.Limit)
	return r, err
}

// infoFormat is one line per file.
const infoFormat = "%d %d %d %q %q\n"

func encodeInfo(w io.Writer, i backend.FileInfo) error {
	_, err := fmt.Fprintf(w, infoFormat, uint32(i.Mode), i.Size, i.ModTime.UnixNano(), i.Path, i.Target)
	return err
}

func decodeInfo(line string) (backend.FileInfo, error) {
	var i backend.FileInfo
	var mode uint32
	var modified int64
	_, err := fmt.Sscanf(line, infoFormat, &mode, &i.Size, &modified, &i.Path, &i.Target)
	i.Mode, i.ModTime = fs.FileMode(mode), time.Unix(0, modified)
	return i, err
}

const errorFormat = "%q %q %q\n"

// encodeError returns the line of an error: its kind, its file and its text.
func encodeError(err error) string {
	kind, name := "", ""
	var p *fs.PathError
	if errors.As(err, &p) {
		name, err = p.Path, p.Err
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			kind = k.name
		}
	}
	return fmt.Sprintf(errorFormat, kind, name, err.Error())
}

// decodeError returns the error of a line.
func decodeError(op, line string) error {
	var kind, name, text string
	if _, err := fmt.Sscanf(line, errorFormat, &kind, &name, &text); err != nil {
		return fmt.Errorf("%s: the agent says %q", op, line)
	}
	cause := errors.New(text)
	for _, k := range kinds {
		if k.name == kind && k.err.Error() == text {
			cause = k.err
		} else if k.name == kind {
			cause = told{cause, k.err}
		}
	}
	return &fs.PathError{Op: op, Path: name, Err: cause}
}
