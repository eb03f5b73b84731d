// Package files reaches the files of a sandbox: directly with [Tree], or through
// [Client] and a process of the sandbox's own user that runs [Main]. With the
// process it is the kernel that decides what the user may do, as it does for the
// user's commands, and a kill ends whatever hangs.
package files
