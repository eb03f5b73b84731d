// Package namespace runs commands in sandboxes that Linux makes by itself, without an
// engine: each is namespaces of its own for users, processes, mounts, IPC, host name,
// control groups and network, with a root of its own.
//
// The root is read-only: the machine's programs, or a directory (Options.Root), as of an image
// that package image unpacks; Options.Overlay makes it writable for each sandbox alone. Commands
// may write to /workspace, where they start, which is their HOME and also at /home/user,
// and to /tmp and /dev/shm, which are bounded memory. They have a /proc and a /dev of their
// own and no network but loopback, on which Dial reaches what they listen on. They have no
// capabilities and cannot gain any, and the system calls that container engines refuse by
// default are refused (seccomp). Where the kernel has Landlock, that is a second wall: it
// refuses to write elsewhere, and to signal a process that is not the sandbox's.
//
// What the machine lacks for this, New says by trying it: an [*Error] has the call that
// failed, the reason, and what to change.
//
// Who commands are on the machine depends on who the service is:
//
//   - root: each sandbox has two numbers that are nobody else's, one for its commands and
//     one for the program that starts them. No command runs as root, inside or outside.
//   - an ordinary user with a range in /etc/subuid and /etc/subgid, where newuidmap(1) and
//     newgidmap(1) are installed: commands have a number of that range, which is nobody
//     else's, and what starts them the service's own.
//   - an ordinary user without: commands have the service's number, and its groups. They
//     see no process and no file of it that is not in the root, but a command can end what
//     watches over another command of the same sandbox; how that one ended is then unknown.
//
// [backend.Info] says which it is: DedicatedUser is set in the first two.
//
// A sandbox ends with its first process, and with it everything in it, by the kernel: when
// it is closed, and when the service dies.
package namespace
