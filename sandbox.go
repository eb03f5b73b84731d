package sandbox

import (
	"context"
	"log/slog"
	"net"
	"time"
)

// A Sandbox is a place with a file system of its own where commands run. Its
// methods may be called concurrently.
//
// Only this package implements Sandbox. To decorate one, embed it.
type Sandbox interface {
	// ID returns the sandbox's id, "sbx_" and 26 letters and digits.
	ID() string

	// Info returns what there is to know about the sandbox now.
	Info() Info

	// Run runs cmd and returns its final record. A non-zero exit, a timeout and
	// a failed start are no errors: the record says so. When ctx ends while the
	// command runs, the record is cancelled and the error nil.
	Run(ctx context.Context, cmd Command) (*Execution, error)

	// Start starts cmd and returns its handle. The context covers the whole
	// execution: when it ends, the command is killed and its record says
	// cancelled (context.WithoutCancel detaches it). A command that could not be
	// started has a handle too, whose record is failed. An error means that
	// nothing was recorded: ctx had already ended, cmd is malformed
	// (*InvalidError), a limit is reached (ErrLimit), or the sandbox is closed
	// (ErrClosed) or gone (ErrGone).
	Start(ctx context.Context, cmd Command) (Exec, error)

	// Follow is Start with a reader that is open before the first byte, so that
	// it misses none, unless Command.Key answers with an earlier execution. The Stream
	// must be closed.
	Follow(ctx context.Context, cmd Command) (Exec, Stream, error)

	// Exec returns the execution of that id, running or recorded, or an error
	// that wraps ErrNotFound.
	Exec(id string) (Exec, error)

	// Execs returns the executions, running and recorded, oldest first.
	Execs() []Exec

	// Files reaches the sandbox's files.
	Files() *Files

	// Dial connects to a TCP port that a command of the sandbox listens on. The
	// context covers the dialling. The error wraps ErrRefused when nobody
	// listens, and errors.ErrUnsupported where the backend cannot.
	Dial(ctx context.Context, port int) (net.Conn, error)

	// Egress returns the attempts to get out of the sandbox, oldest first: those that
	// last, and the last 256 that are over. It is empty without Config.Egress.
	Egress() []EgressAttempt

	// Gone is closed when the sandbox can run nothing any more: it has died, or
	// was closed.
	Gone() <-chan struct{}

	// Close cancels what runs, kills what earlier executions left running, and
	// removes the sandbox. It waits for that within ctx. After an error it may
	// be called again; after success it does nothing.
	Close(ctx context.Context) error

	sealed()
}

// Info says what there is to know about a sandbox.
type Info struct {
	ID        string            `json:"id"`
	Status    SandboxStatus     `json:"status"`
	Backend   BackendInfo       `json:"backend"`
	Labels    map[string]string `json:"labels,omitempty"` // Config.Labels; not to be modified
	CreatedAt time.Time         `json:"created_at"`
	ExpiresAt time.Time         `json:"expires_at,omitzero"` // when its manager will remove it; zero is never
}

// SandboxStatus says whether a sandbox can run commands.
type SandboxStatus string

const (
	SandboxRunning SandboxStatus = "running"
	SandboxClosing SandboxStatus = "closing" // Close is at work, or has failed
	SandboxClosed  SandboxStatus = "closed"
	SandboxFailed  SandboxStatus = "failed" // it died
)

// Options are what a sandbox of New is made of, and what it does besides running
// commands. The zero value is the defaults.
type Options struct {
	// Config is what the backend makes the sandbox of. Its ID is not used.
	Config Config

	// Records is how many finished executions are kept; the oldest are dropped.
	// 0 is 100; negative keeps none.
	Records int

	// Egress is how connections are made that Config.Egress allows.
	Egress EgressOptions

	// Observer is told what happens to the sandbox and its executions. Nil is nobody.
	Observer Observer

	// Logger takes errors that no caller can be given, such as a panic of the
	// Observer. Nil is silent.
	Logger *slog.Logger
}

// New makes a sandbox in b. The context covers the creation only. Nil opts are the
// defaults; they are copied. The error is an *Error; it wraps errors.ErrUnsupported
// when b cannot honour a setting of opts.Config. The sandbox does not expire: a
// Manager's do. Close it before b: a sandbox whose backend is closed is gone, and what
// ran in it is lost.
func New(ctx context.Context, b Backend, opts *Options) (Sandbox, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	sb, err := newSandbox(ctx, b, newID("sbx_"), o, unmanaged{&events{to: o.Observer, log: o.Logger}})
	if err != nil {
		return nil, err
	}
	return sb, nil
}
