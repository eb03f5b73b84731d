package local

import "golang.org/x/sys/unix"

// machineMemory returns how much memory the machine has, in bytes; 0 is unknown.
func machineMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
