package main_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Four answers at once, each of 2 × 16 MiB of zero bytes, which JSON makes six times as
// large, cost the service what is stored of them.
func TestMemoryOfLargeAnswers(t *testing.T) {
	if os.Getenv("SANDBOX_TEST_FULL") == "" || runtime.GOOS != "linux" {
		t.Skip("takes seconds: set SANDBOX_TEST_FULL=1, on Linux")
	}
	s := serve(t, nil, "-keys", keyFile(t, "k"))
	s.do(t, "k", "POST", "/agents/a/sandbox/exec", `{"command":"true"}`, 200, "")
	before := s.peak(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			resp := s.begin(t, "k", "POST", "/agents/a/sandbox/exec", `{"command":"head -c 16777216 /dev/zero; head -c 16777216 /dev/zero >&2","maxBuffer":16777216}`)
			if n, err := io.Copy(io.Discard, resp.Body); err != nil || n < 12*16<<20 {
				t.Errorf("got %d bytes, %v", n, err)
			}
		})
	}
	all.Wait()
	peak := s.peak(t)
	t.Logf("at most %d MiB, before the answers %d MiB", peak>>10, before>>10)
	if peak > 256<<10 {
		t.Errorf("the service took %d MiB, want at most 256", peak>>10)
	}
	s.stop(t)
}

// peak returns the most memory that the service has had, in KiB.
func (s *service) peak(t *testing.T) (kib int) {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			fmt.Sscan(value, &kib)
		}
	}
	return kib
}
