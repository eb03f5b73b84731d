//go:build linux && (amd64 || arm64)

package namespace_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sandbox-go/sandbox/backend/namespace"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// asTried is the variable that makes it say whether a sandbox can be made, and what is lacking.
const asTried = "SANDBOX_TEST_TRIED"

func try() {
	b, err := namespace.New(nil)
	if err == nil {
		err = b.Close(context.Background())
	}
	say(err)
}

// say says what New has said, and ends the process.
func say(err error) {
	var lacks *namespace.Error
	switch {
	case err == nil:
		fmt.Println("made")
	case errors.As(err, &lacks):
		fmt.Printf("%s|%v|%s\n", lacks.Call, lacks.Err, lacks.Change)
	default:
		fmt.Println(err)
	}
	os.Exit(0)
}

// advice is an option of docker run.
var advice = regexp.MustCompile(`--security-opt [a-z]+=unconfined`)

// In a container New says which call failed, why, and what to change. Whoever follows that,
// step by step, gets a sandbox, whatever options were set at first.
func TestInDocker(t *testing.T) {
	if os.Getenv("DOCKER_HOST") != "" {
		t.Skip("the engine at DOCKER_HOST may not see this machine's files")
	}
	if out, err := exec.Command("docker", "version").CombinedOutput(); err != nil {
		if os.Getenv("SANDBOX_TEST_DOCKER") == "require" {
			t.Fatalf("%v: %s", err, out)
		}
		t.Skipf("no Docker engine answers: %v", err)
	}
	self, image := programtest.PublicSelf(t), emptyImage(t)
	for _, test := range []struct {
		user string
		with []string
	}{{"0", nil}, {"1000", []string{"--security-opt seccomp=unconfined"}}, {"1000", []string{"--security-opt systempaths=unconfined"}}} {
		for with := slices.Clone(test.with); ; {
			args := []string{"run", "--rm", "--network", "none", "--user", test.user, "-e", asTried + "=1", "-v", self + ":/self:ro"}
			for _, dir := range []string{"/lib", "/lib64", "/usr"} {
				if _, err := os.Stat(dir); err == nil {
					args = append(args, "-v", dir+":"+dir+":ro")
				}
			}
			args = append(args, strings.Fields(strings.Join(with, " "))...)
			out, err := exec.CommandContext(t.Context(), "docker", append(args, image, "/self")...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			said := strings.TrimSpace(string(out))
			if said == "made" {
				break
			}
			t.Logf("user %s, %v: %s", test.user, with, said)
			parts := strings.Split(said, "|")
			before := len(with)
			for _, option := range advice.FindAllString(parts[len(parts)-1], -1) {
				if !slices.Contains(with, option) {
					with = append(with, option)
				}
			}
			if len(parts) != 3 || parts[1] == "<nil>" || len(with) == before {
				t.Fatalf("with %v: no advice: %s", with, said)
			}
		}
	}
}

// emptyImage makes an image of directories only.
func emptyImage(t *testing.T) string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, mode := range map[string]int64{"tmp/": 0o1777, "run/": 0o755, "etc/": 0o755} {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: mode}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("sandbox-test-namespace:%d", os.Getpid())
	cmd := exec.Command("docker", "import", "-", name)
	cmd.Stdin = &b
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { exec.Command("docker", "rmi", name).Run() })
	return name
}

// What New advises fits what the machine says of itself.
func TestAdvice(t *testing.T) {
	const (
		restricted = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
		profile    = "/proc/self/attr/apparmor/current"
	)
	for _, test := range []struct {
		call     string
		errno    syscall.Errno
		settings map[string]string
		want     string
	}{
		{"mount(MS_PRIVATE, /)", syscall.EACCES, map[string]string{restricted: "1", profile: "unconfined"}, "kernel.apparmor_restrict_unprivileged_userns=0"},
		{"mount(MS_PRIVATE, /)", syscall.EACCES, map[string]string{restricted: "1", profile: "docker-default (enforce)"}, "docker-default refuses it"},
		{"mount(MS_PRIVATE, /)", syscall.EACCES, map[string]string{restricted: "0", profile: "docker-default (enforce)"}, "apparmor=unconfined"},
		{"mount(MS_PRIVATE, /)", syscall.EPERM, nil, "seccomp=unconfined"},
		{"mount(proc, /proc)", syscall.EPERM, map[string]string{restricted: "0", profile: "unconfined"}, "systempaths=unconfined"},
		{"mount(overlay, /)", syscall.EINVAL, nil, "Options.WriteSize"},
		{"mount(overlay, /)", syscall.EPERM, map[string]string{profile: "unconfined"}, "Linux 5.11"},
		{"resolve(/x)", syscall.EXDEV, nil, "choose another target"},
		{"mount_setattr(/x)", syscall.ENOSYS, nil, "Linux 5.12"},
		{"clone", syscall.ENOSPC, nil, "user.max_user_namespaces"},
		{"clone", syscall.EPERM, map[string]string{"/proc/sys/user/max_user_namespaces": "0"}, "user.max_user_namespaces"},
		{"clone", syscall.EPERM, map[string]string{"/proc/sys/kernel/unprivileged_userns_clone": "0"}, "kernel.unprivileged_userns_clone=1"},
		{"clone", syscall.EPERM, nil, "seccomp=unconfined"},
		{"clone", syscall.EUSERS, nil, "fewer"},
	} {
		got := namespace.ChangeEntering(test.call, test.errno, test.settings)
		if test.call == "clone" {
			got = namespace.ChangeCloning(test.errno, test.settings)
		}
		if !strings.Contains(got, test.want) {
			t.Errorf("%s: %v, %v: %q, want %q", test.call, test.errno, test.settings, got, test.want)
		}
	}
}
