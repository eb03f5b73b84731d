package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/fake"
)

func ExampleSandbox_run() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	b.Handle("make test", fake.Result(2, "", "1 test failed\n"))

	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close(ctx)

	rec, err := sb.Run(ctx, sandbox.Command{Shell: "make test", Timeout: time.Minute})
	if err != nil {
		fmt.Println(err) // it could not be done; that the test failed is no error
		return
	}
	fmt.Println(rec.Status, *rec.ExitCode)
	fmt.Print(rec.Stderr)
	// Output:
	// completed 2
	// 1 test failed
}

func ExampleSandbox_follow() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	b.Handle("build", func(p *fake.Process) int {
		io.WriteString(p.Stdout, "compiling\n")
		io.WriteString(p.Stderr, "a warning\n")
		return 0
	})
	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close(ctx)

	ex, stream, err := sb.Follow(ctx, sandbox.Command{Shell: "build"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stream.Close()
	for {
		chunk, err := stream.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s %d %q\n", chunk.Source, chunk.Offset, chunk.Data)
	}
	fmt.Println(ex.Execution().Status)
	// Output:
	// stdout 0 "compiling\n"
	// stderr 0 "a warning\n"
	// completed
}

func ExampleExec_cancel() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	b.Handle("sleep 1d", func(p *fake.Process) int { p.Sleep(24 * time.Hour); return 0 })
	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close(ctx)

	ex, err := sb.Start(ctx, sandbox.Command{Shell: "sleep 1d"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := ex.Cancel(ctx); err != nil {
		fmt.Println(err) // names what is still there
	}
	rec := ex.Execution()
	fmt.Println(rec.Status, rec.ExitCode == nil)
	// Output:
	// cancelled true
}

func ExampleManager() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	b.Handle("pwd", fake.Result(0, "/workspace\n", ""))

	m := sandbox.NewManager(b, &sandbox.ManagerOptions{MaxSandboxes: 1, IdleTime: 10 * time.Minute})
	defer m.Close(ctx)
	for _, room := range []string{"kitchen", "kitchen", "attic"} {
		sb, err := m.GetOrCreate(ctx, sandbox.Key{Owner: "ann", Namespace: "rooms", Name: room}, nil)
		if errors.Is(err, sandbox.ErrLimit) {
			fmt.Println(room, "has to wait")
			continue
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		rec, err := sb.Run(ctx, sandbox.Command{Shell: "pwd"})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(room, " ", rec.Stdout)
	}
	// Output:
	// kitchen /workspace
	// kitchen /workspace
	// attic has to wait
}
