package agentclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/shared/mux"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/framing"
)

// A Conn is the service's side of a connection to "sandbox-agent serve" in a
// container. Its methods may be called concurrently.
type Conn struct {
	session *yamux.Session
	first   io.Closer // what the agent was greeted through
	direct  error     // why that is also what carries everything, or nil
	options Options
	limits  wire.Limits
	env     []string
	numbers atomic.Int64 // of inputs, and of what is handed over
	handed  *handed      // nil when the connection is not direct
	sockets sockets      // that were handed over
	tasks   sync.WaitGroup

	mu   sync.Mutex // guards idle
	idle []*stream  // the last is used first: its memory is warm
}

// Options are what the caller of [Dial] knows of the container. The zero value
// knows nothing.
type Options struct {
	// Explain adds to an error of the connection why it ended. It is called before
	// the error is told, without a lock; nil adds nothing.
	Explain func(error) error

	// PID returns the agent's process, as this machine numbers it. It lets Dial take a
	// socket out of that process, so that nothing else stands between. Nil forbids that.
	PID func(context.Context) (int, error)

	// HideOOM drops what the agent says of kills for memory.
	HideOOM bool

	// Listener is what the agent is to listen for, or nil.
	Listener *Listener
}

// Dial greets the agent at the other end of rwc, which is its stdin and stdout,
// and which the Conn owns from then on, also after an error. The context covers
// that only.
func Dial(ctx context.Context, rwc io.ReadWriteCloser, opts Options) (*Conn, error) {
	c := &Conn{first: rwc, options: opts}
	stop := context.AfterFunc(ctx, func() { rwc.Close() })
	conn, err := c.greet(ctx, rwc)
	if !stop() {
		err = ctx.Err()
	}
	if err == nil {
		c.session, err = mux.Client(conn)
	}
	if err != nil {
		rwc.Close()
		if conn != nil {
			conn.Close()
		}
		if c.handed != nil {
			c.handed.close()
		}
		return nil, fmt.Errorf("agent: %w", err)
	}
	if c.direct == nil {
		c.tasks.Go(func() { c.drain(rwc) })
		c.tasks.Go(func() {
			c.handed.receive()
			c.session.Close()
		})
		c.tasks.Go(func() {
			<-c.session.CloseChan()
			c.handed.close()
			c.sockets.close()
		})
	}
	if opts.Listener != nil {
		if err := c.listen(ctx, opts.Listener); err != nil {
			c.Close()
			return nil, fmt.Errorf("agent: %w", err)
		}
	}
	return c, nil
}

// greet reads what an agent in a container says first, and returns what the two speak
// through from then on.
func (c *Conn) greet(ctx context.Context, rwc io.ReadWriteCloser) (io.ReadWriteCloser, error) {
	if err := wire.Greet(rwc); err != nil {
		return nil, err
	}
	var offer *wire.Offer
	for r := wire.NewReader(rwc); offer == nil; {
		m, err := r.Next()
		if err != nil {
			return nil, err
		}
		switch m := m.(type) {
		case *wire.Environment:
			c.env = m.Env
		case *wire.Limits:
			c.limits = *m
		case *wire.Offer:
			offer = m
		default:
			return nil, errUnexpected
		}
	}
	conn := rwc
	if socket, handed, err := c.take(ctx, offer); err != nil {
		c.direct = err
	} else {
		conn, c.handed = socket, handed
	}
	return conn, wire.Write(rwc, &wire.Choice{Direct: c.direct == nil})
}

var (
	errUnexpected = errors.New("unexpected message")
	errForbidden  = errors.New("it was not to be tried")
)

// take takes the sockets that the agent offers.
func (c *Conn) take(ctx context.Context, offer *wire.Offer) (io.ReadWriteCloser, *handed, error) {
	if c.options.PID == nil {
		return nil, nil, errForbidden
	}
	pid, err := c.options.PID(ctx)
	if err != nil {
		return nil, nil, err
	}
	return takeSockets(pid, offer.FD, offer.Secret)
}

// drainTime is how long the first connection may bring why the agent has ended.
const drainTime = time.Second

