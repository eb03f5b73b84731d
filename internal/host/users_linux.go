package host

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A Range is Count numbers of users from First on.
type Range struct{ First, Count uint32 }

// Users are the numbers that a service takes for its sandboxes. A number that is
// taken is the range of one byte, at that offset, of a file that every service on
// the machine locks; so it is free again when its service is gone. Its methods may
// be called concurrently.
type Users struct {
	file  *os.File
	from  uint32
	count uint32

	mu    sync.Mutex // guards what follows: locks of one file do not exclude its own holder
	taken map[uint32]bool
}

// NewUsers opens the range of numbers r for a service that is root; the zero value is a
// range that is usually nobody's. It fails when the process may not change users, or the
// numbers do not exist here. Dir is where the file of the numbers that are taken is made
// when the usual directories are missing.
func NewUsers(r Range, dir string) (*Users, error) {
	if err := mayChangeUsers(); err != nil {
		return nil, err
	}
	r, err := mapped(r)
	if err != nil {
		return nil, err
	}
	return OpenUsers(r, "/run", os.TempDir(), dir)
}

// OpenUsers opens the range of numbers r. The first of dirs that takes it has the file of
// the numbers that are taken; an empty one is passed over.
func OpenUsers(r Range, dirs ...string) (*Users, error) {
	file, err := openLocks(dirs)
	if err != nil {
		return nil, err
	}
	return &Users{file: file, from: r.First, count: r.Count, taken: make(map[uint32]bool)}, nil
}

// mayChangeUsers says what root lacks to run commands as somebody else.
func mayChangeUsers() error {
	has, err := capabilities()
	if err != nil {
		return err
	}
	for _, c := range []struct {
		name string
		bit  int
	}{
		{"CAP_CHOWN", unix.CAP_CHOWN}, {"CAP_KILL", unix.CAP_KILL},
		{"CAP_SETGID", unix.CAP_SETGID}, {"CAP_SETUID", unix.CAP_SETUID},
	} {
		if !has(c.bit) {
			return fmt.Errorf("the service is root without %s, and commands never run as root: run it as an ordinary user, or with that capability", c.name)
		}
	}
	return nil
}

// capabilities returns which ones are effective.
func capabilities() (has func(bit int) bool, err error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return nil, os.NewSyscallError("capget", err)
	}
	return func(bit int) bool { return data[bit/32].Effective&(1<<(bit%32)) != 0 }, nil
}

// entersAll reports whether root may enter every directory and change what is in it,
// whoever owns it.
func entersAll() bool {
	has, err := capabilities()
	return err != nil || has(unix.CAP_DAC_OVERRIDE) && has(unix.CAP_FOWNER)
}

// mapped returns r, or the default range in its place, if the process's user
// namespace has all of its numbers.
func mapped(r Range) (Range, error) {
	candidates := []Range{r}
	if r == (Range{}) {
		candidates = []Range{{2_000_000_000, 65_536}, {40_000, 20_000}}
	}
	f, err := os.Open("/proc/self/uid_map")
	if err != nil {
		return r, fmt.Errorf("%w: mount /proc, or run the service as an ordinary user", err)
	}
	defer f.Close()
	ranges, err := io.ReadAll(f)
	if err != nil {
		return r, err
	}
	for _, c := range candidates {
		if c.First > 0 && c.Count > 0 && covers(string(ranges), c) {
			return c, nil
		}
	}
	return r, fmt.Errorf("the service is root, and its user namespace does not have the numbers %s for the sandboxes' users (/proc/self/uid_map): "+
		"name others that it has in Options.Users, have a range mapped into it as newuidmap does, or run the service as an ordinary user, whose commands share its number", listed(candidates))
}

func listed(ranges []Range) string {
	var words []string
	for _, r := range ranges {
		words = append(words, fmt.Sprintf("%d to %d", r.First, uint64(r.First)+uint64(max(r.Count, 1))-1))
	}
	return strings.Join(words, " or ")
}

// covers reports whether a range of the map (user_namespaces(7)) holds all of c.
func covers(ranges string, c Range) bool {
	lines := bufio.NewScanner(strings.NewReader(ranges))
	for lines.Scan() {
		var first, outside, count uint64
		if _, err := fmt.Sscan(lines.Text(), &first, &outside, &count); err != nil {
			continue
		}
		if first <= uint64(c.First) && uint64(c.First)+uint64(c.Count) <= first+count {
			return true
		}
	}
	return false
}

