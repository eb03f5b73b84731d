package sandbox

import "github.com/sandbox-go/sandbox/backend"

// A Signal is a signal's number as Linux numbers it, on every platform. 0 is none.
type Signal = backend.Signal

// The signals that commands are commonly sent or ended by.
const (
	SIGHUP   = backend.SIGHUP
	SIGINT   = backend.SIGINT
	SIGQUIT  = backend.SIGQUIT
	SIGILL   = backend.SIGILL
	SIGTRAP  = backend.SIGTRAP
	SIGABRT  = backend.SIGABRT
	SIGBUS   = backend.SIGBUS
	SIGFPE   = backend.SIGFPE
	SIGKILL  = backend.SIGKILL
	SIGUSR1  = backend.SIGUSR1
	SIGSEGV  = backend.SIGSEGV
	SIGUSR2  = backend.SIGUSR2
	SIGPIPE  = backend.SIGPIPE
	SIGALRM  = backend.SIGALRM
	SIGTERM  = backend.SIGTERM
	SIGCHLD  = backend.SIGCHLD
	SIGCONT  = backend.SIGCONT
	SIGSTOP  = backend.SIGSTOP
	SIGTSTP  = backend.SIGTSTP
	SIGTTIN  = backend.SIGTTIN
	SIGTTOU  = backend.SIGTTOU
	SIGXCPU  = backend.SIGXCPU
	SIGXFSZ  = backend.SIGXFSZ
	SIGWINCH = backend.SIGWINCH
	SIGSYS   = backend.SIGSYS
)
