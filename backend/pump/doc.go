// Package pump drains the pipes of a command exactly, which is what a backend that
// has its commands' pipes needs most and what is hardest to get right: every byte that
// was in a pipe when the command ended is with the sink before the end is told, and a
// stranger who holds the pipe open is not waited for.
//
// A Pump is for one pipe. [Pump.Flush] belongs between a command's exit and the closing
// of its Exited channel, [Pump.Finish] after a kill, and [Pump.Discard] into
// DiscardOutput; OutputOver is closed when both pumps are done and Exited is closed. On a
// pump that is over each of them does nothing. It is built on unix systems only.
package pump
