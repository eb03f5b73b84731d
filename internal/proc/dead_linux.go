package proc

import (
	"bytes"
	"os"
	"strconv"
)

// dead reports whether a process is seen to be a zombie. The first of its threads is one
// also when it has ended before the others, so all are looked at.
func dead(pid int) bool {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, _ := os.ReadDir(tasks)
	for _, thread := range threads {
		b, err := os.ReadFile(tasks + "/" + thread.Name() + "/stat")
		if err != nil {
			continue // it has ended meanwhile
		}
		_, after, _ := bytes.Cut(b[bytes.LastIndexByte(b, ')')+1:], []byte(" "))
		if !bytes.HasPrefix(after, []byte("Z")) && !bytes.HasPrefix(after, []byte("X")) {
			return false
		}
	}
	return len(threads) > 0
}
