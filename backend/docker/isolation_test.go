package docker_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/docker"
	"github.com/sandbox-go/sandbox/internal/agent"
)

// Commands are an ordinary user's and can become nobody else.
func TestRights(t *testing.T) {
	sb := newSandbox(t, newBackend(t, docker.Options{}), nil)
	for _, test := range []struct{ name, text, want string }{
		{"user", "id -u; id -g; id -G", "1000\n1000\n1000\n"},
		{"capabilities", "grep -c -E '^Cap(Inh|Prm|Eff|Bnd|Amb):.0000000000000000$' /proc/self/status", "5\n"},
		{"no-new-privileges", "grep NoNewPrivs /proc/self/status", "NoNewPrivs:\t1\n"},
		{"seccomp", "grep Seccomp: /proc/self/status", "Seccomp:\t2\n"},
		{"network", "ls /sys/class/net", "lo\n"},
		{"agent-closed", "for f in environ mem maps fd/0 cwd exe; do head -c 1 /proc/1/$f; done 2>/dev/null; kill -9 1 2>/dev/null || echo refused", "refused\n"},
		{"agent-read-only", "touch /.sandbox/x 2>/dev/null || echo refused", "refused\n"},
		{"cgroup-read-only", "f=$(ls -d /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max 2>/dev/null); echo max >$f 2>/dev/null || echo refused", "refused\n"},
		{"descriptors", "ls /proc/self/fd | tr '\\n' ' '", "0 1 2 3 "}, // 3 is ls's own
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := run(t, sb, test.text).Stdout.String(); got != test.want {
				t.Errorf("%s: got %q, want %q", test.text, got, test.want)
			}
		})
	}
}

// The limits that the engine enforces are the ones asked for, and processes get
// those that the agent needs on top.
func TestLimits(t *testing.T) {
	const reserve = agent.Reserve + 16*agent.SupervisorThreads
	for _, test := range []struct {
		name   string
		opts   backend.Limits
		cfg    backend.Limits
		memory int64
		cpus   int64
		pids   int64
	}{
		{"defaults", backend.Limits{}, backend.Limits{}, 1 << 30, 1e9, 512 + reserve},
		{"options", backend.Limits{Memory: 256 << 20, CPUs: 0.5, PIDs: 100}, backend.Limits{}, 256 << 20, 5e8, 100 + reserve},
		{"config-wins", backend.Limits{Memory: 256 << 20, CPUs: 0.5, PIDs: 100}, backend.Limits{Memory: 128 << 20, CPUs: 2, PIDs: 50}, 128 << 20, 2e9, 50 + reserve},
		{"none", backend.Limits{}, backend.Limits{Memory: -1, CPUs: -1, PIDs: -1}, 0, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			api := engine(t)
			sb := newSandbox(t, newBackend(t, docker.Options{Limits: test.opts}), &sandbox.Config{Limits: test.cfg})
			host := inspect(t, api, containerOf(sb)).HostConfig
			var pids int64
			if host.PidsLimit != nil {
				pids = max(*host.PidsLimit, 0)
			}
			got := []int64{host.Memory, host.MemorySwap, host.NanoCPUs, pids}
			if diff := cmp.Diff([]int64{test.memory, test.memory, test.cpus, test.pids}, got); diff != "" {
				t.Errorf("memory, with swap, CPUs, processes (-want +got):\n%s", diff)
			}
		})
	}
}

