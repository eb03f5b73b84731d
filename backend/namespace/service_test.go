//go:build linux && (amd64 || arm64)

package namespace_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox/backend/namespace"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// asRefused is the variable that makes it say why no sandbox can be made.
const asRefused = "SANDBOX_TEST_REFUSED"

// When the service is killed, its sandboxes end with everything in them, and the next one
// removes what they have left on the machine.
func TestServiceKilled(t *testing.T) {
	newBackend(t, nil) // says what the machine lacks
	dir := programtest.OwnDir(t, os.Geteuid())
	marker := fmt.Sprintf("7%d", os.Getpid())
	service := exec.Command(os.Args[0])
	service.Env = append(os.Environ(), "TMPDIR="+dir,
		programtest.AsService+"=mkdir d; touch d/f; setsid sleep "+marker+" & sleep "+marker+" & echo ready; wait")
	out, err := service.StdoutPipe()
	if err == nil {
		err = service.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the service says %q, %v", line, err)
	}
	eventually(t, "the commands run", func() bool { return len(programtest.Running(t, marker)) >= 2 })
	service.Process.Kill()
	service.Wait()
	eventually(t, "nothing is left", func() bool { return len(programtest.Running(t, marker)) == 0 })
	newBackend(t, &namespace.Options{Dir: dir})
	bases, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, base := range bases {
		if base.IsDir() {
			n++
		}
	}
	if n != 1 {
		t.Errorf("there are %d directories of services", n)
	}
}

func TestServiceKilledOneNumber(t *testing.T) { asOrdinaryUser(t, "^TestServiceKilled$") }
func TestServiceKilledSubIDs(t *testing.T)    { asUserWithSubIDs(t, "^TestServiceKilled$") }

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for begin := time.Now(); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// refuse has the machine make no more user namespaces, and says what New says.
func refuse() {
	err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	if err == nil {
		_, err = namespace.New(nil)
	}
	say(err)
}

// New says which call has failed, why, and what to change.
func TestLacking(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root, to take namespaces from a service")
	}
	newBackend(t, nil)
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}, {ContainerID: 2_000_000_000, HostID: 2_000_000_000, Size: 65_536}}
	service := exec.Command(os.Args[0])
	service.Env = append(os.Environ(), asRefused+"=1")
	service.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true}
	out, err := service.CombinedOutput()
	said := strings.Split(string(out), "|")
	if err != nil || len(said) != 3 || !strings.HasPrefix(said[0], "clone") || said[1] != syscall.ENOSPC.Error() || !strings.Contains(said[2], "user.max_user_namespaces") {
		t.Errorf("got %q, %v", out, err)
	}
}