// drain reads what still comes through the first connection, and closes it some time after
// the end of the session.
func (c *Conn) drain(rwc io.ReadWriteCloser) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		io.Copy(io.Discard, rwc)
	}()
	<-c.session.CloseChan()
	select {
	case <-read:
	case <-time.After(drainTime):
	}
	rwc.Close()
	<-read
}

// Direct returns nil when nothing stands between the service and the agent, or why what
// was dialled does.
func (c *Conn) Direct() error { return c.direct }

// explain adds to an error why the connection ended, where that is known.
func (c *Conn) explain(err error) error {
	if err == nil || c.options.Explain == nil {
		return err
	}
	return c.options.Explain(err)
}

// shown returns what is to be told of an exit.
func (c *Conn) shown(exit backend.Exit) backend.Exit {
	if c.options.HideOOM {
		exit.OOMKilled = false
		if exit.Usage != nil {
			exit.Usage.OOMKills = 0
		}
	}
	return exit
}

// Limits returns what the agent saw, when it began, of the limits that the kernel
// holds the container to. A zero field is not to be seen, a negative one is none.
func (c *Conn) Limits() backend.Limits {
	return backend.Limits{Memory: c.limits.Memory, CPUs: c.limits.CPUs, PIDs: c.limits.PIDs}
}

// Protected reports whether the kernel keeps commands from signalling the agent.
func (c *Conn) Protected() bool { return c.limits.Protected }

// Environ returns the environment of the agent, KEY=VALUE; nil where it was not started
// with agent.TellEnvironment.
func (c *Conn) Environ() []string { return c.env }

// Ping waits until the agent has answered. The error is of a connection that has ended,
// or of ctx.
func (c *Conn) Ping(ctx context.Context) error {
	answered := make(chan error, 1)
	go func() {
		_, err := c.session.Ping()
		answered <- err
	}()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Done is closed when the connection has ended, for whatever reason. The agent
// then kills everything, and the outcome of what ran is unknown.
func (c *Conn) Done() <-chan struct{} { return c.session.CloseChan() }

// Close ends the connection, and with it everything that runs. It waits until no
// sink is called any more.
func (c *Conn) Close() error {
	err := c.session.Close()
	c.first.Close()
	c.tasks.Wait()
	return err
}

// Start starts a command in the container, by the rules of [backend.Instance].
// Spec.Dir must be absolute and Spec.Env complete: the agent adds nothing. User is
// a name or a number of the container, also with a group, as in "1000:1000" or
// "www-data:adm"; it may not be root, nor empty. After ErrEnded the agent was not asked.
func (c *Conn) Start(ctx context.Context, spec *backend.Spec) (backend.Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m := &wire.Start{
		Shell: spec.Shell, Argv: spec.Argv, Dir: spec.Dir, Env: spec.Env, User: spec.User,
		HasInput: spec.Stdin != nil, Terminal: spec.Terminal,
	}
	switch {
	case c.handed != nil:
		m.Handing = int(c.numbers.Add(1))
	case m.HasInput:
		m.Input = int(c.numbers.Add(1))
	}
	frame, err := wire.Append(nil, m)
	if err != nil {
		return nil, &backend.StartError{Reason: backend.TooLong, Detail: err.Error()}
	}
	lease, err := c.lease(ctx)
	if err != nil {
		return nil, err
	}
	p := newProcess(c, lease, spec)
	if m.Input > 0 {
		go c.feed(p, spec.Stdin, m.Input)
	}
	if err := p.start(ctx, frame, m.Handing); err != nil {
		return nil, c.explain(err)
	}
	c.tasks.Go(p.listen)
	return p, nil
}

// feed copies an input to a stream of its own, so that it holds nothing else up.
// Nobody waits for a Read in progress.
func (c *Conn) feed(p *process, r io.Reader, number int) {
	stream, err := c.session.OpenStream()
	if err != nil {
		return
	}
	go func() {
		<-p.noInput
		stream.Close() // not before: what was not read yet might be lost with it
	}()
	if wire.Write(stream, &wire.Input{Number: number}) != nil {
		return
	}
	if framing.Copy(stream, r) != nil {
		framing.End(stream) // a Read that failed ends the input
	}
}
