// Package sandbox runs commands in sandboxes: one meaning of exit, timeout,
// cancel, truncation and kill on every backend.
//
// A [Sandbox] is a place with a file system of its own. A [Command] says what to
// run there. [Sandbox.Run] runs it and returns the [Execution], which says how it
// ended; [Sandbox.Start] returns an [Exec], the handle of a running command, whose
// output is followed through a [Stream], whose lines [Lines] returns. [Command.Stdout] and
// [Command.Stderr] get it as it comes. A [Manager] holds many sandboxes by name.
// Whoever uses sandboxes imports this package and one backend.
//
//	b, err := local.New(nil)
//	sb, err := sandbox.New(ctx, b, nil)
//	rec, err := sb.Run(ctx, sandbox.Command{Shell: "echo hi", Timeout: time.Minute})
//
// # How an execution ends
//
// An error returned by this package means that something could not be done or
// found out. How a command ended is data:
//
//	it exited with n                        completed  exit code n
//	a signal s ended it                     completed  128+s, Signal says which
//	the kernel killed it for memory         completed  137, OOMKilled is set
//	it timed out                            timeout    124
//	its context ended, Cancel, Close        cancelled  none
//	it could not be started                 failed     none, Err is a *StartError
//	the sandbox or the way to it was lost   failed     none, Err wraps ErrLost
//
// A kill that was asked for wins over whatever the command then did. After
// timeout and cancelled, everything the command started is dead, and what it had
// written is kept. What outlives an execution belongs to the sandbox and ends
// with it.
package sandbox
