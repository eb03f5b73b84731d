// Package proc starts commands on this machine, moves their output, signals and
// kills them. The agent is made of it, and so is the in-process fallback of
// package local.
//
//   - [Command] starts a command, and says why it cannot be started.
//   - [Streams] moves bytes between pipes and a [backend.Spec].
//   - [Children] reaps, and kills whole trees, for a process that is a child
//     subreaper (Linux).
//   - [Group] is a command run as a process group of the calling process.
package proc
