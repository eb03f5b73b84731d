// Package benchtest has what the benchmarks of all backends do in a sandbox, so that their
// figures can be compared.
package benchtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/sandbox-go/sandbox"
)

// Echo runs echo hi in a shell.
func Echo(ctx context.Context, sb sandbox.Sandbox) error {
	rec, err := sb.Run(ctx, sandbox.Command{Shell: "echo hi"})
	if err == nil && rec.Stdout.String() != "hi\n" {
		err = fmt.Errorf("%s: %v: %q, %q", rec.Status, rec.Err, rec.Stdout, rec.Stderr)
	}
	return err
}

// Stream runs cmd and reads its output, which must have so many bytes, as it comes.
func Stream(ctx context.Context, sb sandbox.Sandbox, cmd sandbox.Command, size int64) error {
	_, s, err := sb.Follow(ctx, cmd)
	if err != nil {
		return err
	}
	defer s.Close()
	for got := int64(0); ; {
		c, err := s.Next(ctx)
		got += int64(len(c.Data))
		if errors.Is(err, io.EOF) && got == size {
			return nil
		}
		if err != nil {
			return fmt.Errorf("after %d bytes of %d: %w", got, size, err)
		}
	}
}

// Receive reads so many bytes of what open returns, and closes it.
func Receive[R io.ReadCloser](open func() (R, error), size int64) error {
	r, err := open()
	if err != nil {
		return err
	}
	_, err = io.CopyN(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, size)
	return errors.Join(err, r.Close())
}

// WriteFile writes so many bytes to a file of a sandbox, as from a file that is open.
func WriteFile(ctx context.Context, sb sandbox.Sandbox, name string, size int64) error {
	return sb.Files().WriteFrom(ctx, name, io.LimitReader(zeros{}, size), nil)
}

// WriteLocalFile writes so many bytes to a file.
func WriteLocalFile(name string, size int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(struct{ io.Writer }{f}, io.LimitReader(zeros{}, size))
	return errors.Join(err, f.Close())
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// ReadFile reads a file of a sandbox, which has so many bytes.
func ReadFile(ctx context.Context, sb sandbox.Sandbox, name string, size int64) error {
	return Receive(func() (io.ReadCloser, error) { return sb.Files().Open(ctx, name, nil) }, size)
}

// ReadLocalFile reads a file, which has so many bytes.
func ReadLocalFile(name string, size int64) error {
	return Receive(func() (io.ReadCloser, error) { return os.Open(name) }, size)
}

// Median sorts times, of which there must be one, and returns the one in the middle.
func Median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}
