package local

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// shared are the host's directories that everybody may leave files in.
var shared = []string{"/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock"}

// removeLeftovers removes what a user that belongs to one sandbox has left on the
// host, and of whom no process is left: files in the directories that are everybody's,
// and System V shared memory, semaphores and queues. In /tmp nobody but the service
// can put another file in the place of one, and remove follows no link.
// A service without CAP_SYS_ADMIN may not remove what is System V's of others: that
// stays, out of the reach of other sandboxes' users.
func removeLeftovers(uid uint32) error {
	var all error
	for _, dir := range shared {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // it is not there
		}
		for _, entry := range entries {
			info, err := entry.Info()
			if err != nil || !ownedBy(info, uid) {
				continue
			}
			name := filepath.Join(dir, entry.Name())
			if info.IsDir() {
				err = remove(name)
			} else {
				err = os.Remove(name)
			}
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				all = errors.Join(all, err)
			}
		}
	}
	for _, kind := range []struct {
		table, id string
		call      uintptr
		args      []uintptr
	}{
		{"shm", "shmid", unix.SYS_SHMCTL, []uintptr{unix.IPC_RMID, 0}},
		{"sem", "semid", unix.SYS_SEMCTL, []uintptr{0, unix.IPC_RMID}},
		{"msg", "msqid", unix.SYS_MSGCTL, []uintptr{unix.IPC_RMID, 0}},
	} {
		for _, id := range ipcOf(kind.table, kind.id, uid) {
			_, _, errno := unix.Syscall(kind.call, uintptr(id), kind.args[0], kind.args[1])
			if errno != 0 && errno != unix.EPERM && errno != unix.EINVAL && errno != unix.EIDRM {
				all = errors.Join(all, os.NewSyscallError(kind.table+"ctl", errno))
			}
		}
	}
	return all
}

// ipcOf returns the ids in a table of sysvipc(7) that are that user's.
func ipcOf(table, id string, uid uint32) []int {
	f, err := os.Open("/proc/sysvipc/" + table)
	if err != nil {
		return nil
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Scan()
	header := strings.Fields(lines.Text())
	at, owner, maker := slices.Index(header, id), slices.Index(header, "uid"), slices.Index(header, "cuid")
	var ids []int
	for user := strconv.Itoa(int(uid)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != len(header) || fields[owner] != user && fields[maker] != user {
			continue
		}
		if n, err := strconv.Atoi(fields[at]); err == nil {
			ids = append(ids, n)
		}
	}
	return ids
}
