//go:build linux

package escapetest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
)

// A scene is what there is outside of the attacker's sandbox that attacks aim at.
type scene struct {
	Marker   string // is in the command line of Process, and in every secret
	Process  int    // of the machine
	File     string // of the machine, open to everybody
	Socket   string // of the machine, open to everybody
	Abstract string // a socket of the machine without a file
	Port     int    // of the machine's loopback address, and of the other sandbox's
	Shm      int    // a System V shared memory's key
	Other    string // the name of a file in the other sandbox's start directory and /tmp
}

// A stage is a scene with what it is made of.
type stage struct {
	scene
	victim *exec.Cmd
	died   chan struct{}
}

const closeTime = 30 * time.Second

func closing(t testing.TB, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := f(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

func newSandbox(t *testing.T, b backend.Backend, h *Harness) sandbox.Sandbox {
	t.Helper()
	sb, err := sandbox.New(t.Context(), b, &sandbox.Options{Config: h.Config})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closing(t, sb.Close) })
	return sb
}

// newScene sets up the machine and another sandbox.
func newScene(t *testing.T, b backend.Backend, h *Harness) *stage {
	t.Helper()
	s := &stage{died: make(chan struct{})}
	s.Marker = fmt.Sprintf("secret-%d", os.Getpid())
	dir, err := os.MkdirTemp("/var/tmp", "escapetest-")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s.File, s.Socket, s.Abstract = filepath.Join(dir, "file"), filepath.Join(dir, "socket"), "\x00"+s.Marker
	if err := os.WriteFile(s.File, []byte(s.Marker), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, place := range []struct{ network, address string }{{"unix", s.Socket}, {"unix", "@" + s.Marker}, {"tcp4", "127.0.0.1:0"}} {
		l, err := net.Listen(place.network, place.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		if tcp, ok := l.Addr().(*net.TCPAddr); ok {
			s.Port = tcp.Port
		}
	}
	os.Chmod(s.Socket, 0o777)
	s.Shm = 0x5bc00000 | os.Getpid()&0xffff
	if id, err := unix.SysvShmGet(s.Shm, 4096, unix.IPC_CREAT|0o666); err == nil {
		t.Cleanup(func() { unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	}
	s.victim = exec.Command("sleep", "7200")
	s.victim.Args[0] = s.Marker
	if err := s.victim.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.died)
		s.victim.Wait()
	}()
	t.Cleanup(func() {
		s.victim.Process.Kill()
		<-s.died
	})
	s.Process = s.victim.Process.Pid
	s.Other = s.Marker
	other := newSandbox(t, b, h)
	rec, err := other.Run(t.Context(), sandbox.Command{Shell: "for d in . /tmp; do echo $0 >$d/" + s.Other + "; chmod 666 $d/" + s.Other + "; done"})
	if err != nil || rec.Err != nil {
		t.Fatal(err, rec)
	}
	return s
}

// check says whether attacks can be told from refusals: one that aims at nothing must be
// refused.
func (s *stage) check(t *testing.T, sb sandbox.Sandbox, h *Harness) {
	t.Helper()
	got := attempt(t, sb, h, Attack{Name: "no-such"}, &s.scene)
	if !strings.Contains(got, "no such attack") {
		t.Fatalf("Harness.Program does not call Main: it printed %q", got)
	}
}

// unharmed looks for what an attack has done outside.
func (s *stage) unharmed(t *testing.T) {
	t.Helper()
	select {
	case <-s.died:
		t.Error("a process of the machine was killed")
	default:
	}
	if got, err := os.ReadFile(s.File); err != nil || string(got) != s.Marker {
		t.Errorf("a file of the machine is now %q, %v", got, err)
	}
	if err := s.victim.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process of the machine: %v", err)
	}
}
