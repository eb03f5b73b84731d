package files

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/framing"
)

// Main does what a Client asks for, as a process of its own: args are a root, or
// "" for everywhere, an operation, and its arguments. It answers on stdout, and
// what went wrong on stderr with a non-zero exit code, which it returns.
func Main(args []string) int {
	if err := run(args); err != nil {
		fmt.Fprint(os.Stderr, encodeError(err))
		return 1
	}
	return 0
}

func run(args []string) error {
	if len(args) < 3 {
		return errors.New("too few arguments")
	}
	root, op, args := args[0], args[1], args[2:]
	tree := Everywhere()
	if root != "" {
		r, err := os.OpenRoot(root)
		if err != nil {
			return err
		}
		defer r.Close()
		tree = In(r, ".")
	}
	do, ok := operations[op]
	if !ok || len(args) != do.args {
		return fmt.Errorf("no operation %q with %d arguments", op, len(args))
	}
	out := bufio.NewWriterSize(os.Stdout, 64<<10)
	if err := do.run(context.Background(), tree, args, os.Stdin, out); err != nil {
		out.Flush() // what came before it
		return err
	}
	return out.Flush()
}

// An operation is one method of Files.
type operation struct {
	args int
	run  func(ctx context.Context, t *Tree, args []string, in io.Reader, out io.Writer) error
}

var operations = map[string]operation{
	"stat": {1, func(ctx context.Context, t *Tree, args []string, _ io.Reader, out io.Writer) error {
		info, err := t.Stat(ctx, args[0])
		if err != nil {
			return err
		}
		return encodeInfo(out, info)
	}},
	"list": {2, func(ctx context.Context, t *Tree, args []string, _ io.Reader, out io.Writer) error {
		for info, err := range t.List(ctx, args[0], args[1] == "true") {
			if err != nil {
				return err
			}
			if err := encodeInfo(out, info); err != nil {
				return err
			}
		}
		return nil
	}},
	"read": {3, func(ctx context.Context, t *Tree, args []string, _ io.Reader, out io.Writer) error {
		offset, err1 := strconv.ParseInt(args[1], 10, 64)
		limit, err2 := strconv.ParseInt(args[2], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		return copyAll(out)(t.Read(ctx, args[0], offset, limit))
	}},
	"write": {2, func(ctx context.Context, t *Tree, args []string, in io.Reader, _ io.Writer) error {
		mode, err := parseMode(args[1])
		if err != nil {
			return err
		}
		return t.Write(ctx, args[0], framing.NewReader(in), mode)
	}},
	"mkdir": {2, func(ctx context.Context, t *Tree, args []string, _ io.Reader, _ io.Writer) error {
		mode, err := parseMode(args[1])
		if err != nil {
			return err
		}
		return t.Mkdir(ctx, args[0], mode)
	}},
	"open": {1, func(_ context.Context, _ *Tree, args []string, _ io.Reader, _ io.Writer) error {
		return os.Chmod(args[0], 0o700)
	}},
	"remove": {2, func(ctx context.Context, t *Tree, args []string, _ io.Reader, _ io.Writer) error {
		return t.Remove(ctx, args[0], args[1] == "true")
	}},
	"rename": {2, func(ctx context.Context, t *Tree, args []string, _ io.Reader, _ io.Writer) error {
		return t.Rename(ctx, args[0], args[1])
	}},
	"readtar": {1, func(ctx context.Context, t *Tree, args []string, _ io.Reader, out io.Writer) error {
		return copyAll(out)(t.ReadTar(ctx, args[0]))
	}},
	"writetar": {1, func(ctx context.Context, t *Tree, args []string, in io.Reader, _ io.Writer) error {
		content := framing.NewReader(in)
		if err := t.WriteTar(ctx, args[0], content); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, content) // an archive that was cut at an entry looks whole
		return err
	}},
}

func copyAll(out io.Writer) func(io.ReadCloser, error) error {
	return func(r io.ReadCloser, err error) error {
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(out, r)
		return err
	}
}

func parseMode(s string) (fs.FileMode, error) {
	mode, err := strconv.ParseUint(s, 8, 32)
	return fs.FileMode(mode), err
}

// infoFormat is one line per file. Quoted strings keep bytes that are not UTF-8.
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
