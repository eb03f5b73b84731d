package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/internal/jsonstream"
)

const (
	// interactive is what runs in a terminal where no command is named.
	interactive = "command -v bash >/dev/null 2>&1 && exec bash -i; exec sh -i"

	// maxMessage is how much a client may type at once.
	maxMessage = 1 << 20

	// pongTime is how long a client may take to answer a ping.
	pongTime = 30 * time.Second
)

// openTerminal is GET /v1/sandboxes/{id}/terminal.
func openTerminal(c *call) error {
	cmd, keep, err := c.terminalCommand()
	if err != nil {
		return err
	}
	if err := c.upgradable(); err != nil {
		return err
	}
	sb, err := c.sandbox()
	if err != nil {
		return err
	}
	if err := c.authorize(&cmd); err != nil {
		return err
	}
	// The client's leaving ends ctx. The command ends with it, and with the request's
	// context too, but then the client is told.
	ctx, leave := context.WithCancel(context.WithoutCancel(c.r.Context()))
	defer leave()
	life := context.WithoutCancel(ctx)
	if !keep {
		var end context.CancelFunc
		life, end = context.WithCancel(ctx)
		defer context.AfterFunc(c.r.Context(), end)()
	}
	exec, output, err := sb.Follow(life, cmd)
	if errors.Is(err, errors.ErrUnsupported) {
		return errNoTerminals
	}
	if err != nil {
		return err
	}
	defer output.Close()
	c.execution = exec.ID()
	if err := c.api.failure(exec.Execution()); err != nil {
		return err
	}
	conn, err := c.upgrade()
	if err != nil {
		return errors.Join(err, exec.Cancel(ctx))
	}
	defer c.api.sessions.begin()()
	t := &terminal{call: c, conn: conn, exec: exec, output: output, leave: leave}
	return t.serve(ctx)
}

// terminalCommand reads what is to run, and whether it is to go on without its client.
func (c *call) terminalCommand() (cmd sandbox.Command, keep bool, err error) {
	q := c.query()
	cmd = sandbox.Command{
		Shell: q.text("command"),
		Dir:   q.text("cwd"),
		Terminal: &sandbox.TerminalSize{
			Rows: uint16(q.integer("rows", 0, 0, math.MaxUint16)),
			Cols: uint16(q.integer("cols", 0, 0, math.MaxUint16)),
		},
	}
	if cmd.Shell == "" {
		cmd.Shell = interactive
	}
	return cmd, q.flag("keep"), q.err
}

// A terminal is one WebSocket on a command's terminal. Binary messages are what is
// typed and what is printed, text messages are about it.
type terminal struct {
	*call
	conn   *websocket.Conn
	exec   sandbox.Exec
	output sandbox.Stream
	leave  context.CancelFunc // the client has gone

	typing  atomic.Bool // the command has not taken what was typed: no pong is read
	pinging atomic.Bool
}

// serve serves the connection to its end.
func (t *terminal) serve(ctx context.Context) error {
	var parts sync.WaitGroup
	defer parts.Wait()
	defer t.conn.CloseNow()
	defer t.leave()
	// The client's end ends ctx; the command's end ends writes that nobody takes.
	writes, stop := context.WithCancel(ctx)
	defer whenClosed(t.exec.Done(), func() {
		defer time.AfterFunc(sendTime, stop).Stop()
		<-writes.Done()
	})()
	defer stop()
	parts.Go(func() { t.read(ctx) })
	err := t.tell(writes, "start", map[string]any{"id": t.exec.ID(), "sandbox_id": t.exec.Execution().SandboxID})
	if err != nil {
		return err
	}
	if err := t.print(writes, &parts); err != nil {
		return err
	}
	rec := t.exec.Execution()
	if failure := t.api.failure(rec); failure != nil {
		shown, _ := t.api.shape(t.api.explain(failure)).(sandboxErrorBody)
		err = errors.Join(failure, t.tell(writes, "error", map[string]any{"error": shown.Error}))
	} else {
		err = t.exit(writes, rec)
	}
	return errors.Join(err, t.conn.Close(websocket.StatusNormalClosure, "the command has ended"))
}

