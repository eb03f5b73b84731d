package relay_test

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox/internal/relay"
)

// counted is a connection that counts what it carries, however it does.
type counted struct {
	net.Conn
	read, written, past atomic.Int64
	most                int64
	copies              atomic.Bool // nothing may go past it
}

func (c *counted) Raw() syscall.RawConn {
	if c.copies.Load() {
		return nil
	}
	return relay.RawOf(c.Conn)
}

func (c *counted) Carried(read, written int) error {
	c.read.Add(int64(read))
	c.written.Add(int64(written))
	if past := c.past.Add(int64(read + written)); c.most > 0 && past > c.most {
		return errors.New("too much")
	}
	return nil
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

func (c *counted) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

// countedRelay relays between two connections that are counted, and returns the other end
// of each. The second fails after most bytes that went past it, unless that is 0.
func countedRelay(t *testing.T, most int64) (one, other *net.TCPConn, second *counted, over chan struct{}) {
	one, a := pair(t)
	other, b := pair(t)
	second = &counted{Conn: b, most: most}
	over = make(chan struct{})
	go func() {
		defer close(over)
		relay.Both(&counted{Conn: a}, second)
	}()
	return one, other, second, over
}

// What the kernel passes on is exact, and counted, in more directions at once than there are
// pipes for; and when nothing runs any more, no pipe is left.
func TestSplicedBytesAreExact(t *testing.T) {
	const relays = 12
	text := strings.Repeat("0123456789abcdef", 1<<16)
	before := descriptors(t)
	var past atomic.Int64
	var all sync.WaitGroup
	for range relays {
		one, other, second, over := countedRelay(t, 0)
		all.Go(func() {
			io.WriteString(one, text)
			one.CloseWrite()
		})
		all.Go(func() {
			io.Copy(struct{ io.Writer }{other}, struct{ io.Reader }{other})
			other.CloseWrite()
		})
		all.Go(func() {
			if got, err := io.ReadAll(one); string(got) != text || err != nil {
				t.Errorf("%d bytes of %d came back, %v", len(got), len(text), err)
			}
			<-over
			if read, written := second.read.Load(), second.written.Load(); read != int64(len(text)) || written != read {
				t.Errorf("%d bytes were read and %d written", read, written)
			}
			past.Add(second.past.Load())
			one.Close()
			other.Close()
		})
	}
	all.Wait()
	if runtime.GOOS == "linux" && past.Load() == 0 {
		t.Error("all bytes went through buffers")
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, after %d", after, before)
	}
}

// A connection that may carry no more ends what brings it more.
func TestSplicedBytesAreBounded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the kernel passes bytes on by itself on Linux only")
	}
	one, other, _, over := countedRelay(t, 1<<20)
	go io.Copy(io.Discard, one)
	n, _ := io.Copy(struct{ io.Writer }{other}, endless{})
	<-over
	if n > 32<<20 {
		t.Errorf("%d bytes were taken", n)
	}
}

// A connection that may be passed by while it waits for bytes, and no more when they come, is not.
func TestPassedByAfterAWait(t *testing.T) {
	one, other, second, over := countedRelay(t, 0)
	defer func() {
		one.Close()
		other.Close()
		<-over
	}()
	send := func() {
		const size = 64 << 10
		go one.Write(make([]byte, size))
		if _, err := io.CopyN(io.Discard, struct{ io.Reader }{other}, size); err != nil {
			t.Fatal(err)
		}
	}
	send()
	time.Sleep(50 * time.Millisecond) // the relay waits
	second.copies.Store(true)
	before := second.past.Load()
	send()
	if after := second.past.Load(); after > before {
		t.Errorf("%d bytes went past it", after-before)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// descriptors counts those of this process, where it can.
func descriptors(t *testing.T) int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil && runtime.GOOS == "linux" {
		t.Fatal(err)
	}
	return len(all)
}
