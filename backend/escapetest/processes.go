//go:build linux

package escapetest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// processAttacks are about processes that are not the sandbox's, or not its commands.
func processAttacks() []Attack {
	return []Attack{{
		Name: "processes-are-not-seen", Rule: "A command sees no process of the machine or of another sandbox.", promise: files,
		try: func(s *scene) error {
			all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, name := range all {
				if line, err := os.ReadFile(name); err == nil && strings.Contains(string(line), s.Marker) && !strings.Contains(string(line), "\x00") {
					return fmt.Errorf("%s is %q", name, line)
				}
			}
			if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.Process)); strings.HasPrefix(string(line), s.Marker) {
				return fmt.Errorf("process %d is %q", s.Process, line)
			}
			return nil
		},
	}, {
		Name: "processes-are-not-signalled", Rule: "A command cannot signal a process of the machine.", promise: user,
		try: func(s *scene) error {
			unix.Kill(s.Process, unix.SIGKILL) // who looks is outside
			if fd, err := unix.PidfdOpen(s.Process, 0); err == nil {
				unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			}
			return nil
		},
	}, {
		Name: "the-first-process-is-closed", Rule: "A command can neither trace nor read what watches over it, nor limit its time, nor enter its namespaces.", promise: files,
		try: func(*scene) error {
			runtime.LockOSThread()
			for _, pid := range []int{1, unix.Getppid()} {
				if err := unix.PtraceSeize(pid); err == nil {
					return fmt.Errorf("process %d can be traced", pid)
				}
				var limit unix.Rlimit
				if err := unix.Prlimit(pid, unix.RLIMIT_CPU, nil, &limit); err == nil && unix.Prlimit(pid, unix.RLIMIT_CPU, &limit, nil) == nil {
					return fmt.Errorf("process %d can be given a limit of its time, which would end it", pid)
				}
				var b [8]byte
				local := []unix.Iovec{{Base: &b[0], Len: 8}}
				_, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
				if err == nil {
					return fmt.Errorf("process %d can be read", pid)
				}
				for _, name := range []string{"environ", "mem", "maps", "root", "cwd", "exe", "fd", "ns/mnt", "ns/net", "ns/user"} {
					path := fmt.Sprintf("/proc/%d/%s", pid, name)
					fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
					if err != nil {
						continue
					}
					if n, err := unix.Read(fd, b[:]); n > 0 || err == unix.EISDIR || strings.Contains(name, "ns/") {
						return fmt.Errorf("%s is open: %d bytes, %v", path, n, err)
					}
				}
			}
			return nil
		},
	}, {
		Name: "system-v-memory-is-apart", Rule: "A command sees no shared memory of the machine.", promise: files,
		try: func(s *scene) error {
			if id, err := unix.SysvShmGet(s.Shm, 0, 0); err == nil {
				return fmt.Errorf("shared memory %d of the key %#x", id, s.Shm)
			}
			return nil
		},
	}, {
		Name: "descriptors-do-not-come-along", Rule: "A command has its three streams and no other descriptor.", promise: files,
		try: func(*scene) error {
			for fd := 3; fd < 256; fd++ {
				flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
				if err == nil && flags&unix.FD_CLOEXEC == 0 { // the runtime's own have it
					path, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
					return fmt.Errorf("descriptor %d is %s", fd, path)
				}
			}
			return nil
		},
	}}
}
