package docker_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/docker"
)

// pause pauses a sandbox's container, and returns what unpauses it.
func pause(tb testing.TB, api *client.Client, container string) func() {
	tb.Helper()
	if _, err := api.ContainerPause(testContext(tb), container, client.ContainerPauseOptions{}); err != nil {
		tb.Fatal(err)
	}
	return func() {
		tb.Helper()
		if _, err := api.ContainerUnpause(testContext(tb), container, client.ContainerUnpauseOptions{}); err != nil {
			tb.Fatal(err)
		}
	}
}

// A sandbox that somebody pauses is not gone: what ran goes on afterwards, and what
// was started meanwhile begins.
func TestPause(t *testing.T) {
	api, ctx := engine(t), testContext(t)
	sb := newSandbox(t, newBackend(t, docker.Options{}), nil)
	long := 2 * time.Second
	if os.Getenv("SANDBOX_TEST_FULL") == "1" {
		long = 40 * time.Second // longer than any answer may take
	}
	e, err := sb.Start(ctx, sandbox.Command{Shell: "echo begun; sleep 1; echo done; exit 3"})
	if err != nil {
		t.Fatal(err)
	}
	unpause := pause(t, api, containerOf(sb))
	began := make(chan *sandbox.Execution)
	go func() {
		rec, err := sb.Run(ctx, sandbox.Command{Shell: "echo late"})
		if err != nil {
			t.Error(err)
		}
		began <- rec
	}()
	select {
	case <-time.After(long):
	case <-e.Done():
		t.Errorf("the command ended while paused: %s", describe(e.Execution()))
	case <-sb.Gone():
		t.Error("the sandbox is gone")
	}
	unpause()
	if rec, err := e.Wait(ctx); err != nil || rec.Status != sandbox.Completed || *rec.ExitCode != 3 || rec.Stdout.String() != "begun\ndone\n" {
		t.Errorf("what ran: %v, %s", err, describe(rec))
	}
	if rec := <-began; rec == nil || rec.Status != sandbox.Completed || rec.Stdout.String() != "late\n" {
		t.Errorf("what was started meanwhile: %s", describe(rec))
	}
}

// A connection that is lost with the container paused is made again afterwards.
func TestPauseConnectionLost(t *testing.T) {
	api, ctx := engine(t), testContext(t)
	p := newProxy(t, api)
	sb := newSandbox(t, newBackend(t, docker.Options{Host: p.host, Connection: docker.ConnectEngine}), nil)
	e, err := sb.Start(ctx, sandbox.Command{Shell: "sleep 60"})
	if err != nil {
		t.Fatal(err)
	}
	unpause := pause(t, api, containerOf(sb))
	p.cut()
	if rec, err := e.Wait(ctx); err != nil || !errors.Is(rec.Err, sandbox.ErrLost) {
		t.Errorf("what ran: %v, %s", err, describe(rec))
	}
	p.restore()
	began := make(chan *sandbox.Execution)
	go func() {
		rec, err := sb.Run(ctx, sandbox.Command{Shell: "echo works"})
		if err != nil {
			t.Error(err)
		}
		began <- rec
	}()
	select {
	case rec := <-began:
		t.Fatalf("it did not wait: %s", describe(rec))
	case <-time.After(500 * time.Millisecond):
	}
	unpause()
	if rec := <-began; rec == nil || rec.Stdout.String() != "works\n" {
		t.Errorf("%s", describe(rec))
	}
}

// A timeout that ends while the container is paused ends the record in time, with
// an error that says that the kill was not seen. The kill comes late, but it comes.
func TestPauseTimeout(t *testing.T) {
	if os.Getenv("SANDBOX_TEST_FULL") != "1" {
		t.Skip("it waits for a kill that is not answered: set SANDBOX_TEST_FULL=1")
	}
	api, ctx := engine(t), testContext(t)
	sb := newSandbox(t, newBackend(t, docker.Options{}), nil)
	e, err := sb.Start(ctx, sandbox.Command{Shell: "setsid sleep 8888 & sleep 8888", Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	unpause := pause(t, api, containerOf(sb))
	begin := time.Now()
	rec, err := e.Wait(ctx)
	if err != nil || rec.Status != sandbox.TimedOut || !errors.Is(rec.Err, sandbox.ErrLost) {
		t.Errorf("%v, %s", err, describe(rec))
	}
	if took := time.Since(begin); took > 13*time.Second {
		t.Errorf("it took %v", took)
	}
	select {
	case <-sb.Gone():
		t.Error("the sandbox is gone")
	default:
	}
	unpause()
	eventually(t, "the command is dead", func() bool { return !running(t, api, containerOf(sb), "sleep 8888") })
	if got := output(t, sb, "echo works"); got != "works\n" {
		t.Errorf("the next command: %q", got)
	}
}

// docker commit pauses a container while it makes the image.
func TestCommit(t *testing.T) {
	api, ctx := engine(t), testContext(t)
	sb := newSandbox(t, newBackend(t, docker.Options{}), nil)
	e, err := sb.Start(ctx, sandbox.Command{Shell: "sleep 1; echo done"})
	if err != nil {
		t.Fatal(err)
	}
	made, err := api.ContainerCommit(ctx, containerOf(sb), client.ContainerCommitOptions{
		Config: &container.Config{}, // which Podman wants
	})
	if err != nil {
		t.Fatal(err)
	}
	defer removeImage(api, made.ID)
	if rec, err := e.Wait(ctx); err != nil || rec.Stdout.String() != "done\n" {
		t.Errorf("%v, %s", err, describe(rec))
	}
}
