package backendtest_test

import (
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/backendtest"
	"github.com/sandbox-go/sandbox/internal/faketest"
)

func TestCases(t *testing.T) {
	name := regexp.MustCompile(`^[a-z0-9-]+$`)
	seen := make(map[string]bool)
	for _, c := range backendtest.Cases() {
		if seen[c.Name] || !name.MatchString(c.Name) || !strings.HasSuffix(c.Rule, ".") {
			t.Errorf("a case is called %q, with the rule %q", c.Name, c.Rule)
		}
		seen[c.Name] = true
	}
}

// TestFaultsAreCaught holds backends to the suite that break one rule each. That
// the suite passes without a fault is the fake's own test.
func TestFaultsAreCaught(t *testing.T) {
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			i := slices.IndexFunc(backendtest.Cases(), func(c backendtest.Case) bool { return c.Name == f.caughtBy })
			if i < 0 {
				t.Fatalf("there is no case %s", f.caughtBy)
			}
			if findings := check(t, backendtest.Cases()[i], harness(f)); len(findings) == 0 {
				t.Errorf("the case %s does not notice", f.caughtBy)
			} else {
				t.Logf("noticed: %s", strings.Join(findings, "; "))
			}
		})
	}
}

// harness is the fake's, with a fault.
func harness(f fault) backendtest.Harness {
	h := faketest.Harness()
	make, lose := h.New, h.Lose
	h.New = func(tb testing.TB) backend.Backend { return faulty{make(tb), f} }
	h.Lose = func(tb testing.TB, b backend.Backend, id string) { lose(tb, b.(faulty).Backend, id) }
	return h
}

// check runs a case and returns what it found. A bubble in which nothing moves any
// more, or in which something is left at the end, is a finding too.
func check(t *testing.T, c backendtest.Case, h backendtest.Harness) (findings []string) {
	r := &recorder{}
	defer func() {
		if p := recover(); p != nil {
			findings = append(r.findings, "the bubble: "+strings.SplitN(p.(error).Error(), "\n", 2)[0])
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		r.TB = t
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Check(r, h)
		}()
		<-done
	})
	return r.findings
}

// recorder is a test that keeps its errors to itself.
type recorder struct {
	testing.TB
	mu       sync.Mutex // guards findings
	findings []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.findings = append(r.findings, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, args ...any) {
	r.TB.Logf("skipped: "+format, args...)
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.findings) > 0
}

func (r *recorder) Logf(string, ...any) {}
