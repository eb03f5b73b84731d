package agent_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sandbox-go/sandbox/internal/agent"
)

func TestBinaryIsWhatIsRecorded(t *testing.T) {
	sums, err := os.ReadFile("bin/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		program, hash, err := agent.Binary(arch)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(program), "\x7fELF") {
			t.Errorf("%s: no program", arch)
		}
		if line := fmt.Sprintf("%s  sandbox-agent-linux-%s\n", hash, arch); !strings.Contains(string(sums), line) {
			t.Errorf("SHA256SUMS lacks %q", line)
		}
	}
	if _, _, err := agent.Binary("mips"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("for mips: %v", err)
	}
}

// A service that has only local sandboxes carries the program for its own machine only.
func TestLocalCarriesOneProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quickstart")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/sandbox-go/sandbox/examples/quickstart").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	service, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		program, err := os.ReadFile("bin/sandbox-agent-linux-" + arch + ".gz")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := bytes.Contains(service, program), runtime.GOOS == "linux" && runtime.GOARCH == arch; got != want {
			t.Errorf("has the program for %s: %v, want %v", arch, got, want)
		}
	}
}
