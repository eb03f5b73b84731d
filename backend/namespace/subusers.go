//go:build linux && (amd64 || arm64)

package namespace

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/internal/agent/agentclient"
	"github.com/sandbox-go/sandbox/internal/host"
)

// subUsers have a number for each sandbox's commands of what /etc/subuid and /etc/subgid
// give to the service's user.
type subUsers struct {
	all            *host.Users
	uids, gids     host.Range
	mapUID, mapGID string // the programs that may
	program        *agentclient.Program
}

// newSubUsers returns nil where the service's user has no numbers of its own, or may not
// use them.
func newSubUsers(dir string) (users, error) {
	u := &subUsers{program: agentclient.NewProgram(dir)}
	var err error
	if u.mapUID, err = exec.LookPath("newuidmap"); err != nil {
		return nil, nil
	}
	if u.mapGID, err = exec.LookPath("newgidmap"); err != nil {
		return nil, nil
	}
	me := strconv.Itoa(os.Geteuid())
	names := []string{me}
	if known, err := user.LookupId(me); err == nil {
		names = append(names, known.Username)
	}
	u.uids, u.gids = subRange("/etc/subuid", names), subRange("/etc/subgid", names)
	u.uids.Count = min(u.uids.Count, u.gids.Count)
	if u.uids.Count == 0 {
		return nil, nil
	}
	u.all, err = host.OpenUsers(u.uids, os.Getenv("XDG_RUNTIME_DIR"), os.TempDir(), dir)
	if err != nil {
		return nil, &Error{Call: "Options.Dir", Err: err}
	}
	return u, nil
}

// subRange returns the first range of a user in a file of subuid(5), or none.
func subRange(file string, names []string) host.Range {
	b, _ := os.ReadFile(file)
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 3 || f[0] != names[0] && f[0] != names[len(names)-1] {
			continue
		}
		first, firstErr := strconv.ParseUint(f[1], 10, 32)
		count, countErr := strconv.ParseUint(f[2], 10, 32)
		if firstErr == nil && countErr == nil && first > 0 && count > 0 {
			return host.Range{First: uint32(first), Count: uint32(count)}
		}
	}
	return host.Range{}
}

func (*subUsers) dedicated() bool { return true }
func (*subUsers) others() bool    { return false }

func (u *subUsers) close() error {
	u.program.Close()
	return u.all.Close()
}

func (u *subUsers) take() (*identity, error) {
	id, err := u.all.Take()
	if err != nil {
		return nil, err
	}
	at := id - u.uids.First
	return &identity{
		sys:   syscall.SysProcAttr{Cloneflags: namespaces},
		mapTo: func(pid int) error { return u.mapIDs(pid, inside, at, 1) },
		uid:   inside, owner: -1,
		release: func() { u.all.Release(id) },
	}, nil
}

// remove removes a tree as root of a user namespace that has all numbers there are.
func (u *subUsers) remove(dir string) error {
	return agentclient.Remove(&agentclient.Enclosure{
		Program: u.program,
		Sys:     syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER},
		Map:     func(pid int) error { return u.mapIDs(pid, 1, 0, u.uids.Count) },
	}, dir)
}

// mapIDs makes the service's own numbers root in the user namespace of a process, and its
// count others from at on those from first on.
func (u *subUsers) mapIDs(pid, first int, at, count uint32) error {
	var both errgroup.Group
	for _, m := range []struct {
		program string
		own     int
		from    host.Range
	}{{u.mapUID, os.Geteuid(), u.uids}, {u.mapGID, os.Getegid(), u.gids}} {
		both.Go(func() error {
			out, err := exec.Command(m.program, fmt.Sprint(pid), "0", fmt.Sprint(m.own), "1",
				fmt.Sprint(first), fmt.Sprint(m.from.First+at), fmt.Sprint(count)).CombinedOutput()
			if err != nil {
				return &Error{Call: m.program, Err: fmt.Errorf("%w: %s", err, bytes.TrimSpace(out)),
					Change: "let it be set-user-ID root and a file system without nosuid, and /etc/subuid and /etc/subgid give the user a range"}
			}
			return nil
		})
	}
	return both.Wait()
}
