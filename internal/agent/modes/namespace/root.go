//go:build linux && (amd64 || arm64)

package namespace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
)

// old is where the host's root is while the sandbox's is made.
const old = "/.host"

// own are the entries of the root that the sandbox has its own of.
var own = []string{"dev", "home", "proc", "run", "sys", "tmp", "workspace"}

// makeRoot makes the sandbox's root and moves there. The host's root is out of reach
// afterwards, and so is every mount of the host that is not part of the sandbox.
func makeRoot(e *wire.Enter) error {
	r := &root{enter: e}
	r.do(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), "mount(MS_PRIVATE, /)")
	r.data()
	if e.Overlay {
		r.overlay()
	} else {
		r.mount("tmpfs", e.Place, unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m")
	}
	r.mkdir(e.Place+old, 0o700)
	r.do(unix.PivotRoot(e.Place, e.Place+old), "pivot_root")
	r.do(unix.Chdir("/"), "chdir(/)")
	// From here on no path leads to the host but through old.
	for _, dir := range own {
		r.ownDir("/" + dir)
	}
	if !e.Overlay {
		r.entries()
	}
	r.proc()
	r.dev()
	r.tmp("/tmp")
	for _, at := range e.WorkAt {
		r.mkdirAll(at)
		r.bind(filepath.Join(e.Data, work), at, writable)
	}
	for _, m := range e.Mounts {
		attr := uint64(writable)
		if m.ReadOnly {
			attr = readOnly
		}
		r.target(m.Source, m.Target)
		r.bind(m.Source, m.Target, attr)
	}
	for _, path := range e.Hide {
		r.mask(path)
	}
	if r.err == nil && e.UID >= 0 && len(e.WorkAt) > 0 {
		r.do(unix.Chown(e.WorkAt[0], int(e.UID), int(e.GID)), "chown(%s)", e.WorkAt[0])
	}
	r.do(unix.Unmount(old, unix.MNT_DETACH), "umount(%s)", old)
	r.do(unix.Rmdir(old), "rmdir(%s)", old)
	if !e.Overlay {
		r.restrict("/", readOnly, 0)
	} else if r.err == nil && e.UID >= 0 {
		r.do(unix.Chown("/", int(e.UID), int(e.GID)), "chown(/)")
	}
	return r.err
}

// What is in wire.Enter.Data.
const (
	work  = "work"  // the start directory
	upper = "upper" // what is written to the root
	aside = "aside" // the overlay's own
)

