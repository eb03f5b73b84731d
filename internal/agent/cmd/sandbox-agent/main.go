//go:build linux && (amd64 || arm64)

// Command sandbox-agent runs inside a sandbox, or beside a service that has local
// ones, and starts their commands. It is embedded in package agent, and nobody
// starts it by hand.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sandbox-go/sandbox/internal/agent/modes/forkserver"
	"github.com/sandbox-go/sandbox/internal/agent/modes/harden"
	"github.com/sandbox-go/sandbox/internal/agent/modes/namespace"
	"github.com/sandbox-go/sandbox/internal/agent/modes/pid1"
	"github.com/sandbox-go/sandbox/internal/agent/modes/serve"
	"github.com/sandbox-go/sandbox/internal/agent/modes/supervise"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/files"
)

func main() {
	mode := ""
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	var err error
	switch mode {
	case "supervise":
		err = supervise.Main(len(os.Args) > 2)
	case "forkserver":
		err = forkserver.Main(len(os.Args) > 2)
	case "local":
		err = serve.Local()
	case "serve":
		home, user := "", ""
		var flags []wire.ServeFlag
		if len(os.Args) > 3 {
			home, user = os.Args[2], os.Args[3]
			for _, f := range os.Args[4:] {
				flags = append(flags, wire.ServeFlag(f))
			}
		}
		err = serve.Container(home, user, flags...)
	case "files":
		if err = harden.NotDumpable(); err == nil { // commands have the same user
			os.Exit(files.Main())
		}
	case "namespace":
		err = namespace.Main(len(os.Args) > 2)
	case "remove":
		dir := ""
		if len(os.Args) > 2 {
			dir = os.Args[2]
		}
		err = namespace.Remove(dir, len(os.Args) <= 3)
	case "init":
		err = pid1.Main(os.Args[2:])
	default:
		err = fmt.Errorf("unknown mode %q", mode)
	}
	if err != nil && !errors.Is(err, io.EOF) { // it ends with its connection
		fmt.Fprintln(os.Stderr, wire.StderrPrefix+err.Error())
		os.Exit(1)
	}
}
