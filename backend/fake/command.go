package fake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

var (
	errLost = errors.New("fake: connection lost")
	errGone = errors.New("fake: sandbox is gone")
)

// killTime is how long a kill waits for the processes to be gone.
const killTime = 10 * time.Second

// command is one started command and all its processes: the driver's side.
type command struct {
	inst *instance
	cmd  *Command
	in   *input
	out  *output
	main *Process

	onTerminal bool

	run     Handler       // of main
	settled chan struct{} // closed when exit, err and mark are set
	exited  chan struct{} // closed when the output up to mark is with the sinks, too
	empty   chan struct{} // closed when no process is left, for good
	over    chan struct{} // closed when no sink is called any more

	mu   sync.Mutex // guards what follows
	live []*Process
	exit backend.Exit
	err  error // the outcome is unknown
	mark int64 // output written when the main process ended

	oomKills int // processes that died of KillOOM
	terminal *backend.TerminalSize
}

func newCommand(i *instance, cmd *Command, spec *backend.Spec, h Handler) *command {
	c := &command{
		inst:    i,
		cmd:     cmd,
		in:      newInput(),
		out:     newOutput(spec.Stdout, spec.Stderr),
		run:     h,
		settled: make(chan struct{}),
		exited:  make(chan struct{}),
		empty:   make(chan struct{}),
		over:    make(chan struct{}),

		onTerminal: spec.Terminal != nil,
		terminal:   spec.Terminal,
	}
	i.pid++
	c.main = newProcess(c, i.pid)
	c.main.group = c.main.pid
	c.main.Stdin = stdin{c.main}
	c.live = []*Process{c.main}
	c.out.hold()
	if spec.Stdin == nil {
		c.in.finish()
	} else {
		go c.in.feed(spec.Stdin, c.typed)
	}
	return c
}

// begin lets the command run.
func (c *command) begin() {
	go func() {
		c.out.pump()
		<-c.exited
		close(c.over)
		c.forget()
	}()
	go func() {
		<-c.settled
		c.out.flush(c.mark)
		close(c.exited)
	}()
	go c.main.run(c.run)
}

func (c *command) Exited() <-chan struct{} { return c.exited }

func (c *command) Exit() (backend.Exit, error) {
	<-c.exited
	return c.exit, c.err
}

func (c *command) OutputOver() <-chan struct{} { return c.over }

func (c *command) DiscardOutput() {
	c.record(Call{Op: OpDiscard})
	c.out.discard()
}

func (c *command) Signal(ctx context.Context, s backend.Signal) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.record(Call{Op: OpSignal, Signal: s})
	if !s.Valid() {
		return fmt.Errorf("fake: %v is no signal", s)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if isClosed(c.settled) {
		return fmt.Errorf("fake: %w", os.ErrProcessDone)
	}
	c.deliverLocked(s)
	return nil
}

// deliverLocked gives the command's process group a signal.
func (c *command) deliverLocked(s backend.Signal) {
	for _, p := range c.live {
		if p.group == c.main.group {
			p.deliverLocked(s)
		}
	}
}

func (c *command) Kill() error {
	c.record(Call{Op: OpKill})
	c.killAll()
	timer := time.NewTimer(killTime)
	defer timer.Stop()
	var err error
	select {
	case <-c.empty:
	case <-timer.C:
		err = c.survivors()
		c.settle(backend.Exit{}, err)
	}
	c.out.end()
	<-c.over
	return err
}

// end kills what is left and waits for it within ctx.
func (c *command) end(ctx context.Context) error {
	c.killAll()
	select {
	case <-c.empty:
	case <-ctx.Done():
		return fmt.Errorf("fake: %w: %w", ctx.Err(), c.survivors())
	}
	c.out.end()
	select {
	case <-c.over:
	case <-ctx.Done():
		return fmt.Errorf("fake: a sink holds the output: %w", ctx.Err())
	}
	return nil
}

// lose makes the outcome unknown, unless it is known already.
func (c *command) lose(err error) {
	c.settle(backend.Exit{}, err)
	c.killAll()
	c.out.end()
}

func (c *command) killAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.live {
		p.killLocked(backend.SIGKILL)
	}
}

// settle fixes how the command ended, once.
func (c *command) settle(exit backend.Exit, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if isClosed(c.settled) {
		return
	}
	c.exit, c.err, c.mark = exit, err, c.out.written()
	c.in.close()
	close(c.settled)
}

// add makes p a process of the command; it reports false when the parent is
// dead.
func (c *command) add(parent, p *Process) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if isClosed(parent.dead) {
		return false
	}
	p.ignored = slices.Clone(parent.ignored)
	c.live = append(c.live, p)
	if !p.redirected {
		c.out.hold()
	}
	return true
}

// remove takes p, which has ended, from the command.
func (c *command) remove(p *Process) {
	if p == c.main {
		c.settle(p.exit(), nil)
	}
	c.mu.Lock()
	c.live = slices.DeleteFunc(c.live, func(q *Process) bool { return q == p })
	if p == c.main && c.onTerminal {
		c.deliverLocked(backend.SIGHUP)
	}
	none := len(c.live) == 0
	c.mu.Unlock()
	if !p.redirected {
		c.out.release()
	}
	close(p.gone)
	if none {
		close(c.empty)
		c.forget()
	}
}

// forget takes the command from its sandbox once nothing of it is left.
func (c *command) forget() {
	if isClosed(c.empty) && isClosed(c.over) {
		c.inst.forget(c)
	}
}

func (c *command) survivors() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, _, _ := strings.Cut(c.cmd.String(), " ")
	e := &backend.SurvivorsError{}
	for _, p := range c.live {
		e.Survivors = append(e.Survivors, backend.Survivor{PID: p.pid, Name: name})
	}
	slices.SortFunc(e.Survivors, func(a, b backend.Survivor) int { return cmp.Compare(a.PID, b.PID) })
	return e
}

func (c *command) record(call Call) {
	call.Sandbox = c.inst.id
	call.Command = c.cmd
	c.inst.b.record(call)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
