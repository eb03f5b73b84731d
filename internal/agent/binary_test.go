package agent_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sandbox-go/sandbox/internal/agent"
)

func TestBinaryIsWhatIsRecorded(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		program, hash, err := agent.Binary(arch)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(program), "\x7fELF") {
			t.Errorf("%s: no program", arch)
		}
		if recorded, err := agent.Hash(arch); err != nil || recorded != hash {
			t.Errorf("%s: got the hash %q, %v; want %q", arch, recorded, err, hash)
		}
		if size, err := agent.Size(arch); err != nil || size != len(program) {
			t.Errorf("%s: got the size %d, %v; want %d", arch, size, err, len(program))
		}
	}
	if _, _, err := agent.Binary("mips"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("for mips: %v", err)
	}
	for _, none := range []string{"mips", "", "md64"} {
		if hash, err := agent.Hash(none); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("for %q: %q, %v", none, hash, err)
		}
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
