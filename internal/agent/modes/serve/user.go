//go:build linux && (amd64 || arm64)

package serve

import (
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
)

// resolve finds the numbers of the user that a command is to run as: a name or a
// number, also with a group after a colon. Root is nobody's choice: it could end
// the agent.
func resolve(m *wire.Start) error {
	uid, gid, ok := numbers(m.User)
	if !ok {
		uid, gid, ok = lookUp(m.User)
	}
	if !ok {
		return &backend.StartError{Reason: backend.BadUser, Path: m.User}
	}
	m.UID, m.GID, m.Own = uid, gid, true
	if os.Geteuid() != 0 {
		m.UID, m.GID, m.Own = -1, -1, false
		if uid != int64(os.Geteuid()) {
			return &backend.StartError{Reason: backend.BadUser, Path: m.User, Detail: "the agent does not run as root"}
		}
	} else if uid == 0 || gid == 0 {
		return &backend.StartError{Reason: backend.BadUser, Path: m.User, Detail: "commands never run as root"}
	}
	return nil
}

// numbers returns the numbers of a user that is given by two, as in "1000:1000",
// which takes no file to know.
func numbers(user string) (uid, gid int64, ok bool) {
	name, group, _ := strings.Cut(user, ":")
	uid, okUser := id(name)
	gid, okGroup := id(group)
	return uid, gid, okUser && okGroup
}

func lookUp(user string) (uid, gid int64, ok bool) {
	name, group, hasGroup := strings.Cut(user, ":")
	uid, gid, ok = lookUpUser(name)
	if hasGroup && ok {
		gid, ok = lookUpGroup(group)
	}
	return uid, gid, ok
}

// lookUpUser returns the numbers of a user and its group. A number that
// /etc/passwd does not have is its own group.
func lookUpUser(name string) (uid, gid int64, ok bool) {
	number, isNumber := id(name)
	for _, f := range entries("/etc/passwd") {
		if len(f) < 4 || f[0] != name && (!isNumber || f[2] != name) {
			continue
		}
		u, okUser := id(f[2])
		g, okGroup := id(f[3])
		return u, g, okUser && okGroup
	}
	return number, number, isNumber
}

func lookUpGroup(name string) (int64, bool) {
	for _, f := range entries("/etc/group") {
		if len(f) >= 3 && f[0] == name {
			return id(f[2])
		}
	}
	return id(name)
}

// id parses the number of a user or group; the largest means none.
func id(s string) (int64, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return int64(n), err == nil && n != math.MaxUint32
}

// entries returns the fields of the lines of passwd(5) and group(5).
func entries(path string) [][]string {
	b, _ := os.ReadFile(path)
	var all [][]string
	for line := range strings.Lines(string(b)) {
		all = append(all, strings.Split(strings.TrimSuffix(line, "\n"), ":"))
	}
	return all
}
