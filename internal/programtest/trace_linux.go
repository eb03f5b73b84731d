package programtest

import (
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

func trace(number string) {
	pid, err := strconv.Atoi(number)
	if err == nil {
		runtime.LockOSThread() // the thread traces, not the process
		err = os.NewSyscallError("ptrace(PTRACE_SEIZE)", unix.PtraceSeize(pid))
	}
	if err != nil {
		fmt.Print(err)
		os.Exit(1)
	}
	fmt.Print("tracing")
	select {}
}
