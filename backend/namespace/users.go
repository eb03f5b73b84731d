//go:build linux && (amd64 || arm64)

package namespace

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/internal/agent/agentclient"
	"github.com/sandbox-go/sandbox/internal/host"
)

// users give sandboxes their numbers. Their methods may be called concurrently.
type users interface {
	// dedicated reports whether a sandbox's commands have a number that is nobody else's.
	dedicated() bool

	// others reports whether what makes a sandbox is another user than the service.
	others() bool

	take() (*identity, error)

	// remove removes a tree of a sandbox's, whoever its files belong to.
	remove(dir string) error

	close() error
}

// An identity is who the agent and the commands of one sandbox are.
type identity struct {
	sys     syscall.SysProcAttr
	mapTo   func(pid int) error // what sys does not say; may be nil
	uid     int64               // the commands', inside; negative is the agent's
	owner   int                 // the agent's number on the machine; negative is the service's
	release func()

	// tree returns a mount of a directory whose files, which are the service's, look as if they
	// were the commands'. It is nil where there is no need.
	tree func(program *agentclient.Program, dir string) (*os.File, error)
}

// inside is the number of commands in their sandbox, and of their group.
const inside = 1000

// newUsers returns those that the service can have.
func newUsers(opts *Options) (users, error) {
	if os.Geteuid() == 0 {
		all, err := host.NewUsers(host.Range(opts.Users), opts.Dir)
		if err != nil {
			return nil, &Error{Call: "Options.Users", Err: err}
		}
		return &rootUsers{all}, nil
	}
	if sub, err := newSubUsers(opts.Dir); sub != nil || err != nil {
		return sub, err
	}
	return oneUser{}, nil
}

// namespaces are all of a sandbox's.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWNET

// oneUser has the service's own number for everything.
type oneUser struct{}

func (oneUser) dedicated() bool         { return false }
func (oneUser) others() bool            { return false }
func (oneUser) remove(dir string) error { return host.Remove(dir) }
func (oneUser) close() error            { return nil }

func (oneUser) take() (*identity, error) {
	return &identity{
		sys: syscall.SysProcAttr{
			Cloneflags:  namespaces,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: inside, HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: inside, HostID: os.Getegid(), Size: 1}},
			// DAC_OVERRIDE is for an overlay's own directory, which is closed to everybody.
			AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_DAC_OVERRIDE},
		},
		uid: -1, owner: -1, release: func() {},
	}, nil
}

// rootUsers have two numbers of a range for each sandbox.
type rootUsers struct{ all *host.Users }

func (*rootUsers) dedicated() bool         { return true }
func (*rootUsers) others() bool            { return true }
func (*rootUsers) remove(dir string) error { return host.Remove(dir) }
func (u *rootUsers) close() error          { return u.all.Close() }

func (u *rootUsers) take() (*identity, error) {
	agent, err := u.all.Take()
	if err != nil {
		return nil, err
	}
	commands, err := u.all.Take()
	if err != nil {
		u.all.Release(agent)
		return nil, err
	}
	ids := []syscall.SysProcIDMap{
		{ContainerID: 0, HostID: int(agent), Size: 1},
		{ContainerID: inside, HostID: int(commands), Size: 1},
	}
	return &identity{
		sys: syscall.SysProcAttr{
			Cloneflags:                 namespaces,
			UidMappings:                ids,
			GidMappings:                ids,
			GidMappingsEnableSetgroups: true,
			Credential:                 &syscall.Credential{Uid: 0, Gid: 0},
		},
		uid: inside, owner: int(agent),
		release: func() {
			u.all.Release(agent)
			u.all.Release(commands)
		},
		tree: func(program *agentclient.Program, dir string) (*os.File, error) {
			return treeOf(program, dir, int(commands))
		},
	}, nil
}

// treeOf returns a mount of a directory, in no place, in which root's files are another user's.
func treeOf(program *agentclient.Program, dir string, uid int) (*os.File, error) {
	failed := func(call string, err error) error {
		return &Error{Call: call + ", for Options.Overlay", Err: err,
			Change: "use Linux 5.19 or later, an Options.Root on a file system with idmapped mounts, and a service with CAP_SYS_ADMIN, or one that is not root"}
	}
	users, err := agentclient.UserNamespace(program, []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}})
	if err != nil {
		return nil, failed("clone(CLONE_NEWUSER)", err)
	}
	defer users.Close()
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, failed("open_tree("+dir+")", err)
	}
	tree := os.NewFile(uintptr(fd), dir)
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{
		Attr_set: unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Userns_fd: uint64(users.Fd()),
	})
	if err != nil {
		tree.Close()
		return nil, failed("mount_setattr(MOUNT_ATTR_IDMAP, "+dir+")", err)
	}
	return tree, nil
}
