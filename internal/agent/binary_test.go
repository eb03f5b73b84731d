package agent_test

import (
	"errors"
	"fmt"
	"os"
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