// print sends what the command prints, to the last byte. A client that does not read
// holds the command.
func (t *terminal) print(ctx context.Context, parts *sync.WaitGroup) error {
	for {
		wait, cancel := context.WithTimeout(ctx, pingInterval)
		chunk, err := t.output.Next(wait)
		silent := err != nil && err == wait.Err()
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case silent:
			parts.Go(func() { t.ping(ctx) })
			continue
		case err != nil: // the execution's own end, which its record tells
			return nil
		case chunk.Gap > 0:
			err = t.tell(ctx, "gap", map[string]any{"bytes": chunk.Gap})
		default:
			err = t.conn.Write(ctx, websocket.MessageBinary, chunk.Data)
		}
		if err != nil {
			return err
		}
	}
}

// ping finds out whether the client is still there.
func (t *terminal) ping(ctx context.Context) {
	if !t.pinging.CompareAndSwap(false, true) {
		return
	}
	defer t.pinging.Store(false)
	ctx, cancel := context.WithTimeout(ctx, pongTime)
	defer cancel()
	if err := t.conn.Ping(ctx); err != nil && !t.typing.Load() {
		t.leave()
	}
}

// read takes what the client sends, until it leaves.
func (t *terminal) read(ctx context.Context) {
	defer t.leave()
	t.conn.SetReadLimit(maxMessage)
	for {
		// A cancelled Read would close the connection before the last message.
		kind, data, err := t.conn.Read(context.WithoutCancel(ctx))
		if err != nil {
			return
		}
		if kind == websocket.MessageText {
			if err := t.control(ctx, data); err != nil {
				t.conn.Close(websocket.StatusPolicyViolation, closeReason(err))
				return
			}
			continue
		}
		t.typing.Store(true)
		_, err = t.exec.WriteStdin(ctx, data)
		t.typing.Store(false)
		if err != nil && ctx.Err() != nil {
			return
		}
		// What is typed at a command that has ended is typed at nobody.
	}
}

// control does what a text message asks for.
func (t *terminal) control(ctx context.Context, message []byte) error {
	var (
		kind       string
		rows, cols int
	)
	err := decode(message, map[string]field{
		"type": intoString(&kind),
		"rows": intoInteger(&rows, 0, math.MaxUint16),
		"cols": intoInteger(&cols, 0, math.MaxUint16),
	})
	if err != nil {
		return err
	}
	if kind != "resize" {
		return invalid("type", fmt.Sprintf("%q is unknown", kind))
	}
	_ = t.exec.Resize(ctx, sandbox.TerminalSize{Rows: uint16(rows), Cols: uint16(cols)}) // it may just have ended
	return nil
}

// closeReason returns as much of an error as a close frame holds.
func closeReason(err error) string {
	const most = 123 // RFC 6455, section 5.5
	reason := err.Error()
	for i := range reason {
		if i > most-4 {
			return reason[:i]
		}
	}
	return reason
}

// tell sends a text message of that type.
func (t *terminal) tell(ctx context.Context, kind string, message map[string]any) error {
	message["type"] = kind
	return t.message(ctx, message)
}

// exit sends the last message, with the record.
func (t *terminal) exit(ctx context.Context, rec *sandbox.Execution) error {
	return t.message(ctx, struct {
		Type      string           `json:"type"`
		Execution *executionObject `json:"execution"`
	}{"exit", describeExecution(rec)})
}

// message sends a text message, as it is encoded.
func (t *terminal) message(ctx context.Context, v any) error {
	w, err := t.conn.Writer(ctx, websocket.MessageText)
	if err != nil {
		return err
	}
	return errors.Join(jsonstream.Write(w, v), w.Close())
}
