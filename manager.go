package sandbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

// A Key names a sandbox of a Manager. The same name of another owner or another
// API is another sandbox.
type Key struct {
	Owner string // whose it is; the account, not the credential
	API   string // which API made it, as in "rooms"
	Name  string // its name there
}

// ManagerOptions are a Manager's limits. Nil and the zero value are the
// defaults; a negative number turns a limit off.
type ManagerOptions struct {
	MaxSandboxes int           // sandboxes at once; 0 is 1,000
	IdleTime     time.Duration // a sandbox that ran nothing for so long is removed; 0 is 30 min
	Lifetime     time.Duration // a sandbox is removed at this age; 0 is no bound

	MaxRunning           int           // executions at once; 0 is no bound
	MaxRunningPerSandbox int           // 0 is no bound
	MaxWait              time.Duration // how long a start waits for its turn; 0 does not wait

	Records      int   // finished executions kept per sandbox; 0 is 100
	RecordsBytes int64 // output kept by all records together; 0 is 256 MiB

	// CloseTime bounds the removal of a sandbox that the manager removes by
	// itself; 0 is 30 s.
	CloseTime time.Duration

	// Observe is called with the record of every execution when it has started
	// and when it is over. Nil observes nothing.
	Observe func(Key, *Execution)

	// Logger takes what nobody is there to be told, such as a removal that
	// failed. Nil is silent.
	Logger *slog.Logger
}

// A Manager holds many sandboxes of one backend by key: it creates them on first
// use, limits them, lets them expire, and removes them all in the end. Its methods
// may be called concurrently.
type Manager struct {
	backend backend.Backend
	opts    ManagerOptions
}

// NewManager returns a Manager of b's sandboxes. It does not own b: close the
// manager first, then the backend.
func NewManager(b backend.Backend, opts *ManagerOptions) *Manager { panic("being written") }

// Create makes a sandbox. With an empty key.Name its id is its name. The error
// wraps ErrExists when there is one of that key, or ErrLimit.
func (m *Manager) Create(ctx context.Context, key Key, cfg *Config) (Sandbox, error) {
	panic("being written")
}

// Get returns the sandbox of that key, or an error that wraps ErrNotFound.
func (m *Manager) Get(key Key) (Sandbox, error) { panic("being written") }

// GetOrCreate returns the sandbox of that key, and makes it when there is none or
// when the one there was has died. However many callers ask at once, one
// creation happens. Config is asked what to make it of, only when it is made; its
// error is returned as it is. A nil config is the backend's defaults.
func (m *Manager) GetOrCreate(ctx context.Context, key Key, config func(context.Context) (*Config, error)) (Sandbox, error) {
	panic("being written")
}

// List returns the sandboxes of one owner and API, oldest first.
func (m *Manager) List(owner, api string) []Sandbox { panic("being written") }

// Remove closes the sandbox of that key and forgets it. The error wraps
// ErrNotFound when there is none.
func (m *Manager) Remove(ctx context.Context, key Key) error { panic("being written") }

// Close removes all sandboxes in parallel and returns every failure. After Close,
// Create and GetOrCreate answer ErrClosed.
func (m *Manager) Close(ctx context.Context) error { panic("being written") }
