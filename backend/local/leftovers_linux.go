package local

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/sandbox-go/sandbox/internal/proc"
)

// shared are the host's directories that everybody may leave files in.
var shared = []string{"/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock"}

// removeLeftovers removes what a user that belongs to one sandbox has left on the
// host, and of whom no process is left: files in the directories that are everybody's,
// and System V shared memory, semaphores and queues. In /tmp nobody but the service
// can put another file in the place of one, and remove follows no link.
// The agent has removed what is System V's as that user; without an agent it takes
// CAP_SYS_ADMIN.
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
	return errors.Join(all, proc.RemoveIPC(int(uid)))
}
