package docker_test

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/docker"
)

// A way is one of those that a benchmark compares, the first with the others.
type way struct {
	name string
	do   func() error
}

// compare runs each way as a sub-benchmark, and says by how much the median of the
// first differs from the others'.
func compare(b *testing.B, bytes int64, ways ...way) {
	medians := make([]time.Duration, len(ways))
	for n, way := range ways {
		b.Run(way.name, func(b *testing.B) {
			b.SetBytes(bytes)
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				if err := way.do(); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			medians[n] = took[len(took)/2]
			b.ReportMetric(float64(medians[n])/1e6, "p50-ms")
		})
	}
	for n := 1; n < len(ways); n++ {
		if medians[0] > 0 && medians[n] > 0 {
			b.Logf("p50 of %s is %.2f of %s", ways[0].name, float64(medians[0])/float64(medians[n]), ways[n].name)
		}
	}
}

var echo = []string{"sh", "-c", "echo hi"}

func runEcho(sb sandbox.Sandbox) error {
	rec, err := sb.Run(context.Background(), sandbox.Command{Shell: "echo hi"})
	if err != nil {
		return err
	}
	if rec.Stdout.String() != "hi\n" {
		return errors.New(describe(rec))
	}
	return nil
}

// dockerExec runs a command the way that the engine's API has for it.
func dockerExec(api *client.Client, container string, cmd []string) error {
	ctx := context.Background()
	made, err := api.ExecCreate(ctx, container, client.ExecCreateOptions{
		User: "1000", AttachStdout: true, AttachStderr: true, Cmd: cmd,
	})
	if err != nil {
		return err
	}
	attached, err := api.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
	if err != nil {
		return err
	}
	defer attached.Close()
	if _, err := stdcopy.StdCopy(io.Discard, io.Discard, attached.Reader); err != nil {
		return err
	}
	_, err = api.ExecInspect(ctx, made.ID, client.ExecInspectOptions{})
	return err
}

func BenchmarkEcho(b *testing.B) {
	api := engine(b)
	sb := newSandbox(b, newBackend(b, docker.Options{}), nil)
	compare(b, 0,
		way{"sandbox", func() error { return runEcho(sb) }},
		way{"os-exec", func() error { return exec.Command(echo[0], echo[1:]...).Run() }},
		way{"docker-exec", func() error { return dockerExec(api, containerOf(sb), echo) }},
	)
}

// Each operation is 64 commands at once.
func BenchmarkEcho64(b *testing.B) {
	api := engine(b)
	sb := newSandbox(b, newBackend(b, docker.Options{}), nil)
	at64 := func(do func() error) func() error {
		return func() error {
			var all sync.WaitGroup
			errs := make([]error, 64)
			for n := range errs {
				all.Go(func() { errs[n] = do() })
			}
			all.Wait()
			return errors.Join(errs...)
		}
	}
	compare(b, 0,
		way{"sandbox", at64(func() error { return runEcho(sb) })},
		way{"docker-exec", at64(func() error { return dockerExec(api, containerOf(sb), echo) })},
	)
}

func BenchmarkStream(b *testing.B) {
	const size = 256 << 20
	api := engine(b)
	sb := newSandbox(b, newBackend(b, docker.Options{}), nil)
	zeros := []string{"head", "-c", "268435456", "/dev/zero"}
	compare(b, size,
		way{"sandbox", func() error {
			ctx := context.Background()
			_, stream, err := sb.Follow(ctx, sandbox.Command{Argv: zeros, MaxOutput: -1})
			if err != nil {
				return err
			}
			defer stream.Close()
			for total := 0; ; {
				c, err := stream.Next(ctx)
				total += len(c.Data)
				if errors.Is(err, io.EOF) && total == size {
					return nil
				}
				if err != nil {
					return err
				}
			}
		}},
		way{"docker-exec", func() error { return dockerExec(api, containerOf(sb), zeros) }},
	)
}

// From nothing to the first result.
func BenchmarkSandbox(b *testing.B) {
	backend := newBackend(b, docker.Options{})
	ctx := context.Background()
	for b.Loop() {
		sb, err := sandbox.New(ctx, backend, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := runEcho(sb); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := sb.Close(ctx); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
