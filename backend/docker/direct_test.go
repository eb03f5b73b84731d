package docker_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/docker"
)

// direct skips a test where no direct connection can be had.
func direct(t *testing.T, api *client.Client) {
	t.Helper()
	info := newBackend(t, docker.Options{}).Info()
	if os.Geteuid() != 0 || !strings.HasPrefix(api.DaemonHost(), "unix://") || isGVisor(info) {
		t.Skip("a direct connection takes root, an engine on this machine, and its kernel")
	}
}

// A command goes on while the engine is away, and others start: nothing of it passes the
// engine.
func TestDirect(t *testing.T) {
	api, ctx := engine(t), testContext(t)
	direct(t, api)
	p := newProxy(t, api)
	sb := newSandbox(t, newBackend(t, docker.Options{Host: p.host, Connection: docker.ConnectDirect}), nil)
	if got := sb.Info().Backend.Connection; got != "direct" {
		t.Errorf("the connection is %q, want %q", got, "direct")
	}
	e, err := sb.Start(ctx, sandbox.Command{Shell: "read line; echo $line; exit 3", OpenStdin: true})
	if err != nil {
		t.Fatal(err)
	}
	const look = "for d in /proc/[0-9]*; do case $(cat $d/comm) in sandbox-agent) ls $d/fd; esac; done 2>/dev/null; true"
	if got := output(t, sb, look); got != "" {
		t.Errorf("a command sees the agent's descriptors: %q", got)
	}
	p.cut()
	if got := output(t, sb, "echo works"); got != "works\n" {
		t.Errorf("another command has printed %q", got)
	}
	if _, err := e.WriteStdin(ctx, []byte("hi\n")); err != nil {
		t.Error(err)
	}
	if rec, err := e.Wait(ctx); err != nil || rec.Status != sandbox.Completed || *rec.ExitCode != 3 || rec.Stdout.String() != "hi\n" {
		t.Errorf("what ran: %v, %s; want exit code 3", err, describe(rec))
	}
	p.restore()
}

// Where an engine numbers processes apart from the service, nothing is taken out of the
// process that has the agent's number here: the connection is the engine's, unless it
// must be direct.
func TestDirectElsewhere(t *testing.T) {
	api, ctx := engine(t), testContext(t)
	host := newAltered(t, api, altered{exec: func(o object) { o["Pid"] = os.Getpid() }})
	for _, test := range []struct {
		way  docker.Connection
		want error
	}{{"", nil}, {docker.ConnectEngine, nil}, {docker.ConnectDirect, docker.NoDirect}} {
		b := newBackend(t, docker.Options{Host: host, Connection: test.way})
		sb, err := sandbox.New(ctx, b, nil)
		if !errors.Is(err, test.want) || test.want == nil && err != nil {
			t.Errorf("%q: got error %v, want %v", test.way, err, test.want)
		}
		if err != nil {
			nothingLeft(t, api, ownerOf(t))
			continue
		}
		if got := sb.Info().Backend.Connection; got != "engine" {
			t.Errorf("%q: the connection is %q, want %q", test.way, got, "engine")
		}
		if got := output(t, sb, "echo works"); got != "works\n" {
			t.Errorf("%q: a command has printed %q", test.way, got)
		}
		closeIn(t, sb.Close)
	}
}
