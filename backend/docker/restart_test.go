package docker_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/docker"
)

// The test binary runs itself as a service that a test kills.
const (
	serviceVar  = "SANDBOX_TEST_SERVICE"
	ownerVar    = "SANDBOX_TEST_OWNER"
	imageVar    = "SANDBOX_TEST_SERVICE_IMAGE"
	lifetimeVar = "SANDBOX_TEST_LIFETIME"
	abandonVar  = "SANDBOX_TEST_ABANDON"
	programVar  = "SANDBOX_TEST_PROGRAM"
)

var services = map[string]func(){"sleep": sleepService, "intruder": intruderService}

// sleepService has one sandbox with a sleep in it. It prints the sandbox's id when
// the sleep runs, and lives until it is killed.
func sleepService() {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	lifetime, err := time.ParseDuration(os.Getenv(lifetimeVar))
	check(err)
	abandon, err := time.ParseDuration("0" + os.Getenv(abandonVar))
	check(err)
	b, err := docker.New(context.Background(), &docker.Options{Owner: os.Getenv(ownerVar), Image: os.Getenv(imageVar), AbandonAfter: abandon})
	check(err)
	sb, err := sandbox.New(context.Background(), b, &sandbox.Options{Config: sandbox.Config{
		Lifetime: lifetime, Env: map[string]string{"KEPT": "yes"}, Labels: map[string]string{"room": "blue"},
		Egress: &sandbox.Egress{Allow: []string{"allowed.test"}},
	}})
	check(err)
	e, stream, err := sb.Follow(context.Background(), sandbox.Command{Shell: "echo kept >file; echo begun; sleep 5555"})
	check(err)
	_, err = stream.Next(context.Background())
	check(err)
	fmt.Println(sb.ID())
	<-e.Done()
}

// startService starts a service of that owner and returns its sandbox's id, and a
// function that kills it.
func startService(tb testing.TB, owner string, lifetime time.Duration) (id string, kill func()) {
	tb.Helper()
	image := testImage(tb, engine(tb))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serviceVar+"=sleep", ownerVar+"="+owner, imageVar+"="+image, lifetimeVar+"="+lifetime.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	killed := false
	kill = func() {
		if !killed {
			killed = true
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
	tb.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatalf("the service: %v", err)
	}
	return strings.TrimSpace(line), kill
}

// What ran for a service that was killed ends at once, and the service that comes
// after it has recovered its sandbox.
func TestRestart(t *testing.T) {
	api, ctx := engine(t), testContext(t)
	owner := ownerOf(t)
	id, kill := startService(t, owner, time.Hour)
	kill()
	begin := time.Now()
	eventually(t, "the command is dead", func() bool { return !running(t, api, "sandbox-"+id, "sleep 5555") })
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("the command lived for %v", took)
	}

	b := newBackend(t, docker.Options{Owner: owner})
	opened, err := b.Recover(ctx)
	if err != nil || len(opened) != 1 {
		t.Fatalf("opened %v, %v", opened, err)
	}
	o := opened[0]
	want := &backend.Config{ID: id, Lifetime: time.Hour, Env: map[string]string{"KEPT": "yes"}, Labels: map[string]string{"room": "blue"}, Egress: &backend.Egress{Allow: []string{"allowed.test"}}}
	if diff := cmp.Diff(want, o.Config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if age := time.Since(o.CreatedAt); age < 0 || age > time.Minute {
		t.Errorf("created at %v", o.CreatedAt)
	}
	if _, err := o.Instance.(backend.Listener).Listen(ctx); err != nil {
		t.Errorf("listen: %v", err)
	}
	var out strings.Builder
	p, err := o.Instance.Start(ctx, &backend.Spec{Shell: "cat file; pwd; id -u; echo $HOME $" + imageEnv, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Exit(); err != nil || exit.Code != 0 {
		t.Errorf("exit %+v, %v", exit, err)
	}
	if want := "kept\n/workspace\n1000\n/workspace"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("output %q, want %q", out.String(), want)
	}
	if again, err := b.Recover(ctx); err != nil || len(again) != 0 {
		t.Errorf("opened again: %v, %v", again, err)
	}
	closeIn(t, b.Close)
	nothingLeft(t, api, owner)
}

// A sandbox that a living service is connected to, or that is another owner's, is
// not recovered.
func TestRestartOthers(t *testing.T) {
	ctx := testContext(t)
	owner := ownerOf(t)
	_, kill := startService(t, owner, time.Hour)
	for _, owner := range []string{owner, owner + "/other"} {
		b := newBackend(t, docker.Options{Owner: owner})
		if opened, err := b.Recover(ctx); err != nil || len(opened) != 0 {
			t.Errorf("%s opened %v, %v", owner, opened, err)
		}
	}
	kill()
	b := newBackend(t, docker.Options{Owner: owner})
	if opened, err := b.Recover(ctx); err != nil || len(opened) != 1 {
		t.Errorf("after the kill it opened %v, %v", opened, err)
	}
}

// A container ends at its deadline with no service left, and what is left of it
// goes when a service of the same owner starts.
func TestDeadline(t *testing.T) {
	api := engine(t)
	owner := ownerOf(t)
	id, kill := startService(t, owner, 3*time.Second)
	kill()
	eventually(t, "the container is gone", func() bool {
		_, err := api.ContainerInspect(testContext(t), "sandbox-"+id, client.ContainerInspectOptions{})
		return err != nil
	})
	newBackend(t, docker.Options{Owner: owner + "/other"})
	if len(left(t, api, owner)) == 0 {
		t.Error("another owner's volume was removed")
	}
	newBackend(t, docker.Options{Owner: owner})
	nothingLeft(t, api, owner)
}

// A container without a lifetime ends when no service has come back for long
// enough, and not while there is one.
func TestAbandoned(t *testing.T) {
	t.Setenv(abandonVar, "2s")
	api := engine(t)
	id, kill := startService(t, ownerOf(t), 0)
	there := func() bool {
		_, err := api.ContainerInspect(testContext(t), "sandbox-"+id, client.ContainerInspectOptions{})
		return err == nil
	}
	time.Sleep(4 * time.Second)
	if !there() {
		t.Error("it has ended under its service")
	}
	kill()
	eventually(t, "the container is gone", func() bool { return !there() })
	newBackend(t, docker.Options{})
	nothingLeft(t, api, ownerOf(t))
}

// running reports whether a process of that command line is in the container.
func running(tb testing.TB, api *client.Client, container, command string) bool {
	tb.Helper()
	top, err := api.ContainerTop(testContext(tb), container, client.ContainerTopOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	for _, p := range top.Processes {
		if strings.Contains(strings.Join(p, " "), command) {
			return true
		}
	}
	return false
}
