package sandbox

import (
	"log/slog"
	"time"
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
