//go:build linux && (amd64 || arm64)

package agentclient_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/agentclient"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
)

// A recording is what an agent has said, to be said again.
type recording struct {
	io.Reader
	io.Writer
}

func (recording) Close() error { return nil }

// greeting is what an agent says that offers a descriptor.
func greeting(t *testing.T, fd int, secret string) recording {
	t.Helper()
	var said []byte
	for _, m := range []wire.Message{&wire.Hello{Version: wire.Version}, &wire.Limits{}, &wire.Offer{FD: fd, Secret: secret}} {
		var err error
		if said, err = wire.Append(said, m); err != nil {
			t.Fatal(err)
		}
	}
	return recording{bytes.NewReader(said), io.Discard}
}

// isPID is what an Options.PID returns that knows the number.
func isPID(pid int) func(context.Context) (int, error) {
	return func(context.Context) (int, error) { return pid, nil }
}

// Only a socket out of which the secret comes is taken. Out of another nothing is read: it
// may be any process's.
func TestOfferIsProved(t *testing.T) {
	const secret = "the secret"
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unix.Close(pair[0])
		unix.Close(pair[1])
	})
	second, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(second[0])
	if err := unix.Sendmsg(pair[0], []byte(secret), unix.UnixRights(second[1]), nil, 0); err != nil {
		t.Fatal(err)
	}
	unix.Close(second[1])
	file, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, test := range []struct {
		name   string
		pid    int
		fd     int
		secret string
		direct bool
	}{
		{"another-secret", os.Getpid(), pair[1], "not secret", false},
		{"longer-secret", os.Getpid(), pair[1], secret + "s", false},
		{"no-bytes", os.Getpid(), pair[0], secret, false},
		{"no-socket", os.Getpid(), int(file.Fd()), secret, false},
		{"no-descriptor", os.Getpid(), 1 << 20, secret, false},
		{"another-process", 1, pair[1], secret, false},
		{"no-process", 1 << 30, pair[1], secret, false},
		{"no-number", 0, pair[1], secret, false},
		{"proved", os.Getpid(), pair[1], secret, true}, // after the others: the secret is still there
	} {
		t.Run(test.name, func(t *testing.T) {
			conn, err := agentclient.Dial(t.Context(), greeting(t, test.fd, test.secret), agentclient.Options{PID: isPID(test.pid)})
			if err != nil {
				t.Fatal(err)
			}
			if why := conn.Direct(); (why == nil) != test.direct {
				t.Errorf("direct: %v, want %v", why, test.direct)
			}
			conn.Close()
		})
	}
}

// What an agent has offered one service is gone for the next, which has heard all of it.
func TestOfferIsTakenOnce(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may look into the agent")
	}
	var said bytes.Buffer
	a := launch{direct: true, said: &said}.start(t)
	if err := a.Direct(); err != nil {
		t.Fatal(err)
	}
	conn, err := agentclient.Dial(t.Context(), recording{bytes.NewReader(said.Bytes()), io.Discard}, agentclient.Options{PID: isPID(a.cmd.Process.Pid)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if conn.Direct() == nil {
		t.Error("a second service has the socket too")
	}
}

// A command whose pipes cannot be taken, since the service has as many files open as it may,
// does not run, and the next one does.
func TestNoRoomForPipes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may look into the agent")
	}
	a := launch{direct: true}.start(t)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	restore := func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) }
	defer restore()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	var full []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		full = append(full, f)
	}
	full[0].Close() // for one of the two
	args := nap(90)
	_, err := a.Start(t.Context(), spec(backend.Spec{Shell: args}))
	for _, f := range full {
		f.Close()
	}
	restore()
	if err == nil {
		t.Error("it runs")
	}
	dies(t, args)
	var out bytes.Buffer
	p := a.start(t, backend.Spec{Shell: "echo next; sleep 0.1", Stdout: &out})
	within(t, "the output", p.OutputOver())
	if out.String() != "next\n" {
		t.Errorf("the next one printed %q", out.String())
	}
}

// What holds of commands holds where their pipes are handed over.
func TestDirectly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may look into the agent")
	}
	directly = true
	defer func() { directly = false }()
	for _, test := range []struct {
		name string
		test func(*testing.T)
	}{
		{"execution", TestExecution},
		{"late-requests", TestLateRequestsMissTheNextCommand},
		{"refusals", TestRefusals},
		{"kill-reaches-all", TestKillReachesAll},
		{"kill-tells-the-end", TestKillTellsTheEnd},
		{"context-ends-start", TestContextEndsStart},
		{"held-output", TestHeldOutputHoldsTheCommand},
		{"discarded-output", TestDiscardedOutputDoesNotBlock},
		{"connection-loss", TestConnectionLossKillsAll},
		{"dead-agent", TestDeadAgentKillsAll},
		{"dead-supervisor", TestDeadSupervisorsOrphansAreKilled},
		{"listener", TestListener},
		{"listener-outlasts-a-connection", TestListenerOutlastsAConnection},
		{"listener-closes", TestListenerCloses},
	} {
		t.Run(test.name, test.test)
	}
}