// The image's environment is kept, its entrypoint, user, directory and health
// check are not.
func TestEnvironment(t *testing.T) {
	api := engine(t)
	sb := newSandbox(t, newBackend(t, docker.Options{Env: map[string]string{"FROM_OPTIONS": "yes", "LANG": "de_DE.UTF-8"}}),
		&sandbox.Config{Env: map[string]string{"FROM_CONFIG": "yes"}})
	got := strings.Fields(output(t, sb, "env -u SHLVL -u _ -u OLDPWD -u PWD env | sort; pwd"))
	want := []string{
		"FROM_CONFIG=yes", imageEnv + "=yes", "FROM_OPTIONS=yes", "HOME=/workspace", "LANG=de_DE.UTF-8",
		"LOGNAME=user", "PATH=/bin:/opt/image", "TMPDIR=/tmp", "USER=user", "/workspace",
	}
	if testImage(t, api) == made.ref {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("environment and directory (-want +got):\n%s", diff)
		}
	}
	if health := inspect(t, api, containerOf(sb)).State.Health; health != nil && health.Status != "none" && health.Status != "" {
		t.Errorf("the image's health check runs: %+v", health)
	}
	image, err := api.ImageInspect(testContext(t), testImage(t, api))
	if err != nil {
		t.Fatal(err)
	}
	// Podman has a timer for one that is none.
	if check := inspect(t, api, containerOf(sb)).Config.Healthcheck; check != nil && image.Config.Healthcheck == nil {
		t.Errorf("the image has no health check, the container has %+v", check)
	}
}

// The places where commands may write are the same on every image.
func TestFiles(t *testing.T) {
	for _, test := range []struct {
		name string
		opts docker.Options
	}{
		{"writable", docker.Options{}},
		{"read-only", docker.Options{ReadOnly: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			sb := newSandbox(t, newBackend(t, test.opts), nil)
			want := "one\n/workspace/dir\nexecutable\n"
			got := output(t, sb, `
				echo one >file; cat /home/user/file
				mkdir /home/user/dir; cd /workspace/dir; pwd
				printf '#!/bin/sh\necho executable\n' >/tmp/x; chmod +x /tmp/x; /tmp/x`)
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if rec := run(t, sb, "touch /etc/x"); rec.ExitCode == nil || *rec.ExitCode == 0 {
				t.Errorf("a command may write the image's files: %s", describe(rec))
			}
			if rec := run(t, sb, "head -c 300000000 /dev/zero >/tmp/big"); rec.ExitCode == nil || *rec.ExitCode == 0 {
				t.Errorf("/tmp has no bound: %s", describe(rec))
			}
		})
	}
}

// Two sandboxes of one backend see nothing of each other.
func TestTwoSandboxes(t *testing.T) {
	b := newBackend(t, docker.Options{})
	one, two := newSandbox(t, b, nil), newSandbox(t, b, nil)
	output(t, one, "echo secret >/workspace/file; echo secret >/tmp/file")
	e, err := one.Start(testContext(t), sandbox.Command{Shell: "echo $$ >pid; exec sleep 7777"})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other's command runs", func() bool { return output(t, one, "cat pid 2>/dev/null || true") != "" })
	got := output(t, two, "cat /workspace/file /home/user/file /tmp/file 2>/dev/null; ps | grep '[7]777'; kill -9 -1; true")
	if got != "" {
		t.Errorf("it sees %q of the other", got)
	}
	select {
	case <-e.Done():
		t.Errorf("the other's command ended: %s", describe(e.Execution()))
	default:
	}
	if got := output(t, one, "cat file"); got != "secret\n" {
		t.Errorf("the other's file is %q", got)
	}
}

// A command given as argv needs nothing in the image but its program.
func TestImageWithoutShell(t *testing.T) {
	api := engine(t)
	ref := importImage(t, api, busyboxOnly(t), nil)
	defer removeImage(api, ref)
	sb := newSandbox(t, newBackend(t, docker.Options{}), &sandbox.Config{Image: ref})
	rec, err := sb.Run(testContext(t), sandbox.Command{Argv: []string{"/busybox", "echo", "hi"}})
	if err != nil || rec.Stdout.String() != "hi\n" {
		t.Errorf("argv: %v, %s", err, describe(rec))
	}
	rec = run(t, sb, "echo hi")
	if rec.Status != sandbox.Failed || !errors.Is(rec.Err, backend.NotFound) {
		t.Errorf("shell text: %s", describe(rec))
	}
}
