package files

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/framing"
)

// Main does what a Client asks for, as a process of its own: args are a root, or
// "" for everywhere, and a request. It answers on stdout, and what went wrong on
// stderr with a non-zero exit code, which it returns.
func Main(args []string) int {
	if err := run(args); err != nil {
		fmt.Fprint(os.Stderr, encodeError(err))
		return 1
	}
	return 0
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("want a root and a request")
	}
	r, err := decodeRequest(args[1])
	if err != nil {
		return err
	}
	tree := Everywhere()
	if args[0] != "" {
		root, err := os.OpenRoot(args[0])
		if err != nil {
			return err
		}
		defer root.Close()
		tree = In(root, ".")
	}
	out := bufio.NewWriterSize(os.Stdout, 64<<10)
	r.Content, r.Output = framing.NewReader(os.Stdin), out
	if r.Op == backend.FileStat || r.Op == backend.FileList {
		r.Found = func(i backend.FileInfo) bool { return encodeInfo(out, i) == nil }
	}
	err = tree.File(context.Background(), r)
	return errors.Join(err, out.Flush()) // also what came before an error
}

// requestFormat is one line. Quoted strings keep bytes that are not UTF-8.
const requestFormat = "%q %d %q %q %d %d %d\n"

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
