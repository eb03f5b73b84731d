package local

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/sandbox-go/sandbox/internal/host"
	"github.com/sandbox-go/sandbox/internal/proc"
)

// shared are the host's directories that everybody may leave files in.
var shared = []string{"/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock"}

// removeLeftovers removes what users each of which belongs to one sandbox, and of whom no
// process is left, have left on the host: files in the directories that are everybody's,
// and System V shared memory, semaphores and queues. It returns the errors by user. In
// /tmp nobody but the service can put another file in the place of one, and remove
// follows no link. The agent has removed what is System V's as that user; without an
// agent it takes CAP_SYS_ADMIN.
func removeLeftovers(users []int64) map[int64]error {
	failed := proc.RemoveIPC(users...)
	for _, dir := range shared {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // it is not there
		}
		for _, entry := range entries {
			info, err := entry.Info()
			if err != nil {
				continue
			}
			n := slices.IndexFunc(users, func(user int64) bool { return host.OwnedBy(info, uint32(user)) })
			if n < 0 {
				continue
			}
			name := filepath.Join(dir, entry.Name())
			if info.IsDir() {
				err = host.Remove(name)
			} else {
				err = os.Remove(name)
			}
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				failed[users[n]] = errors.Join(failed[users[n]], err)
			}
		}
	}
	return failed
}
