package local

import (
	"bufio"
	"encoding/hex"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
)

// listens reports whether a process of that user listens where a connection to ip
// and port would arrive. The kernel's tables say so (proc_net_tcp(5)).
func listens(uid uint32, ip net.IP, port int) (bool, error) {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		ours, err := listensIn(table, uid, ip, port)
		if ours || err != nil && !os.IsNotExist(err) {
			return ours, err
		}
	}
	return false, nil
}

func listensIn(table string, uid uint32, ip net.IP, port int) (bool, error) {
	f, err := os.Open(table)
	if err != nil {
		return false, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		const local, state, owner, listening = 1, 3, 7, "0A"
		fields := strings.Fields(lines.Text())
		if len(fields) <= owner || fields[state] != listening || fields[owner] != strconv.Itoa(int(uid)) {
			continue
		}
		addr, p, _ := strings.Cut(fields[local], ":")
		if n, err := strconv.ParseUint(p, 16, 16); err != nil || int(n) != port {
			continue
		}
		if at := address(addr); at.IsUnspecified() || at.Equal(ip) {
			return true, nil
		}
	}
	return false, lines.Err()
}

// address reads an address as the tables have it: words of four bytes, each
// turned round on the machines that this runs on.
func address(s string) net.IP {
	ip, err := hex.DecodeString(s)
	if err != nil {
		return nil
	}
	for word := range slices.Chunk(ip, 4) {
		slices.Reverse(word)
	}
	return ip
}
