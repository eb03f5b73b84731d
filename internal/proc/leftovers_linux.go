package proc

import (
	"bufio"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// RemoveIPC removes the System V shared memory, semaphores and queues of a user. What
// the caller may not remove stays.
func RemoveIPC(uid int) error {
	var all error
	for _, r := range ipcOf(uid) {
		if errno := r.remove(); errno != 0 && errno != unix.EPERM && errno != unix.EINVAL && errno != unix.EIDRM {
			all = errors.Join(all, os.NewSyscallError(r.table+"ctl", errno))
		}
	}
	return all
}

// An ipc is something of System V's.
type ipc struct {
	table string // of sysvipc(7)
	id    int
}

// remove is one raw system call.
func (i ipc) remove() (errno unix.Errno) {
	switch i.table {
	case "shm":
		_, _, errno = unix.RawSyscall(unix.SYS_SHMCTL, uintptr(i.id), unix.IPC_RMID, 0)
	case "sem":
		_, _, errno = unix.RawSyscall(unix.SYS_SEMCTL, uintptr(i.id), 0, unix.IPC_RMID)
	case "msg":
		_, _, errno = unix.RawSyscall(unix.SYS_MSGCTL, uintptr(i.id), unix.IPC_RMID, 0)
	}
	return errno
}

// ipcOf returns what is that user's.
func ipcOf(uid int) []ipc {
	var all []ipc
	for table, id := range map[string]string{"shm": "shmid", "sem": "semid", "msg": "msqid"} {
		f, err := os.Open("/proc/sysvipc/" + table)
		if err != nil {
			continue // a kernel without it
		}
		lines := bufio.NewScanner(f)
		lines.Scan()
		header := strings.Fields(lines.Text())
		at, owner, maker := slices.Index(header, id), slices.Index(header, "uid"), slices.Index(header, "cuid")
		for user := strconv.Itoa(uid); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) != len(header) || fields[owner] != user && fields[maker] != user {
				continue
			}
			if n, err := strconv.Atoi(fields[at]); err == nil {
				all = append(all, ipc{table, n})
			}
		}
		f.Close()
	}
	return all
}

// hasKeys reports whether a user has keys or keyrings. To look for these themselves
// would make them, for good.
func hasKeys(uid int) bool {
	f, err := os.Open("/proc/key-users")
	if err != nil {
		return false // a kernel without keys
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if user, _, _ := strings.Cut(strings.TrimSpace(lines.Text()), ":"); user == strconv.Itoa(uid) {
			return true
		}
	}
	return false
}

// clearKeys clears the keyrings of the calling thread's real user that outlive its
// processes, with raw system calls. Where keys are refused, as by a container's
// seccomp profile, they are to commands too.
func clearKeys() {
	const getPersistent = 22 // KEYCTL_GET_PERSISTENT
	user, session, nobody := unix.KEY_SPEC_USER_KEYRING, unix.KEY_SPEC_USER_SESSION_KEYRING, -1
	if id, _, errno := unix.RawSyscall(unix.SYS_KEYCTL, getPersistent, uintptr(nobody), uintptr(user)); errno == 0 {
		unix.RawSyscall(unix.SYS_KEYCTL, unix.KEYCTL_CLEAR, id, 0)
	}
	for _, ring := range []int{user, session} {
		unix.RawSyscall(unix.SYS_KEYCTL, unix.KEYCTL_CLEAR, uintptr(ring), 0)
	}
}
