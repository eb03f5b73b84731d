//go:build linux

// Package escapetest tries to get out of a backend's sandboxes, on Linux. A backend's own
// test is one call, and the test's own program is what attacks, from inside:
//
//	func TestMain(m *testing.M) {
//		escapetest.Main()
//		os.Exit(m.Run())
//	}
//
//	func TestEscapes(t *testing.T) {
//		escapetest.Run(t, escapetest.Harness{New: …, Program: []string{"/self"}})
//	}
//
// Each attack belongs to a promise: one of [backend.Info], or one that every sandbox has to
// keep that promises files of its own. Where Info does not promise it, the attack is skipped
// and says so. No attack does harm where it succeeds. [Attacks] lists all.
package escapetest

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
)

// A Harness is a backend under test. New and Program are required.
type Harness struct {
	// New returns a fresh backend. Run closes it.
	New func(testing.TB) backend.Backend

	// Program is the command line of the test's own program in a sandbox: it has to be
	// shown there, by a mount or in an image. Its TestMain calls Main.
	Program []string

	// Config is what sandboxes are made of.
	Config backend.Config

	// Skip names attacks that succeed for a fault that is not the backend's, and says
	// which.
	Skip map[string]string

	// Column is the backend's in this package's MATRIX.md, with which Run compares what it
	// sees. Empty is none.
	Column string
}

// An Attack is a way to get out.
type Attack struct {
	Name string // as in "processes-are-not-seen"
	Rule string // in words

	promise  promise
	terminal bool // it needs one
	try      func(*scene) error
}

// A promise is what an attack would break.
type promise struct {
	words string
	kept  func(backend.Info) bool
}

var (
	user    = promise{"a user of the sandbox's own", func(i backend.Info) bool { return i.DedicatedUser }}
	files   = promise{"files of the sandbox's own", func(i backend.Info) bool { return i.DedicatedFiles }}
	network = promise{"a network of the sandbox's own", func(i backend.Info) bool { return i.DedicatedNetwork }}
)

// Attacks returns all attacks, by theme.
func Attacks() []Attack {
	var all []Attack
	for _, theme := range [][]Attack{processAttacks(), fileAttacks(), socketAttacks(), callAttacks(), rightAttacks()} {
		all = append(all, theme...)
	}
	return all
}

// The variables of the environment that make a program an attack.
const (
	attackVariable = "SANDBOX_ESCAPE_ATTACK"
	sceneVariable  = "SANDBOX_ESCAPE_SCENE"
)

// What an attack prints.
const (
	refused = "refused: "
	escaped = "escaped: "
)

// Main makes the calling program the attack that its environment names, if any.
func Main() {
	name := os.Getenv(attackVariable)
	if name == "" {
		return
	}
	var s scene
	err := json.Unmarshal([]byte(os.Getenv(sceneVariable)), &s)
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	for _, a := range Attacks() {
		if a.Name != name {
			continue
		}
		if err := a.try(&s); err != nil {
			fmt.Println(escaped + err.Error())
		} else {
			fmt.Println(refused + name)
		}
		os.Exit(0)
	}
	fmt.Println("no such attack")
	os.Exit(2)
}

// Run tries each attack as a subtest of t.
func Run(t *testing.T, h Harness) {
	b := h.New(t)
	t.Cleanup(func() { closing(t, b.Close) })
	s := newScene(t, b, &h)
	attacker := newSandbox(t, b, &h)
	s.check(t, attacker, &h)
	seen := make(map[string]string)
	for _, a := range Attacks() {
		t.Run(a.Name, func(t *testing.T) {
			if why, ok := h.Skip[a.Name]; ok {
				seen[a.Name] = why
				t.Skip(why)
			}
			if !a.promise.kept(b.Info()) {
				seen[a.Name] = notPromised
				t.Skipf("the backend does not promise %s", a.promise.words)
			}
			seen[a.Name] = held
			got := attempt(t, attacker, &h, a, &s.scene)
			switch {
			case strings.Contains(got, escaped):
				t.Errorf("%s It is broken: %s", a.Rule, got)
			case !strings.Contains(got, refused+a.Name):
				t.Errorf("the attack printed %q", got)
			}
			s.unharmed(t)
		})
	}
	if h.Column != "" {
		compare(t, h.Column, seen)
	}
}

// attempt has the attacker try an attack, and returns what it prints.
func attempt(t *testing.T, sb sandbox.Sandbox, h *Harness, a Attack, s *scene) string {
	told, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := sandbox.Command{
		Argv: h.Program,
		Env:  map[string]string{attackVariable: a.Name, sceneVariable: string(told)},
	}
	if a.terminal {
		cmd.Terminal = &backend.TerminalSize{}
	}
	rec, err := sb.Run(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Err != nil {
		t.Fatalf("the attack could not be tried: %v", rec.Err)
	}
	return strings.TrimSpace(rec.Stdout.String() + rec.Stderr.String())
}
