//go:build linux

package escapetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// fileAttacks are about files and devices.
func fileAttacks() []Attack {
	return []Attack{{
		Name: "files-are-not-seen", Rule: "A command sees no file of the machine that it was not shown.", promise: files,
		try: func(s *scene) error {
			for _, root := range []string{"", "/proc/1/root", "/proc/self/root", "/proc/self/cwd/../../../../..", "/.host"} {
				if b, err := os.ReadFile(root + s.File); err == nil {
					return fmt.Errorf("%s is %q", root+s.File, b)
				}
			}
			return nil
		},
	}, {
		Name: "other-sandboxes-files-are-not-seen", Rule: "A command sees no file of another sandbox.", promise: files,
		try: func(s *scene) error {
			for _, dir := range []string{".", "/workspace", "/home/user", "/tmp", "/dev/shm"} {
				if _, err := os.Stat(filepath.Join(dir, s.Other)); err == nil {
					return fmt.Errorf("%s is in %s", s.Other, dir)
				}
			}
			return nil
		},
	}, {
		Name: "the-root-is-closed", Rule: "A command cannot change the programs and settings of its root.", promise: files,
		try: func(*scene) error {
			for _, dir := range []string{"/", "/bin", "/dev", "/etc", "/lib", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr", "/usr/bin", "/var"} {
				name := filepath.Join(dir, "escapetest")
				if err := os.WriteFile(name, nil, 0o600); err == nil {
					os.Remove(name)
					return fmt.Errorf("%s can be written to", dir)
				}
			}
			for _, name := range []string{"/etc/passwd", "/bin/sh", "/dev/null"} {
				if before, err := os.Stat(name); err == nil && os.Chmod(name, before.Mode()) == nil {
					return fmt.Errorf("the mode of %s can be changed", name)
				}
			}
			return nil
		},
	}, {
		Name: "the-machines-settings-are-closed", Rule: "A command cannot change the machine through /proc and /sys.", promise: files,
		try: func(*scene) error {
			for _, pattern := range []string{
				"/proc/sysrq-trigger", "/proc/sys/kernel/*", "/proc/sys/vm/*", "/proc/sys/fs/*", "/proc/irq/*/smp_affinity", "/proc/bus/pci/*/*",
				"/proc/acpi/*", "/proc/scsi/*", "/proc/asound/*", "/proc/1/oom_score_adj", "/sys/power/*", "/sys/kernel/*", "/sys/module/*/parameters/*",
				"/sys/firmware/*/*", "/sys/fs/cgroup/*", "/sys/fs/cgroup/*/*", "/sys/block/*/queue/*", "/sys/devices/system/cpu/*/online",
			} {
				names, _ := filepath.Glob(pattern)
				for _, name := range names {
					info, err := os.Stat(name)
					if err != nil || !info.Mode().IsRegular() {
						continue
					}
					if fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC, 0); err == nil {
						unix.Close(fd)
						return fmt.Errorf("%s can be written to", name)
					}
				}
			}
			return nil
		},
	}, {
		Name: "the-kernels-secrets-are-closed", Rule: "A command cannot read the kernel's memory, log, keys and addresses.", promise: files,
		try: func(*scene) error {
			for _, name := range []string{
				"/proc/kcore", "/proc/keys", "/proc/kmsg", "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats", "/proc/scsi/scsi",
				"/proc/vmallocinfo", "/proc/slabinfo", "/proc/kpagecount", "/sys/kernel/debug/sched/debug", "/sys/firmware/dmi/tables/DMI",
				"/sys/kernel/security/lsm", "/sys/kernel/notes/x",
			} {
				fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
				if err != nil {
					continue
				}
				if n, _ := unix.Read(fd, make([]byte, 64)); n > 0 {
					return fmt.Errorf("%d bytes of %s", n, name)
				}
			}
			symbols, _ := os.ReadFile("/proc/kallsyms")
			for line := range strings.Lines(string(symbols)) {
				if address, _, _ := strings.Cut(line, " "); strings.Trim(address, "0") != "" {
					return fmt.Errorf("/proc/kallsyms has addresses: %s", line)
				}
			}
			return nil
		},
	}, {
		Name: "devices-are-closed", Rule: "A command cannot open a device of the machine, nor make one.", promise: files,
		try: func(*scene) error {
			for _, name := range []string{
				"/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/nvme0n1", "/dev/loop-control", "/dev/loop0",
				"/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/vhost-net", "/dev/vsock", "/dev/mapper/control", "/dev/input/event0", "/dev/uinput", "/dev/tty1", "/dev/console",
			} {
				for _, mode := range []int{unix.O_RDONLY, unix.O_WRONLY} {
					if fd, err := unix.Open(name, mode|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err == nil {
						unix.Close(fd)
						return fmt.Errorf("%s can be opened", name)
					}
				}
			}
			for _, dir := range []string{".", "/tmp", "/dev/shm"} {
				name := filepath.Join(dir, "device")
				err := unix.Mknod(name, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 1)))
				if err == nil {
					os.Remove(name)
					return errors.New("a device can be made")
				}
			}
			return nil
		},
	}, {
		Name: "mounts-are-the-sandboxs", Rule: "Nothing of the machine is mounted but what is shown, and a command cannot mount, unmount or remount anything.", promise: files,
		try: func(*scene) error {
			for _, try := range []struct {
				what string
				err  error
			}{
				{"mount(tmpfs)", unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "")},
				{"mount(proc)", unix.Mount("proc", "/tmp", "proc", 0, "")},
				{"mount(MS_BIND)", unix.Mount("/etc", "/tmp", "", unix.MS_BIND, "")},
				{"mount(MS_REMOUNT)", unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "")},
				{"umount2(/proc/sys)", unix.Unmount("/proc/sys", unix.MNT_DETACH)},
				{"umount2(/proc)", unix.Unmount("/proc", unix.MNT_DETACH)},
				{"pivot_root", unix.PivotRoot("/tmp", "/tmp")},
				{"chroot", unix.Chroot("/tmp")},
			} {
				if try.err == nil {
					return errors.New(try.what)
				}
				if try.err != unix.EPERM && try.err != unix.EACCES && try.err != unix.ENOSYS {
					return fmt.Errorf("%s was not refused: %w", try.what, try.err)
				}
			}
			return nil
		},
	}}
}
