package fake_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/fake"
)

func Example() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	b.Handle("go test", fake.Result(1, "", "FAIL\n"))

	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close(ctx)

	rec, err := sb.Run(ctx, sandbox.Command{Argv: []string{"go", "test"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s %d %q\n", rec.Status, *rec.ExitCode, rec.Stderr)

	rec, err = sb.Run(ctx, sandbox.Command{Shell: "ls -l"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s %d %q\n", rec.Status, *rec.ExitCode, rec.Stderr)
	// Output:
	// completed 1 "FAIL\n"
	// completed 127 "fake: no handler for command: ls -l\n"
}

// A command that does more than print. In a testing/synctest bubble its minute
// would pass at once.
func ExampleBackend_Handle() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	b.Handle("greet", func(p *fake.Process) int {
		name, _ := io.ReadAll(p.Stdin)
		fmt.Fprintf(p.Stdout, "hello, %s\n", name)
		p.Sleep(time.Minute)
		fmt.Fprintln(p.Stdout, "never printed")
		return 0
	})
	show(ctx, b, sandbox.Command{Shell: "greet", Env: map[string]string{"A": "b"}, Timeout: 50 * time.Millisecond})
	// Output:
	// timeout 124 "hello, \n"
}

func ExampleBackend_HandleFunc() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	b.HandleFunc(
		func(cmd *fake.Command) bool { return cmd.Dir == "src" },
		func(p *fake.Process) int {
			fmt.Fprintf(p.Stdout, "%s in %s\n", p.Command(), p.Command().Dir)
			return 0
		})
	show(ctx, b, sandbox.Command{Shell: "make", Dir: "src"})
	// Output:
	// completed 0 "make in src\n"
}

func ExampleProcess_LoseAfter() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	b.Handle("make", func(p *fake.Process) int {
		p.LoseAfter(4)
		fmt.Fprintln(p.Stdout, "all done")
		return 0
	})
	show(ctx, b, sandbox.Command{Shell: "make"})
	// Output:
	// failed none "all "
}

// A backend without images, on which a program is missing.
func ExampleOptions() {
	ctx := context.Background()
	b := fake.New(&fake.Options{
		Create: func(ctx context.Context, cfg *backend.Config) error {
			if cfg.Image != "" {
				return fmt.Errorf("image: %w", errors.ErrUnsupported)
			}
			return nil
		},
		Start: func(ctx context.Context, cmd *fake.Command) error {
			return &backend.StartError{Reason: backend.NotFound, Path: cmd.String()}
		},
	})
	defer b.Close(ctx)
	_, err := sandbox.New(ctx, b, &sandbox.Options{Config: sandbox.Config{Image: "busybox"}})
	fmt.Println(err)
	show(ctx, b, sandbox.Command{Argv: []string{"make"}})
	// Output:
	// sandbox: create: image: unsupported operation
	// failed none ""
}

func ExampleBackend_Calls() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	b.Handle("sleep 60", func(p *fake.Process) int {
		p.Sleep(time.Minute)
		return 0
	})
	show(ctx, b, sandbox.Command{Shell: "sleep 60", Timeout: time.Millisecond})
	for _, call := range b.Calls() {
		fmt.Println(call.Op, call.Command)
	}
	// Output:
	// timeout 124 ""
	// create <nil>
	// start sleep 60
	// kill sleep 60
	// destroy <nil>
}

// show runs a command in a sandbox of its own and prints how it ended.
func show(ctx context.Context, b backend.Backend, cmd sandbox.Command) {
	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close(ctx)
	rec, err := sb.Run(ctx, cmd)
	if err != nil {
		fmt.Println(err)
		return
	}
	code := "none"
	if rec.ExitCode != nil {
		code = fmt.Sprint(*rec.ExitCode)
	}
	fmt.Printf("%s %s %q\n", rec.Status, code, rec.Stdout)
}
