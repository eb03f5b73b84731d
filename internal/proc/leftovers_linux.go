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

// RemoveIPC removes the System V shared memory, semaphores and queues of users. What
// the caller may not remove stays. It returns the errors by user.
func RemoveIPC(uids ...int64) map[int64]error {
	failed := make(map[int64]error)
	for uid, all := range ipcOf(uids...) {
		for _, r := range all {
			if errno := r.remove(); errno != 0 && errno != unix.EPERM && errno != unix.EINVAL && errno != unix.EIDRM {
				failed[uid] = errors.Join(failed[uid], os.NewSyscallError(r.table+"ctl", errno))
			}
		}
	}
	return failed
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

// ipcOf returns what is each user's, as its owner or its maker.
func ipcOf(uids ...int64) map[int64][]ipc {
	all := make(map[int64][]ipc)
	for table, id := range map[string]string{"shm": "shmid", "sem": "semid", "msg": "msqid"} {
		f, err := os.Open("/proc/sysvipc/" + table)
		if err != nil {
			continue // a kernel without it
		}
		lines := bufio.NewScanner(f)
		lines.Scan()
		header := strings.Fields(lines.Text())
		at, owner, maker := slices.Index(header, id), slices.Index(header, "uid"), slices.Index(header, "cuid")
		for lines.Scan() {
			fields := strings.Fields(lines.Text())
			if len(fields) != len(header) {
				continue
			}
			n, err := strconv.Atoi(fields[at])
			if err != nil {
				continue
			}
			for _, uid := range uids {
				if user := strconv.FormatInt(uid, 10); fields[owner] == user || fields[maker] == user {
					all[uid] = append(all[uid], ipc{table, n})
				}
			}
		}
		f.Close()
	}
	return all
}

// keyUsers returns the users that have keys or keyrings. To look for these themselves
// would make them, for good.
func keyUsers() map[int64]bool {
	users := make(map[int64]bool)
	f, err := os.Open("/proc/key-users")
	if err != nil {
		return users // a kernel without keys
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		user, _, _ := strings.Cut(strings.TrimSpace(lines.Text()), ":")
		if uid, err := strconv.ParseInt(user, 10, 64); err == nil {
			users[uid] = true
		}
	}
	return users
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
