package sandbox_test

import (
	"bufio"
	"context"
	"fmt"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/fake"
)

func ExampleExec_writeStdin() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	b.Handle("greet", func(p *fake.Process) int {
		for names := bufio.NewScanner(p.Stdin); names.Scan(); {
			fmt.Fprintf(p.Stdout, "hello %s\n", names.Text())
		}
		return 0
	})
	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close(ctx)

	ex, stream, err := sb.Follow(ctx, sandbox.Command{Shell: "greet", OpenStdin: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stream.Close()
	if _, err := ex.WriteStdin(ctx, []byte("Ann\n")); err != nil {
		fmt.Println(err)
		return
	}
	for line, err := range sandbox.Lines(ctx, stream) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(line.Text)
		if err := ex.CloseStdin(ctx); err != nil { // that was all
			fmt.Println(err)
			return
		}
	}
	fmt.Println(ex.Execution().Status)
	// Output:
	// hello Ann
	// completed
}

func ExampleExec_signal() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	b.Handle("serve", func(p *fake.Process) int {
		hangup := p.Catch(backend.SIGHUP)
		fmt.Fprintln(p.Stdout, "listening")
		<-hangup
		fmt.Fprintln(p.Stdout, "configuration read again")
		return 0
	})
	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close(ctx)

	ex, stream, err := sb.Follow(ctx, sandbox.Command{Argv: []string{"serve"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stream.Close()
	for line, err := range sandbox.Lines(ctx, stream) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(line.Text)
		if line.Text == "listening" {
			asked, cancel := context.WithTimeout(ctx, time.Second)
			if err := ex.Signal(asked, backend.SIGHUP); err != nil {
				fmt.Println(err) // os.ErrProcessDone when it has ended
			}
			cancel()
		}
	}
	// Output:
	// listening
	// configuration read again
}

func ExampleExec_resize() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	b.Handle("top", func(p *fake.Process) int {
		resized := p.Catch(backend.SIGWINCH)
		fmt.Fprintf(p.Stdout, "%d columns\n", p.Terminal().Cols)
		<-resized
		fmt.Fprintf(p.Stdout, "%d columns\n", p.Terminal().Cols)
		return 0
	})
	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close(ctx)

	ex, stream, err := sb.Follow(ctx, sandbox.Command{Shell: "top", Terminal: &sandbox.TerminalSize{Rows: 24, Cols: 80}})
	if err != nil {
		fmt.Println(err) // errors.ErrUnsupported where the backend has no terminals
		return
	}
	defer stream.Close()
	for line, err := range sandbox.Lines(ctx, stream) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(line.Text)
		if line.Text == "80 columns" {
			if err := ex.Resize(ctx, sandbox.TerminalSize{Rows: 24, Cols: 132}); err != nil {
				fmt.Println(err)
				return
			}
		}
	}
	// Output:
	// 80 columns
	// 132 columns
}
