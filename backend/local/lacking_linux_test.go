package local_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/local"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// asLacking is the variable that makes this program run a command under a kernel
// that lacks a call: its number, its first argument or -1, and the error it returns.
const asLacking = "SANDBOX_TEST_LACKING"

// TestLacking: a command has exactly three descriptors, whatever the kernel lacks,
// and what hardens and fails refuses the start with the call, the reason and advice.
func TestLacking(t *testing.T) {
	if missing := os.Getenv(asLacking); missing != "" {
		runLacking(missing)
	}
	const any = -1
	for _, test := range []struct {
		name   string
		call   int
		option int
		err    syscall.Errno
		want   string // what is printed; of an error, a part up to its advice
	}{
		{"nothing", 9999, any, unix.ENOSYS, "0 1 2"},
		{"close-range", unix.SYS_CLOSE_RANGE, any, unix.ENOSYS, "0 1 2"},
		{"close-range-flag", unix.SYS_CLOSE_RANGE, any, unix.EINVAL, "0 1 2"},
		{"close-range-that-lies", unix.SYS_CLOSE_RANGE, any, 0, "0 1 2"},
		{"name", unix.SYS_PRCTL, unix.PR_SET_NAME, unix.EINVAL, "0 1 2"},
		{"dumpable", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, unix.EINVAL, "prctl(PR_SET_DUMPABLE): invalid argument: "},
		{"subreaper", unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, unix.EINVAL, "prctl(PR_SET_CHILD_SUBREAPER): invalid argument: "},
		{"no-new-privileges", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, unix.ENOSYS, "prctl(PR_SET_NO_NEW_PRIVS): function not implemented: "},
		{"bounding-set", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, unix.EINVAL, "prctl(PR_CAPBSET_DROP): invalid argument: "},
		{"memfd", unix.SYS_MEMFD_CREATE, any, unix.EPERM, "memfd_create: operation not permitted: "},
		{"keyrings", unix.SYS_KEYCTL, any, unix.ENOSYS, "0 1 2"},
		{"keyrings-forbidden", unix.SYS_KEYCTL, any, unix.EPERM, "0 1 2"},
		{"pidfd", unix.SYS_PIDFD_OPEN, any, unix.ENOSYS, "0 1 2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.call == unix.SYS_PRCTL && test.option == unix.PR_CAPBSET_DROP && os.Geteuid() != 0 {
				t.Skip("it needs root, whose commands could gain what is in the set")
			}
			cmd := exec.Command(programtest.PublicSelf(t), "-test.run=^TestLacking$")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %d", asLacking, test.call, test.option, int(test.err)))
			// What it is started with besides is not the commands' either.
			null, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			defer null.Close()
			cmd.ExtraFiles = []*os.File{null, null, null}
			out, err := cmd.CombinedOutput()
			got := strings.TrimSpace(string(out))
			refused := strings.HasSuffix(test.want, ": ") && strings.Contains(got, test.want)
			if err != nil || got != test.want && !refused {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
			if strings.Contains(got, string(backend.NoResources)) {
				t.Errorf("got %q, which says that something has run out", got)
			}
		})
	}
}

// runLacking lists a command's descriptors, kills a tree, says what went wrong, and
// exits.
func runLacking(missing string) {
	var call, option, errno int
	_, err := fmt.Sscan(missing, &call, &option, &errno)
	if err == nil {
		err = refuse(call, option, syscall.Errno(errno))
	}
	if err == nil {
		err = listDescriptors()
	}
	if err != nil {
		fmt.Println(err)
	}
	os.Exit(0)
}

func listDescriptors() error {
	b, err := local.New(nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	defer b.Close(ctx)
	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		return err
	}
	defer sb.Close(ctx)
	// The shell's, which ls does not take the place of.
	rec, err := sb.Run(ctx, sandbox.Command{Shell: "ls /proc/$$/fd; :"})
	if err != nil {
		return err
	}
	fmt.Println(strings.Join(strings.Fields(rec.Stdout.String()+rec.Stderr.String()), " "))
	if rec.Err != nil {
		return rec.Err
	}
	rec, err = sb.Run(ctx, sandbox.Command{
		Shell:   "setsid sh -c '(sleep 77; :) & sleep 77; :' & sleep 77",
		Timeout: 200 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	return rec.Err
}

// refuse has the kernel answer a system call with an error, in this process and in
// all that it starts. An option of at least 0 refuses only calls with that as their
// first argument.
func refuse(call, option int, errno syscall.Errno) error {
	const dataCall, dataArg = 0, 16 // offsets in struct seccomp_data; little-endian
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	equal := func(k, otherwise int) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(k), Jf: uint8(otherwise)}
	}
	result := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	filter := []unix.SockFilter{load(dataCall)}
	if option >= 0 {
		filter = append(filter, equal(call, 3), load(dataArg), equal(option, 1))
	} else {
		filter = append(filter, equal(call, 1))
	}
	filter = append(filter, result(unix.SECCOMP_RET_ERRNO|uint32(errno)), result(unix.SECCOMP_RET_ALLOW))
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	_, _, err := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if err != 0 {
		return os.NewSyscallError("seccomp", err)
	}
	return nil
}
