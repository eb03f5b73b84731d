package docker_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/docker"
)

// A container that is taken away under a running command ends it as failed, with
// no exit code, and the sandbox is gone.
func TestDeath(t *testing.T) {
	for _, test := range []struct {
		name string
		why  string // what the record's error says
		do   func(ctx context.Context, api *client.Client, container string) error
	}{
		{"removed", "container sandbox-sbx_", func(ctx context.Context, api *client.Client, container string) error {
			_, err := api.ContainerRemove(ctx, container, client.ContainerRemoveOptions{Force: true})
			return err
		}},
		{"killed", "was killed", func(ctx context.Context, api *client.Client, container string) error {
			_, err := api.ContainerKill(ctx, container, client.ContainerKillOptions{Signal: "KILL"})
			return err
		}},
		{"stopped", "container sandbox-sbx_", func(ctx context.Context, api *client.Client, container string) error {
			_, err := api.ContainerStop(ctx, container, client.ContainerStopOptions{})
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			api, ctx := engine(t), testContext(t)
			b := &keeping{Backend: newBackend(t, docker.Options{})}
			sb := newSandbox(t, b, nil)
			p := b.start(t, "sleep 60")
			e, stream, err := sb.Follow(ctx, sandbox.Command{Shell: "echo begun; trap '' TERM; sleep 60"})
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			if _, err := stream.Next(ctx); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			if err := test.do(ctx, api, containerOf(sb)); err != nil {
				t.Fatal(err)
			}
			rec, err := e.Wait(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if rec.Status != sandbox.Failed || rec.ExitCode != nil || rec.Signal != 0 || !errors.Is(rec.Err, sandbox.ErrLost) || rec.Stdout.String() != "begun\n" {
				t.Errorf("the record: %s", describe(rec))
			}
			if _, err := p.Exit(); err == nil || !strings.Contains(err.Error(), test.why) {
				t.Errorf("the driver does not say why: %v", err)
			}
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			select {
			case <-sb.Gone():
			case <-ctx.Done():
				t.Error("the sandbox is not gone")
			}
			if _, err := sb.Start(ctx, sandbox.Command{Shell: "true"}); !errors.Is(err, sandbox.ErrGone) {
				t.Errorf("a start then: %v", err)
			}
			closeIn(t, sb.Close)
			nothingLeft(t, api, ownerOf(t))
		})
	}
}

// The death of a container is seen by each of the ways by which it shows, whatever the
// others say, and ends the start of a command too.
func TestDeathIsSeen(t *testing.T) {
	for _, test := range []struct {
		name   string
		silent []string // what the engine is not heard on
	}{
		{"by-its-connection", []string{"/events", "/containers/json"}},
		{"by-an-event", []string{"/exec/", "/containers/json"}},
		{"by-a-look", []string{"/events", "/exec/"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			api, ctx := engine(t), testContext(t)
			p := newProxy(t, api)
			sb := newSandbox(t, newBackend(t, docker.Options{Host: p.host, Connection: docker.ConnectEngine}), nil)
			e, err := sb.Start(ctx, sandbox.Command{Shell: "sleep 60"})
			if err != nil {
				t.Fatal(err)
			}
			p.silence(test.silent...)
			starting := make(chan error, 1)
			go func() {
				_, err := sb.Start(ctx, sandbox.Command{Shell: "sleep 60"})
				starting <- err
			}()
			if _, err := api.ContainerKill(ctx, containerOf(sb), client.ContainerKillOptions{Signal: "KILL"}); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			select {
			case <-sb.Gone():
			case <-ctx.Done():
				t.Fatal("the sandbox is not gone")
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
			<-starting
			if rec, err := e.Wait(ctx); err != nil || !errors.Is(rec.Err, sandbox.ErrLost) {
				t.Errorf("%v, %s", err, describe(rec))
			}
		})
	}
}

// A connection that the engine does not make holds no start up: it ends when the
// container does.
func TestDeathWhileConnecting(t *testing.T) {
	api, ctx := engine(t), testContext(t)
	p := newProxy(t, api)
	sb := newSandbox(t, newBackend(t, docker.Options{Host: p.host, Connection: docker.ConnectEngine}), nil)
	p.cut()
	p.silence("/exec/")
	p.restore()
	starting := make(chan error, 1)
	go func() {
		_, err := sb.Start(ctx, sandbox.Command{Shell: "true"})
		starting <- err
	}()
	select {
	case err := <-starting:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	if _, err := api.ContainerKill(ctx, containerOf(sb), client.ContainerKillOptions{Signal: "KILL"}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-starting:
		if !errors.Is(err, sandbox.ErrGone) {
			t.Errorf("got %v, want %v", err, sandbox.ErrGone)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the start has not ended")
	}
}

// A connection that the engine does not make is given up.
func TestConnectingIsBounded(t *testing.T) {
	if os.Getenv("SANDBOX_TEST_FULL") != "1" {
		t.Skip("it waits for an engine that does not answer: set SANDBOX_TEST_FULL=1")
	}
	api, ctx := engine(t), testContext(t)
	p := newProxy(t, api)
	sb := newSandbox(t, newBackend(t, docker.Options{Host: p.host, Connection: docker.ConnectEngine}), nil)
	p.cut()
	p.silence("/exec/")
	p.restore()
	begin := time.Now()
	rec, err := sb.Run(ctx, sandbox.Command{Shell: "true"})
	var refused *backend.StartError
	if err != nil || !errors.As(rec.Err, &refused) || refused.Reason != backend.CannotStart {
		t.Errorf("%v, %s", err, describe(rec))
	}
	if took := time.Since(begin); took > 50*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A container that is missing is gone, also where the engine says so with an internal
// error.
func TestDeathInternalError(t *testing.T) {
	api, ctx := engine(t), testContext(t)
	b, err := docker.New(ctx, &docker.Options{
		Host: newAltered(t, api, altered{busy: true}), Owner: ownerOf(t), Image: testImage(t, api),
	})
	if err != nil {
		t.Fatal(err)
	}
	sb := newSandbox(t, b, nil)
	if _, err := api.ContainerRemove(ctx, containerOf(sb), client.ContainerRemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-sb.Gone():
	case <-ctx.Done():
		t.Error("the sandbox is not gone")
	}
	closeIn(t, b.Close)
	nothingLeft(t, api, ownerOf(t))
}

// A keeping backend keeps the last instance that it made.
type keeping struct {
	backend.Backend
	instance backend.Instance
}

func (k *keeping) Create(ctx context.Context, cfg *backend.Config) (backend.Instance, error) {
	var err error
	k.instance, err = k.Backend.Create(ctx, cfg)
	return k.instance, err
}

// start starts a command without package sandbox.
func (k *keeping) start(tb testing.TB, text string) backend.Process {
	tb.Helper()
	p, err := k.instance.Start(testContext(tb), &backend.Spec{Shell: text, Stdout: io.Discard, Stderr: io.Discard})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// A connection that breaks ends what runs over it, on both sides, and is made
// again for the next command.
func TestConnectionLost(t *testing.T) {
	api, ctx := engine(t), testContext(t)
	p := newProxy(t, api)
	sb := newSandbox(t, newBackend(t, docker.Options{Host: p.host, Connection: docker.ConnectEngine}), nil)
	output(t, sb, "echo kept >file")
	e, err := sb.Start(ctx, sandbox.Command{Shell: "sleep 6666"})
	if err != nil {
		t.Fatal(err)
	}
	p.cut()
	rec, err := e.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Status != sandbox.Failed || rec.ExitCode != nil || !errors.Is(rec.Err, sandbox.ErrLost) {
		t.Errorf("the record: %s", describe(rec))
	}
	rec, err = sb.Run(ctx, sandbox.Command{Shell: "echo runs"})
	var refused *backend.StartError
	if err != nil || !errors.As(rec.Err, &refused) || refused.Reason != backend.CannotStart || strings.Contains(refused.Detail, "/") {
		t.Errorf("a command for which there is no connection: %v, %s", err, describe(rec))
	}
	p.restore()
	if got := output(t, sb, "cat file; ps | grep '[6]666'; true"); got != "kept\n" {
		t.Errorf("the next command: %q", got)
	}
}
