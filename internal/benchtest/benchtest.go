// Package benchtest has what the benchmarks of all backends do in a sandbox, so that their
// figures can be compared.
package benchtest

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// Median sorts times, of which there must be one, and returns the one in the middle.
func Median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}
