//go:build linux && (amd64 || arm64)

package pool_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/shared/pool"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
)

// A fakeSpawner starts goroutines that refuse every command, after the time that it takes.
type fakeSpawner struct {
	t             *testing.T
	takes         time.Duration
	spawned, live atomic.Int32
	all           sync.WaitGroup
}

func (f *fakeSpawner) Spawn() (*net.UnixConn, int, error) {
	ours, theirs := pair(f.t)
	number := f.spawned.Add(1)
	f.live.Add(1)
	f.all.Go(func() {
		defer f.live.Add(-1)
		if wire.Greet(theirs) != nil {
			return
		}
		for r := wire.NewReader(theirs); ; {
			if _, err := r.Next(); err != nil {
				return
			}
			time.Sleep(f.takes)
			wire.Write(theirs, &wire.Refused{Err: backend.StartError{Reason: backend.NotFound}})
		}
	})
	return ours, int(number), nil
}

func (f *fakeSpawner) KillOrphans(int, int64) ([]backend.Survivor, error) { return nil, nil }

// A fullMachine has no room for a supervisor, which shows after a moment.
type fullMachine struct{ asked atomic.Int32 }

func (f *fullMachine) Spawn() (*net.UnixConn, int, error) {
	f.asked.Add(1)
	time.Sleep(100 * time.Millisecond)
	return nil, 0, syscall.EAGAIN
}

func (f *fullMachine) KillOrphans(int, int64) ([]backend.Survivor, error) { return nil, nil }

// Where there is no room for a supervisor, all who wait for one learn that at once, and not
// one after the other.
func TestNoRoom(t *testing.T) {
	f := new(fullMachine)
	p := pool.New(f, pool.Idle{Ready: 1, Kept: 4, Most: 10})
	defer p.Close()
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			_, err := p.Start(context.Background(), &wire.Start{}, &backend.Spec{Stdout: io.Discard, Stderr: io.Discard})
			if !errors.Is(err, backend.NoResources) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := f.asked.Load(); n > 12 {
		t.Errorf("it was tried %d times for 40 commands", n)
	}
}

// An endingSpawner's supervisors end at once, but for the last, which is a fakeSpawner's.
type endingSpawner struct {
	fakeSpawner
	ends []func(*net.UnixConn)
}

func (e *endingSpawner) Spawn() (*net.UnixConn, int, error) {
	number := int(e.spawned.Load())
	if number >= len(e.ends) {
		return e.fakeSpawner.Spawn()
	}
	e.spawned.Add(1)
	ours, theirs := pair(e.t)
	e.all.Go(func() {
		e.ends[number](theirs)
		theirs.Close()
	})
	return ours, number, nil
}

// A supervisor that ends before it has greeted, or before it has read the start, has not
// started the command: another does.
func TestEndedBeforeTheStart(t *testing.T) {
	ungreeted := func(*net.UnixConn) {}
	unread := func(conn *net.UnixConn) {
		wire.Greet(conn)
		raw, err := conn.SyscallConn()
		if err != nil {
			t.Error(err)
			return
		}
		raw.Read(func(fd uintptr) bool { // until something has come
			n, _, _ := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
			return n > 0
		})
	}
	for name, end := range map[string]func(*net.UnixConn){"ungreeted": ungreeted, "unread": unread} {
		t.Run(name, func(t *testing.T) {
			e := &endingSpawner{fakeSpawner: fakeSpawner{t: t}, ends: []func(*net.UnixConn){end}}
			p := pool.New(e, pool.Idle{Ready: 1, Kept: 1, Most: 1, Quiet: time.Second, Brief: time.Second})
			defer e.all.Wait()
			defer p.Close()
			atOnce(t, p, 1)
		})
	}
}

// atOnce starts n commands at the same time.
func atOnce(t *testing.T, p *pool.Pool, n int) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			_, err := p.Start(context.Background(), &wire.Start{}, &backend.Spec{Stdout: io.Discard, Stderr: io.Discard})
			if !errors.Is(err, backend.NotFound) {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// What was used at once is kept for as long as it is used again and again, but for a few
// no longer than the quiet time.
func TestKept(t *testing.T) {
	f := &fakeSpawner{t: t, takes: 20 * time.Millisecond} // so that others are needed too
	p := pool.New(f, pool.Idle{Ready: 1, Kept: 4, Most: 10, Quiet: 1200 * time.Millisecond, Brief: 500 * time.Millisecond})
	defer f.all.Wait()
	defer p.Close()
	atOnce(t, p, 8)
	spawned := f.spawned.Load()
	for range 5 {
		time.Sleep(10 * time.Millisecond)
		atOnce(t, p, 8)
	}
	if now := f.spawned.Load(); now > spawned+1 { // one more may have been made ready meanwhile
		t.Errorf("%d were started for the first 8 commands, and %d after all", spawned, now)
	}
	for _, want := range []int32{4, 1} {
		for begin := time.Now(); f.live.Load() > want; time.Sleep(time.Millisecond) {
			if time.Since(begin) > 10*time.Second {
				t.Fatalf("%d are kept, want %d", f.live.Load(), want)
			}
		}
		if want == 4 {
			time.Sleep(100 * time.Millisecond)
			if n := f.live.Load(); n != want {
				t.Errorf("%d are kept after the brief time, want %d", n, want)
			}
		}
	}
}

// Commands that end at once, one after the other, need one supervisor. While one takes
// longer, the next one's is made ready.
func TestReady(t *testing.T) {
	const long = 300 * time.Millisecond
	for _, takes := range []time.Duration{0, long} {
		f := &fakeSpawner{t: t, takes: takes}
		p := pool.New(f, pool.Idle{Ready: 1, Kept: 2, Most: 2, Quiet: time.Minute})
		longest := time.Duration(0)
		for range 3 {
			begin := time.Now()
			atOnce(t, p, 1)
			longest = max(longest, time.Since(begin))
		}
		n := f.spawned.Load()
		p.Close()
		f.all.Wait()
		switch {
		case takes == long && n != 2:
			t.Errorf("%d supervisors were started for long commands, want 2", n)
		case takes == 0 && n != 1 && longest < 5*time.Millisecond:
			t.Errorf("%d supervisors were started for short commands, want 1", n)
		}
	}
}