// openLocks opens the file that services of one user share, in the last directory after
// it is made. In a directory that others may write to, it must be that user's.
func openLocks(dirs []string) (*os.File, error) {
	var all error
	if last := dirs[len(dirs)-1]; last != "" {
		if err := MkdirAll(last); err != nil {
			return nil, err
		}
	}
	name := "sandbox-users"
	if id := os.Geteuid(); id != 0 {
		name += "-" + strconv.Itoa(id)
	}
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		path := filepath.Join(dir, name)
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		var st unix.Stat_t
		if err == nil {
			err = unix.Fstat(fd, &st)
		}
		switch {
		case err != nil:
			all = errors.Join(all, &os.PathError{Op: "open", Path: path, Err: err})
		case st.Uid != uint32(os.Geteuid()) || st.Mode&unix.S_IFMT != unix.S_IFREG:
			unix.Close(fd)
			all = errors.Join(all, fmt.Errorf("%s: not a file of the service's user", path))
		default:
			return os.NewFile(uintptr(fd), path), nil
		}
	}
	return nil, fmt.Errorf("no place to say which users are taken: make one of these directories, or choose Options.Dir: %w", all)
}

// cursorLock is the byte whose lock guards the file's content, the number to try
// next: a number is used again only when the range is spent. Nobody takes number 0.
const cursorLock = 0

// Take returns a number that nobody has.
func (u *Users) Take() (uint32, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.lock(cursorLock, unix.F_WRLCK, unix.F_OFD_SETLKW); err != nil {
		return 0, err
	}
	defer u.lock(cursorLock, unix.F_UNLCK, unix.F_OFD_SETLK)
	start := u.cursor()
	for n := range u.count {
		id := u.from + (start+n)%u.count
		if u.taken[id] || u.lock(int64(id), unix.F_WRLCK, unix.F_OFD_SETLK) != nil {
			continue
		}
		u.taken[id] = true
		u.setCursor(id + 1)
		return id, nil
	}
	return 0, fmt.Errorf("all %d users are taken", u.count)
}

// Release gives a number back of which no process is left.
func (u *Users) Release(id uint32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.taken, id)
	u.lock(int64(id), unix.F_UNLCK, unix.F_OFD_SETLK)
}

func (u *Users) lock(at int64, kind int16, how int) error {
	return unix.FcntlFlock(u.file.Fd(), how, &unix.Flock_t{Type: kind, Start: at, Len: 1})
}

// cursor returns where in the range to start: 0 when the file does not say. Each
// range has a line of its own there: the first number, the count, the next one.
func (u *Users) cursor() uint32 {
	for _, c := range u.cursors() {
		if c.from == u.from && c.count == u.count && c.next >= u.from && c.next-u.from < u.count {
			return c.next - u.from
		}
	}
	return 0
}

// A cursor is a line of the file.
type cursor struct{ from, count, next uint32 }

// maxCursors bounds the file: the ranges that were used longest ago are forgotten.
const maxCursors = 64

func (u *Users) cursors() []cursor {
	content, err := io.ReadAll(io.NewSectionReader(u.file, 0, 1<<16))
	if err != nil {
		return nil
	}
	var all []cursor
	for line := range strings.Lines(string(content)) {
		var c cursor
		if _, err := fmt.Sscan(line, &c.from, &c.count, &c.next); err == nil {
			all = append(all, c)
		}
	}
	return all
}

func (u *Users) setCursor(id uint32) {
	all := slices.DeleteFunc(u.cursors(), func(c cursor) bool { return c.from == u.from && c.count == u.count })
	all = append(all, cursor{u.from, u.count, id})
	var b []byte
	for _, c := range all[max(0, len(all)-maxCursors):] {
		b = fmt.Appendln(b, c.from, c.count, c.next)
	}
	if _, err := u.file.WriteAt(b, 0); err == nil {
		u.file.Truncate(int64(len(b)))
	}
}

// Close gives all numbers back.
func (u *Users) Close() error { return u.file.Close() }
