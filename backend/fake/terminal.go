package fake

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/sandbox-go/sandbox/backend"
)

var _ backend.Resizer = (*command)(nil)

// Terminal returns the size of the process's terminal, or nil when it has none.
//
// A terminal does here what a kernel's does by default: it makes CRLF of a newline
// that is printed, and one stream of both; it echoes what is typed, makes a newline
// of CR, and Ctrl-C sends SIGINT to the command's process group. Lines are not
// edited, and a read does not wait for a whole one. When the command itself ends, its
// process group is sent SIGHUP.
func (p *Process) Terminal() *backend.TerminalSize {
	p.alive()
	p.command.mu.Lock()
	defer p.command.mu.Unlock()
	if p.command.terminal == nil {
		return nil
	}
	return new(p.command.terminal.WithDefaults())
}

func (c *command) Resize(ctx context.Context, size backend.TerminalSize) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if isClosed(c.settled) {
		return fmt.Errorf("fake: %w", os.ErrProcessDone)
	}
	c.terminal = new(size)
	c.deliverLocked(backend.SIGWINCH)
	return nil
}

// print returns where what is written to a stream goes, and as what.
func (c *command) print(stream int, b []byte) (int, []byte) {
	if !c.onTerminal {
		return stream, b
	}
	return 0, bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))
}

// typed does what a terminal does with its input, and returns what is to be read.
func (c *command) typed(b []byte) []byte {
	if !c.onTerminal {
		return b
	}
	const ctrlC = 3
	var read []byte
	for _, key := range b {
		if key == ctrlC {
			c.out.write(0, []byte("^C"), c.main.dead)
			c.mu.Lock()
			c.deliverLocked(backend.SIGINT)
			c.mu.Unlock()
			continue
		}
		if key == '\r' {
			key = '\n'
		}
		read = append(read, key)
	}
	_, echo := c.print(0, read)
	c.out.write(0, echo, c.main.dead)
	return read
}
