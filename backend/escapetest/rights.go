//go:build linux

package escapetest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rightAttacks are about what a command may become.
func rightAttacks() []Attack {
	return []Attack{{
		Name: "no-rights-are-left", Rule: "A command has no capabilities, can gain none, and is under a seccomp filter.", promise: files,
		try: func(*scene) error {
			status, err := os.ReadFile("/proc/self/status")
			if err != nil {
				return err
			}
			for _, want := range []string{"CapInh:\t0", "CapPrm:\t0", "CapEff:\t0", "CapBnd:\t0", "CapAmb:\t0", "NoNewPrivs:\t1", "Seccomp:\t2"} {
				key, value, _ := strings.Cut(want, "\t")
				_, rest, _ := strings.Cut(string(status), key+"\t")
				got, _, _ := strings.Cut(rest, "\n")
				if trimmed := strings.TrimLeft(got, "0"); value == "0" && trimmed != "" || value != "0" && got != value {
					return fmt.Errorf("%s is %s", key, got)
				}
			}
			return nil
		},
	}, {
		Name: "nobody-else-can-be-become", Rule: "A command is an ordinary user and cannot become another.", promise: files,
		try: func(*scene) error {
			if os.Getuid() == 0 || os.Getgid() == 0 {
				return errors.New("it is root")
			}
			for _, set := range []struct {
				name string
				err  error
			}{
				{"setuid", unix.Setuid(0)}, {"setgid", unix.Setgid(0)}, {"setgroups", unix.Setgroups([]int{0})}, {"setresuid", unix.Setresuid(1, 1, 1)},
			} {
				if set.err == nil {
					return errors.New(set.name)
				}
			}
			return nil
		},
	}, {
		Name: "terminals-take-no-input-from-commands", Rule: "A command cannot type into its terminal (TIOCSTI), whatever it adds to the number.", promise: files, terminal: true,
		try: func(*scene) error {
			c := byte('x')
			for _, request := range []uintptr{unix.TIOCSTI, unix.TIOCSTI | 1<<32} {
				if _, _, errno := unix.Syscall(unix.SYS_IOCTL, 0, request, uintptr(unsafe.Pointer(&c))); errno == 0 {
					return fmt.Errorf("ioctl(%#x)", request)
				}
			}
			return nil
		},
	}}
}
