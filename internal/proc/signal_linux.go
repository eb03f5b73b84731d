package proc

import (
	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
)

// nativeSignal returns the signal of that number.
func nativeSignal(s backend.Signal) (unix.Signal, bool) { return unix.Signal(s), s.Valid() }

// linuxSignal returns how Linux numbers s.
func linuxSignal(s unix.Signal) backend.Signal { return backend.Signal(s) }
