// Package faketest lets the fake backend run the programs of the conformance
// suite: it is the fake's harness, for the fake's own test and for that of the
// suite.
package faketest

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/backendtest"
	"github.com/sandbox-go/sandbox/backend/fake"
)

// Harness returns the harness of the fake backend.
func Harness() backendtest.Harness {
	programs := &sync.Map{} // from the text of a command to its Program
	return backendtest.Harness{
		New: func(testing.TB) backend.Backend { return newBackend(programs) },
		Command: func(p backendtest.Program) sandbox.Command {
			text := p.Shell()
			programs.Store(text, p)
			return sandbox.Command{Shell: text}
		},
		Bubble: true,
		Echo: func(port int) sandbox.Command {
			return sandbox.Command{Argv: []string{"echo-server", strconv.Itoa(port)}}
		},
		Connect: func(host string, port int) sandbox.Command {
			return sandbox.Command{Argv: []string{"connect", host, strconv.Itoa(port)}}
		},
		Refused: &backend.Config{Image: "refused"},
		Lose:    func(_ testing.TB, b backend.Backend, id string) { b.(*fake.Backend).Lose(id) },
	}
}

// newBackend returns a backend that knows the programs by their text.
func newBackend(programs *sync.Map) *fake.Backend {
	b := fake.New(&fake.Options{Create: func(_ context.Context, cfg *backend.Config) error {
		if cfg.Image != "" {
			return errors.ErrUnsupported
		}
		return nil
	}})
	disk := &files{sizes: make(map[file]int)}
	b.HandleFunc(
		func(cmd *fake.Command) bool {
			_, ok := programs.Load(cmd.String())
			return ok
		},
		func(p *fake.Process) int {
			program, _ := programs.Load(p.Command().String())
			return program.(backendtest.Program).Run(machine{p, disk})
		})
	b.HandleFunc(func(cmd *fake.Command) bool { return strings.HasPrefix(cmd.String(), "echo-server ") }, echo)
	b.HandleFunc(func(cmd *fake.Command) bool { return strings.HasPrefix(cmd.String(), "connect ") }, connect)
	return b
}

// echo listens on the port of its argument, and sends back what it is sent.
func echo(p *fake.Process) int {
	port, err := strconv.Atoi(p.Command().Argv[1])
	if err != nil {
		return 2
	}
	l, err := p.Listen(port)
	if err != nil {
		return 1
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return 0
		}
		go func() {
			defer conn.Close()
			io.Copy(conn, conn)
		}()
	}
}

// connect connects to the host and port of its arguments, and is what nc is then.
func connect(p *fake.Process) int {
	argv := p.Command().Argv
	conn, err := p.Dial(context.Background(), "tcp", net.JoinHostPort(argv[1], argv[2]))
	if err != nil {
		return 1
	}
	defer conn.Close()
	p.Spawn(func(q *fake.Process) int {
		io.Copy(conn, p.Stdin)
		conn.(interface{ CloseWrite() error }).CloseWrite()
		return 0
	}, fake.How{Redirected: true})
	io.Copy(p.Stdout, conn)
	return 0
}

// machine is a process that a Program acts in.
type machine struct {
	*fake.Process
	disk *files
}

func (m machine) Stdin(b []byte) (int, error) { return m.Process.Stdin.Read(b) }
func (m machine) Stdout(b []byte)             { m.Process.Stdout.Write(b) }
func (m machine) Stderr(b []byte)             { m.Process.Stderr.Write(b) }
func (m machine) Eat()                        { m.KillOOM() }

func (m machine) Await(s backend.Signal, ready func()) {
	come := m.Catch(s)
	ready()
	select {
	case <-come:
	case <-m.Done():
		m.Sleep(0)
	}
}

func (m machine) Spawn(p backendtest.Program, how backendtest.How) {
	m.Process.Spawn(func(q *fake.Process) int { return p.Run(machine{q, m.disk}) }, fake.How(how))
}

func (m machine) Append(name string) {
	m.Sleep(0) // a dead process writes nothing
	m.disk.add(m.file(name), 1)
}

func (m machine) Size(name string) int { return m.disk.add(m.file(name), 0) }

func (m machine) file(name string) file { return file{m.Command().Sandbox, name} }

// files are the files of all sandboxes.
type files struct {
	mu    sync.Mutex // guards sizes
	sizes map[file]int
}

type file struct{ sandbox, name string }

func (f *files) add(name file, n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sizes[name] += n
	return f.sizes[name]
}

var _ backendtest.Machine = machine{}
