package peer_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/shared/peer"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
)

// silence is what the tests put up with.
const silence = 8 * time.Second

// A link is a connection without any buffer: a write waits for its reader.
type link struct {
	net.Conn
	reader *wire.Reader
}

func (l *link) Send(m wire.Message) error { return wire.Write(l.Conn, m) }
func (l *link) Abort()                    { l.Conn.Close() }

// pair returns a peer, its link and the other side of that, in which other runs.
func pair(t *testing.T, other func(net.Conn)) (*peer.Peer, *link) {
	t.Helper()
	near, far := net.Pipe()
	l := &link{near, wire.NewReader(near)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		other(far)
	}()
	t.Cleanup(func() {
		near.Close()
		far.Close()
		<-ended
		synctest.Wait() // for whoever was held by them
	})
	return peer.New(l, silence, true), l
}

// begin starts a command, whose time is over after a second.
func begin(p *peer.Peer, l *link) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := p.Begin(ctx, func() error { return l.Send(&wire.Start{Shell: "x"}) }, l.reader.Next)
	return err
}

// kill kills, while somebody reads what the other side says.
func kill(p *peer.Peer, l *link) error {
	go func() {
		for {
			m, err := l.reader.Next()
			if err != nil {
				p.Lose()
				return
			}
			p.Hear(m)
		}
	}()
	_, err := p.Kill()
	return err
}

func tell(m wire.Message) func(*peer.Peer, *link) error {
	return func(p *peer.Peer, _ *link) error { return p.Tell(context.Background(), m) }
}

func blocked(net.Conn) {}

func silent(c net.Conn) { io.Copy(io.Discard, c) }

// answering answers each kill with what killed gives, and a start with what started does.
func answering(started wire.Message, killed func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		r := wire.NewReader(c)
		for {
			switch m, _ := r.Next(); m.(type) {
			case nil:
				return
			case *wire.Start:
				if started != nil {
					wire.Write(c, started)
				}
			case *wire.Kill:
				killed(c)
			}
		}
	}
}

// working says for d that it is at work.
func working(c net.Conn, d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
		time.Sleep(time.Second)
		if wire.Write(c, &wire.Working{}) != nil {
			return
		}
	}
}

// Whatever the other side does, or leaves undone, no call takes longer than it may, and
// none claims to know what it does not.
func TestNoWaitIsWithoutABound(t *testing.T) {
	dead := func(c net.Conn) { wire.Write(c, &wire.Killed{}) }
	left := func(c net.Conn) { wire.Write(c, &wire.Killed{Survivors: []backend.Survivor{{PID: 7}}}) }
	slow := func(d time.Duration) func(net.Conn) {
		return func(c net.Conn) {
			working(c, d)
			dead(c)
		}
	}
	survivors := new(*backend.SurvivorsError)
	for _, tt := range []struct {
		name  string
		other func(net.Conn)
		call  func(*peer.Peer, *link) error
		want  error
		after time.Duration
	}{
		{"blocked-start", blocked, begin, peer.ErrUnsent, time.Second + silence},
		{"blocked-kill", blocked, kill, peer.ErrSilent, silence},
		{"blocked-signal", blocked, tell(&wire.Signal{Signal: backend.SIGTERM}), peer.ErrSilent, silence},
		{"blocked-signal-with-a-context", blocked, func(p *peer.Peer, _ *link) error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			return p.Tell(ctx, &wire.Signal{Signal: backend.SIGTERM})
		}, context.DeadlineExceeded, time.Second},
		{"blocked-discard", blocked, tell(&wire.Discard{}), peer.ErrSilent, silence},
		{"silent-start", silent, begin, peer.ErrLost, time.Second + silence},
		{"silent-kill", silent, kill, peer.ErrLost, silence},
		{"ended-start", func(c net.Conn) { c.Close() }, begin, peer.ErrUnsent, 0},
		{"ended-kill", func(c net.Conn) { c.Close() }, kill, peer.ErrLost, 0},
		{"dies-in-a-start", answering(&wire.Lost{Why: "x"}, dead), begin, peer.ErrLost, 0},
		{"killed-start", answering(nil, dead), begin, context.DeadlineExceeded, time.Second},
		{"surviving-start", answering(nil, left), begin, nil, time.Second},
		{"working-start", answering(nil, slow(2*silence)), begin, context.DeadlineExceeded, time.Second + 2*silence},
		{"working-kill", answering(nil, slow(2*silence)), kill, nil, 2 * silence},
		{"working-for-ever", answering(nil, slow(time.Hour)), kill, peer.ErrLost, 3 * silence},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, l := pair(t, tt.other)
				synctest.Wait()
				began := time.Now()
				err := tt.call(p, l)
				if tt.name == "surviving-start" {
					if !errors.As(err, survivors) {
						t.Errorf("got %v, want survivors", err)
					}
				} else if !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if took := time.Since(began); took < tt.after || took > tt.after+time.Second {
					t.Errorf("it took %v, want %v", took, tt.after)
				}
			})
		})
	}
}

// A peer that was given up has no other command, and answers at once that nobody knows.
func TestAPeerThatWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := pair(t, silent)
		if err := kill(p, l); !errors.Is(err, peer.ErrLost) {
			t.Errorf("the first kill: %v", err)
		}
		began := time.Now()
		if _, err := p.Kill(); !errors.Is(err, peer.ErrLost) {
			t.Errorf("the second kill: %v", err)
		}
		if p.Release() {
			t.Error("its link would serve another command")
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// A link on which something is being sent serves no other command: it would be taken for
// one about that.
func TestALinkThatIsBusyIsNotReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := pair(t, blocked)
		go p.Tell(context.Background(), &wire.Signal{Signal: backend.SIGTERM})
		synctest.Wait()
		if p.Release() {
			t.Error("its link would serve another command")
		}
		if err := p.Tell(context.Background(), &wire.Discard{}); err == nil {
			t.Error("it was told something after its release")
		}
	})
}
