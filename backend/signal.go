package backend

import (
	"fmt"
	"strconv"
)

// A Signal is a signal's number as Linux numbers it, on every platform: it
// names what happens in a sandbox, not on the machine that asks.
type Signal int

// The signals that commands are commonly sent or ended by.
const (
	SIGHUP   Signal = 1
	SIGINT   Signal = 2
	SIGQUIT  Signal = 3
	SIGILL   Signal = 4
	SIGTRAP  Signal = 5
	SIGABRT  Signal = 6
	SIGBUS   Signal = 7
	SIGFPE   Signal = 8
	SIGKILL  Signal = 9
	SIGUSR1  Signal = 10
	SIGSEGV  Signal = 11
	SIGUSR2  Signal = 12
	SIGPIPE  Signal = 13
	SIGALRM  Signal = 14
	SIGTERM  Signal = 15
	SIGCHLD  Signal = 17
	SIGCONT  Signal = 18
	SIGSTOP  Signal = 19
	SIGTSTP  Signal = 20
	SIGTTIN  Signal = 21
	SIGTTOU  Signal = 22
	SIGXCPU  Signal = 24
	SIGXFSZ  Signal = 25
	SIGWINCH Signal = 28
	SIGSYS   Signal = 31
)

var signalNames = map[Signal]string{
	SIGHUP: "SIGHUP", SIGINT: "SIGINT", SIGQUIT: "SIGQUIT", SIGILL: "SIGILL",
	SIGTRAP: "SIGTRAP", SIGABRT: "SIGABRT", SIGBUS: "SIGBUS", SIGFPE: "SIGFPE",
	SIGKILL: "SIGKILL", SIGUSR1: "SIGUSR1", SIGSEGV: "SIGSEGV", SIGUSR2: "SIGUSR2",
	SIGPIPE: "SIGPIPE", SIGALRM: "SIGALRM", SIGTERM: "SIGTERM", SIGCHLD: "SIGCHLD",
	SIGCONT: "SIGCONT", SIGSTOP: "SIGSTOP", SIGTSTP: "SIGTSTP", SIGTTIN: "SIGTTIN",
	SIGTTOU: "SIGTTOU", SIGXCPU: "SIGXCPU", SIGXFSZ: "SIGXFSZ", SIGWINCH: "SIGWINCH",
	SIGSYS: "SIGSYS",
}

// String returns the signal's name, as in "SIGKILL".
func (s Signal) String() string {
	if name, ok := signalNames[s]; ok {
		return name
	}
	return "signal " + strconv.Itoa(int(s))
}

// ParseSignal returns the signal of a name, as String returns it, with or without the
// SIG.
func ParseSignal(name string) (Signal, error) {
	for s := Signal(1); s.Valid(); s++ {
		if s.String() == name || s.String() == "SIG"+name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("%q is no signal: name one, as in %q, or give its number, 1 to %d", name, SIGINT, lastSignal)
}

// lastSignal is the last of Linux's signals.
const lastSignal = 64

// Valid reports whether s is the number of a signal: 1 to 64.
func (s Signal) Valid() bool { return s >= 1 && s <= lastSignal }