// data makes what commands write to.
func (r *root) data() {
	e := r.enter
	if e.DataSize > 0 {
		const perFile = 4096 // at least, as on a disk, or files without content would have no bound
		r.mount("tmpfs", e.Data, unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=700,size=%d,nr_inodes=%d", e.DataSize, e.DataSize/perFile+16))
	}
	r.mkdir(filepath.Join(e.Data, work), 0o700)
	if e.Overlay {
		r.mkdir(filepath.Join(e.Data, upper), 0o755)
		r.mkdir(filepath.Join(e.Data, aside), 0o700)
	}
}

// overlay mounts the root with a layer over it that commands may write to. Names are relative,
// since in options neither commas nor colons could be part of them.
func (r *root) overlay() {
	e := r.enter
	if r.err != nil {
		return
	}
	if e.Tree > 0 {
		r.do(unix.MoveMount(e.Tree, "", unix.AT_FDCWD, e.Place, unix.MOVE_MOUNT_F_EMPTY_PATH), "move_mount(%s)", e.Root)
		unix.Close(e.Tree)
	} else {
		r.do(unix.Mount(e.Root, e.Place, "", unix.MS_BIND|unix.MS_REC, ""), "mount(MS_BIND, %s, /)", e.Root)
	}
	r.do(unix.Chdir(filepath.Dir(e.Place)), "chdir(%s)", filepath.Dir(e.Place))
	place, data := filepath.Base(e.Place), filepath.Base(e.Data)
	if r.err == nil {
		r.do(unix.Mount("overlay", place, "overlay", unix.MS_NOSUID|unix.MS_NODEV,
			fmt.Sprintf("userxattr,lowerdir=%s,upperdir=%s/%s,workdir=%s/%s", place, data, upper, data, aside)), "mount(overlay, /)")
	}
}

// ownDir makes a directory of the sandbox's own, whatever an overlay has in its place.
func (r *root) ownDir(path string) {
	info, err := os.Lstat(path)
	switch {
	case r.err != nil || err == nil && info.IsDir():
		return
	case err == nil:
		r.do(os.Remove(path), "unlink(%s)", path)
	}
	r.mkdir(path, 0o755)
}

// A root is one that is being made. After the first error nothing is done any more.
type root struct {
	enter *wire.Enter
	err   error
}

// do records a call's error.
func (r *root) do(err error, format string, args ...any) {
	if r.err == nil {
		r.err = failed(err, format, args...)
	}
}

func (r *root) mkdir(path string, mode uint32) {
	if r.err == nil {
		r.do(unix.Mkdir(path, mode), "mkdir(%s)", path)
	}
}

// mkdirAll makes a directory, and what is missing above it.
func (r *root) mkdirAll(path string) {
	if r.err == nil {
		r.do(os.MkdirAll(path, 0o755), "mkdir(%s)", path)
	}
}

func (r *root) mount(kind, at string, flags uintptr, data string) {
	if r.err == nil {
		r.do(unix.Mount(kind, at, kind, flags, data), "mount(%s, %s)", kind, at)
	}
}

// What mounts get besides what they have.
const (
	writable = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	readOnly = writable | unix.MOUNT_ATTR_RDONLY
	device   = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
)

// bind shows a file or directory of the host, with what is mounted below it.
func (r *root) bind(source, at string, attr uint64) {
	if r.err != nil {
		return
	}
	r.do(unix.Mount(old+source, at, "", unix.MS_BIND|unix.MS_REC, ""), "mount(MS_BIND, %s, %s)", source, at)
	r.restrict(at, attr, unix.AT_RECURSIVE)
}

// restrict adds to a mount's attributes.
func (r *root) restrict(at string, attr uint64, flags uint) {
	if r.err == nil {
		r.do(unix.MountSetattr(unix.AT_FDCWD, at, flags, &unix.MountAttr{Attr_set: attr}), "mount_setattr(%s)", at)
	}
}

// entries shows what the root is made of. What cannot be shown, as a device or a
// directory that is closed to the service, is left out.
func (r *root) entries() {
	dir := old + r.enter.Root
	entries, err := os.ReadDir(dir)
	r.do(err, "open(%s)", r.enter.Root)
	for _, entry := range entries {
		name := entry.Name()
		source, at := filepath.Join(r.enter.Root, name), "/"+name
		_, statErr := os.Lstat(at)
		if slices.Contains(own, name) || len(r.enter.Entries) > 0 && !slices.Contains(r.enter.Entries, name) || statErr == nil {
			continue
		}
		switch entry.Type() {
		case fs.ModeSymlink:
			target, err := os.Readlink(filepath.Join(dir, name))
			r.do(err, "readlink(%s)", source)
			r.do(os.Symlink(target, at), "symlink(%s)", at)
		case fs.ModeDir:
			r.mkdir(at, 0o755)
			r.bind(source, at, readOnly)
		case 0:
			r.file(at)
			r.bind(source, at, readOnly)
		}
	}
	if _, err := os.Lstat("/var"); r.err == nil && errors.Is(err, fs.ErrNotExist) {
		r.mkdir("/var", 0o755)
		r.do(os.Symlink("/tmp", "/var/tmp"), "symlink(/var/tmp)")
	}
}

// file makes an empty file.
func (r *root) file(path string) {
	if r.err == nil {
		r.do(os.WriteFile(path, nil, 0o644), "open(%s)", path)
	}
}

// target makes what a mount is put on, where it is missing and can be made.
func (r *root) target(source, target string) {
	r.inside(target)
	if r.err != nil {
		return
	}
	if _, err := os.Stat(target); err == nil {
		return
	}
	info, err := os.Stat(old + source)
	switch {
	case err != nil:
		r.do(err, "stat(%s)", source)
	case info.IsDir():
		r.mkdirAll(target)
	default:
		r.mkdirAll(filepath.Dir(target))
		r.file(target)
	}
}

// inside checks that no link of the root's, which may be a stranger's image, leads from target to
// the host.
func (r *root) inside(target string) {
	for dir := target; r.err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		real, err := filepath.EvalSymlinks(dir)
		if err == nil && (real == old || strings.HasPrefix(real, old+"/")) {
			err = unix.EXDEV
		}
		r.do(err, "resolve(%s)", target)
		return
	}
}

// mask hides what is at path, if anything.
func (r *root) mask(path string) {
	info, err := os.Stat(path)
	if r.err != nil || err != nil {
		return
	}
	if !info.IsDir() {
		r.do(unix.Mount("/dev/null", path, "", unix.MS_BIND, ""), "mount(MS_BIND, /dev/null, %s)", path)
		return
	}
	r.mount("tmpfs", path, unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=555,size=4k,nr_inodes=1")
}

// tmp mounts a file system in memory that everybody may write to.
func (r *root) tmp(at string) {
	data := "mode=1777"
	if r.enter.TmpSize > 0 {
		data += fmt.Sprintf(",size=%d", r.enter.TmpSize)
	}
	r.mount("tmpfs", at, unix.MS_NOSUID|unix.MS_NODEV, data)
}

// What in /proc is of the machine, and what of it must not be written to: the lists are
// those of the container engines.
var (
	masked = []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/kmsg",
		"/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
	}
	unwritable = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

func (r *root) proc() {
	r.mount("proc", "/proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	for _, path := range unwritable {
		if _, err := os.Stat(path); r.err != nil || err != nil {
			continue
		}
		r.do(unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, ""), "mount(MS_BIND, %s)", path)
		r.restrict(path, readOnly|unix.MOUNT_ATTR_NOEXEC, unix.AT_RECURSIVE)
	}
}

func (r *root) dev() {
	r.mount("tmpfs", "/dev", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755,size=64k")
	for _, name := range []string{"full", "null", "random", "tty", "urandom", "zero"} {
		r.file("/dev/" + name)
		r.bind("/dev/"+name, "/dev/"+name, device)
	}
	r.mkdir("/dev/pts", 0o755)
	r.mount("devpts", "/dev/pts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
	r.mkdir("/dev/shm", 0o1777)
	r.tmp("/dev/shm")
	for name, target := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if r.err == nil {
			r.do(os.Symlink(target, "/dev/"+name), "symlink(/dev/%s)", name)
		}
	}
	for _, path := range masked { // by /dev/null
		r.mask(path)
	}
	r.restrict("/dev", unix.MOUNT_ATTR_RDONLY, 0)
}
