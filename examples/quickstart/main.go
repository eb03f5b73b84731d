// Quickstart shows what the library promises, on commands that really run.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/local"
	"github.com/sandbox-go/sandbox/backend/namespace"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := tour(ctx); err != nil {
		log.Fatal(err)
	}
}

func tour(ctx context.Context) error {
	b, err := newBackend()
	if err != nil {
		return err
	}
	defer b.Close(context.WithoutCancel(ctx)) // also after Ctrl-C, which ends ctx
	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		return err
	}
	defer sb.Close(context.WithoutCancel(ctx))
	run := func(cmd sandbox.Command) error {
		rec, err := sb.Run(ctx, cmd)
		if err != nil {
			return err
		}
		show(rec)
		return ctx.Err() // its record says cancelled
	}

	fmt.Println("A result. That a command fails is data, not an error.")
	if err := run(sandbox.Command{Shell: "echo hello; echo oops >&2; exit 3"}); err != nil {
		return err
	}

	fmt.Println("\nLive output, line by line as it comes.")
	_, stream, err := sb.Follow(ctx, sandbox.Command{Shell: "for i in 1 2 3; do echo tick $i; sleep .2; done"})
	if err != nil {
		return err
	}
	defer stream.Close()
	began := time.Now()
	for line, err := range sandbox.Lines(ctx, stream) {
		if err != nil {
			return err
		}
		fmt.Printf("  after %3d ms  %s %s\n", time.Since(began).Milliseconds(), line.Source, line.Text)
	}

	fmt.Println("\nA timeout. What was written is kept, and a process that got away is dead too.")
	err = run(sandbox.Command{
		Shell:   "setsid sh -c 'sleep 1; touch survivor' & echo started; sleep 60",
		Timeout: 500 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	// Now look for what it would have done.
	if err := run(sandbox.Command{Shell: "sleep 1; ls survivor"}); err != nil {
		return err
	}

	fmt.Println("\nOutput that is too long: the beginning and the end are kept, and the rest is counted.")
	if err := run(sandbox.Command{Shell: "seq 1000000", MaxOutput: 12, MaxTail: 15}); err != nil {
		return err
	}

	fmt.Println("\nA cancel, from another goroutine or by the context.")
	ex, err := sb.Start(ctx, sandbox.Command{Shell: "trap '' TERM; sleep 60"})
	if err != nil {
		return err
	}
	err = ex.Cancel(ctx) // it names what is left, if anything is
	show(ex.Execution())
	return err
}

// newBackend returns one that isolates commands, or says why there is none here.
func newBackend() (sandbox.Backend, error) {
	b, err := namespace.New(nil)
	if err == nil {
		return b, nil
	}
	fmt.Fprintln(os.Stderr, "Commands run on this machine without isolation (backend/local), since namespaces cannot be had:", err)
	return local.New(nil)
}

// show prints how a command ended.
func show(rec *sandbox.Execution) {
	fmt.Printf("  $ %s\n  %s", rec.Command.Shell, rec.Status)
	if rec.ExitCode != nil {
		fmt.Printf(", exit code %d", *rec.ExitCode)
	}
	fmt.Printf(", after %d ms\n", rec.Duration.Milliseconds())
	for i, out := range []sandbox.Output{rec.Stdout, rec.Stderr} {
		if out.Total > 0 {
			fmt.Printf("  %s  %q\n", sandbox.StreamID(i), out)
		}
	}
}
