//go:build linux && (amd64 || arm64)

package agentclient

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/shared/pool"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/proc"
)

// handed is what an agent in a container hands over. Its methods may be called
// concurrently.
type handed struct {
	conn   *net.UnixConn
	rights *pool.Rights // for receive
	ended  chan struct{}

	mu      sync.Mutex // guards waiting
	waiting map[int]chan []int
}

// newHanded takes the socket that comes with the first bytes of conn.
func newHanded(conn *net.UnixConn, first []byte) (*handed, error) {
	rights := pool.NewRights(conn)
	defer rights.Close()
	if _, err := io.ReadFull(rights, first); err != nil {
		return nil, err
	}
	fds := rights.Take(1)
	if fds == nil {
		return nil, errors.New("no second socket came")
	}
	f := os.NewFile(uintptr(fds[0]), "agent")
	defer f.Close()
	socket, err := socketOf[*net.UnixConn](f, net.FileConn)
	if err != nil {
		return nil, err
	}
	return &handed{conn: socket, rights: pool.NewRights(socket), ended: make(chan struct{}), waiting: make(map[int]chan []int)}, nil
}

// expect has what comes for that number be kept for take, until forget is called.
func (h *handed) expect(number int) (forget func()) {
	if h == nil {
		return func() {}
	}
	came := make(chan []int, 1)
	h.mu.Lock()
	h.waiting[number] = came
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		delete(h.waiting, number)
		h.mu.Unlock()
		select {
		case fds := <-came:
			closeAll(fds)
		default:
		}
	}
}

// take waits for the descriptors that come for that number, and returns them as files. There
// must be so many.
func (h *handed) take(number, count int) ([]*os.File, error) {
	h.mu.Lock()
	came := h.waiting[number]
	h.mu.Unlock()
	var fds []int
	select {
	case fds = <-came:
	case <-h.ended:
		select {
		case fds = <-came:
		default:
			return nil, ErrEnded
		}
	}
	if len(fds) != count {
		closeAll(fds)
		return nil, fmt.Errorf("%d descriptors came in place of %d: this process may have too many open", len(fds), count)
	}
	files := make([]*os.File, len(fds))
	for i, fd := range fds {
		files[i] = os.NewFile(uintptr(fd), "handed over")
	}
	return files, nil
}

// pipes waits for the pipes that come for that number, and has them moved as spec says.
func (h *handed) pipes(number int, spec *backend.Spec) (outcome, error) {
	want := 2
	switch {
	case spec.Terminal != nil:
		want = 1
	case spec.Stdin != nil:
		want = 3
	}
	files, err := h.take(number, want)
	if err != nil {
		return nil, err
	}
	streams, err := proc.NewStreams(files, spec)
	if err != nil {
		return nil, err
	}
	o := proc.NewOutcome()
	o.Follow(streams)
	return o, nil
}

// connection waits for the socket that comes for that number.
func (h *handed) connection(number int) (*net.TCPConn, error) {
	files, err := h.take(number, 1)
	if err != nil {
		return nil, err
	}
	defer files[0].Close()
	return socketOf[*net.TCPConn](files[0], net.FileConn)
}

// listener waits for the socket that listens which comes for that number.
func (h *handed) listener(number int) (*net.TCPListener, error) {
	files, err := h.take(number, 1)
	if err != nil {
		return nil, err
	}
	defer files[0].Close()
	return socketOf[*net.TCPListener](files[0], net.FileListener)
}

// receive takes what comes, until the socket ends.
func (h *handed) receive() {
	defer close(h.ended)
	defer h.rights.Close()
	defer h.conn.Close()
	r := wire.NewReader(h.rights)
	for {
		m, err := r.Next()
		it, ok := m.(*wire.Handed)
		if err != nil || !ok {
			return
		}
		fds := h.rights.Take(it.Count)
		if fds == nil { // this process has as many open as it may
			h.rights.Close()
		}
		h.mu.Lock()
		came, ok := h.waiting[it.Number]
		if ok {
			select {
			case came <- fds:
			default:
				ok = false // it came twice
			}
		}
		h.mu.Unlock()
		if !ok {
			closeAll(fds)
		}
	}
}

func (h *handed) close() { h.conn.Close() }

// socketOf returns the socket that a descriptor is, which stays the caller's, as open makes it
// of one: [net.FileConn] or [net.FileListener]. An agent may send one of another kind.
func socketOf[S, Opened io.Closer](f *os.File, open func(*os.File) (Opened, error)) (S, error) {
	var none S
	opened, err := open(f)
	if err != nil {
		return none, err
	}
	socket, ok := any(opened).(S)
	if !ok {
		opened.Close()
		return none, errors.New("the socket is of another kind")
	}
	return socket, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
