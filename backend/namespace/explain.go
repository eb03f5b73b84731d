//go:build linux && (amd64 || arm64)

package namespace

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"

	"github.com/sandbox-go/sandbox/internal/agent/agentclient"
)

// explain returns an [*Error] of why no sandbox could be made.
func explain(ctx context.Context, err error) error {
	if err == ctx.Err() {
		return err
	}
	if own := (*Error)(nil); errors.As(err, &own) {
		return err
	}
	var entering *agentclient.EnterError
	if errors.As(err, &entering) {
		e := &Error{Call: entering.Call, Change: changeEntering(entering.Call, entering.Errno, setting)}
		if entering.Errno != 0 {
			e.Err = entering.Errno
		}
		return e
	}
	var path *os.PathError
	if errors.As(err, &path) && path.Op == "fork/exec" {
		return &Error{Call: "clone(CLONE_NEWUSER and other namespaces)", Err: path.Err, Change: changeCloning(path.Err, setting)}
	}
	return &Error{Call: "start the agent", Err: err}
}

// The settings that keep a machine's users from making namespaces.
const (
	maxNamespaces   = "/proc/sys/user/max_user_namespaces"
	usersMayClone   = "/proc/sys/kernel/unprivileged_userns_clone" // of Debian
	appArmorUsers   = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
	appArmorProfile = "/proc/self/attr/apparmor/current" // the service's
)

// changeCloning says what to change where the kernel makes no namespaces.
func changeCloning(err error, setting func(path string) string) string {
	switch {
	case setting(maxNamespaces) == "0" || errors.Is(err, syscall.ENOSPC):
		return "raise the limits of namespaces: sysctl user.max_user_namespaces=10000, and the others below /proc/sys/user"
	case errors.Is(err, syscall.EUSERS):
		return "user namespaces cannot be nested any deeper: run the service in fewer of them"
	case errors.Is(err, syscall.EINVAL):
		return "use a kernel with all namespaces (CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS, CONFIG_IPC_NS, CONFIG_UTS_NS, CONFIG_CGROUPS)"
	case setting(usersMayClone) == "0":
		return "let users make namespaces: sysctl kernel.unprivileged_userns_clone=1"
	case errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES):
		return "the seccomp profile of a container refuses it, as Docker's default does, or the service is in a chroot: run the container with " +
			"--security-opt seccomp=unconfined, or with a profile that allows clone, unshare, mount, umount2, pivot_root, mount_setattr and sethostname; " +
			"--security-opt systempaths=unconfined is needed too, and, where there is AppArmor, --security-opt apparmor=unconfined"
	}
	return ""
}

// changeEntering says what to change where a call fails in new namespaces.
func changeEntering(call string, errno syscall.Errno, setting func(path string) string) string {
	denied := errno == syscall.EPERM || errno == syscall.EACCES
	profile := setting(appArmorProfile)
	switch {
	case errno == syscall.ENOSYS && strings.HasPrefix(call, "mount_setattr"):
		return "use Linux 5.12 or later, or allow the call in the seccomp profile of the container"
	case denied && strings.HasSuffix(profile, " (enforce)"):
		return "AppArmor's profile " + strings.TrimSuffix(profile, " (enforce)") + " refuses it, as Docker's default does: give the service one that allows mounts; " +
			"for a container, --security-opt apparmor=unconfined"
	case denied && setting(appArmorUsers) == "1":
		return "AppArmor takes all rights from user namespaces, as on Ubuntu from 24.04 on: give the service a profile with the rule \"userns,\", " +
			"or sysctl kernel.apparmor_restrict_unprivileged_userns=0"
	case strings.HasPrefix(call, "mount(overlay"):
		return "use Linux 5.11 or later with overlayfs; set Options.Dir to a disk's file system, since a container's root, itself an overlay, " +
			"cannot be the upper layer; or set Options.WriteSize, which uses memory"
	case denied && call == "mount(proc, /proc)":
		return "the kernel lets nobody mount a proc who sees only a part of one: run the container with --security-opt systempaths=unconfined"
	case denied && strings.HasPrefix(call, "mount(MS_BIND, /"):
		return "the service's user may not show that, or it has mounts below it that cannot be separated from it"
	case denied:
		return "a seccomp profile or a security module refuses it: run the container with --security-opt seccomp=unconfined, or with profiles that allow mount, umount2, pivot_root, mount_setattr and sethostname"
	case errno == syscall.EXDEV:
		return "a symbolic link of Options.Root leads out of it there: choose another target"
	case errno == syscall.EROFS:
		return "choose a target in a directory that exists, or one that is not in a read-only file system"
	}
	return ""
}

// setting returns what the kernel has set, or nothing where there is no such setting.
func setting(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}
