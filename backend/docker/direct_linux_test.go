package docker_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/docker"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// direct skips a test where no direct connection can be had.
func direct(t *testing.T, api *client.Client) {
	t.Helper()
	info := newBackend(t, docker.Options{}).Info()
	if os.Geteuid() != 0 || !strings.HasPrefix(api.DaemonHost(), "unix://") || isGVisor(info) {
		t.Skip("a direct connection takes root, an engine on this machine, and its kernel")
	}
}

// A command goes on while the engine is away, and others start: nothing of it passes the
// engine.
func TestDirect(t *testing.T) {
	api, ctx := engine(t), testContext(t)
	direct(t, api)
	p := newProxy(t, api)
	sb := newSandbox(t, newBackend(t, docker.Options{Host: p.host, Connection: docker.ConnectDirect}), nil)
	if got := sb.Info().Backend.Connection; got != "direct" {
		t.Errorf("the connection is %q, want %q", got, "direct")
	}
	e, err := sb.Start(ctx, sandbox.Command{Shell: "read line; echo $line; exit 3", OpenStdin: true})
	if err != nil {
		t.Fatal(err)
	}
	p.cut()
	if got := output(t, sb, "echo works"); got != "works\n" {
		t.Errorf("another command has printed %q", got)
	}
	if _, err := e.WriteStdin(ctx, []byte("hi\n")); err != nil {
		t.Error(err)
	}
	if rec, err := e.Wait(ctx); err != nil || rec.Status != sandbox.Completed || *rec.ExitCode != 3 || rec.Stdout.String() != "hi\n" {
		t.Errorf("what ran: %v, %s; want exit code 3", err, describe(rec))
	}
	p.restore()
}

// An engine may not know yet which process an exec is, when its output comes already.
func TestDirectIsWaitedFor(t *testing.T) {
	api := engine(t)
	direct(t, api)
	var asked atomic.Int64
	host := newAltered(t, api, altered{exec: func(o object) {
		if asked.Add(1) <= 3 {
			o["Pid"] = 0
		}
	}})
	newSandbox(t, newBackend(t, docker.Options{Host: host, Connection: docker.ConnectDirect}), nil)
	if n := asked.Load(); n != 4 {
		t.Errorf("asked %d times for the process, want 4", n)
	}
}

// Where an engine numbers processes apart from the service, nothing is taken out of the
// process that has the agent's number here: the connection is the engine's, which is
// logged, unless it must be direct.
func TestDirectElsewhere(t *testing.T) {
	api, ctx := engine(t), testContext(t)
	host := newAltered(t, api, altered{exec: func(o object) { o["Pid"] = os.Getpid() }})
	for _, test := range []struct {
		way  docker.Connection
		want error
	}{{"", nil}, {docker.ConnectEngine, nil}, {docker.ConnectDirect, docker.NoDirect}} {
		var log bytes.Buffer
		b := newBackend(t, docker.Options{Host: host, Connection: test.way, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		sb, err := sandbox.New(ctx, b, nil)
		if !errors.Is(err, test.want) || test.want == nil && err != nil {
			t.Errorf("%q: got error %v, want %v", test.way, err, test.want)
		}
		if err != nil {
			nothingLeft(t, api, ownerOf(t))
			continue
		}
		if got := sb.Info().Backend.Connection; got != "engine" {
			t.Errorf("%q: the connection is %q, want %q", test.way, got, "engine")
		}
		if got := strings.Contains(log.String(), "go through the engine"); got != (cmp.Or(test.way, connection) == "") {
			t.Errorf("%q: the log says %q", test.way, &log)
		}
		if got := output(t, sb, "echo works"); got != "works\n" {
			t.Errorf("%q: a command has printed %q", test.way, got)
		}
		closeIn(t, sb.Close)
	}
}

// intruder is a program that tries every way to another process's sockets, and prints those
// that are open.
const intruder = `package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func main() {
	runtime.LockOSThread() // a thread traces
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range processes {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if pid == os.Getpid() {
			continue
		}
		name, _ := os.ReadFile(dir + "/comm")
		open := func(way string) { fmt.Printf("%s of %d, %s\n", way, pid, strings.TrimSpace(string(name))) }
		if files, err := os.ReadDir(dir + "/fd"); err == nil {
			open(fmt.Sprint("descriptors ", files))
		}
		if _, err := os.ReadDir(dir + "/root"); err == nil {
			open("root")
		}
		process, err := unix.PidfdOpen(pid, 0)
		for fd := 0; fd < 64 && err == nil; fd++ {
			if _, err := unix.PidfdGetfd(process, fd, 0); err == nil {
				open(fmt.Sprint("a copy of descriptor ", fd))
			}
		}
		b := make([]byte, 8)
		local := []unix.Iovec{{Base: &b[0], Len: 8}}
		if _, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0); err == nil {
			open("memory")
		}
		if unix.PtraceSeize(pid) == nil {
			open("tracing")
		}
		if unix.Kill(pid, unix.SIGSTOP) == nil {
			open("stopping")
		}
	}
	sockets, _ := os.ReadFile("/proc/net/unix")
	for _, line := range strings.Split(string(sockets), "\n")[1:] {
		if fields := strings.Fields(line); len(fields) > 7 {
			fmt.Println("the socket", fields[7])
		}
	}
	filepath.WalkDir("/", func(path string, d fs.DirEntry, err error) error {
		if path == "/proc" || path == "/sys" {
			return fs.SkipDir
		}
		if err == nil && d.Type()&fs.ModeSocket != 0 {
			fmt.Println("the socket", path)
		}
		return nil
	})
}
`

// A command finds no way in, also where it has the number of the service, which traces by
// a capability or cannot: it is then connected through the engine.
func TestDirectIsClosed(t *testing.T) {
	api := engine(t)
	direct(t, api)
	socket := strings.TrimPrefix(api.DaemonHost(), "unix://")
	info, err := os.Stat(socket)
	if err != nil {
		t.Fatal(err)
	}
	group := info.Sys().(*syscall.Stat_t).Gid
	if info.Mode()&0o060 != 0o060 || group == 0 {
		t.Skip("only root may use the engine")
	}
	program := programtest.Build(t, intruder)
	for _, test := range []struct {
		want string
		caps []uintptr
	}{{"direct", []uintptr{unix.CAP_SYS_PTRACE}}, {"engine", nil}} {
		t.Run(test.want, func(t *testing.T) {
			owner := ownerOf(t)
			cmd := exec.Command("/proc/self/exe") // whoever may see the directory that it is in
			cmd.Env = append(os.Environ(), "HOME=/", serviceVar+"=intruder", ownerVar+"="+owner, imageVar+"="+testImage(t, api), programVar+"="+program)
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Credential:  &syscall.Credential{Uid: 1000, Gid: 1000, Groups: []uint32{group}},
				AmbientCaps: test.caps,
			}
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if got := string(out); err != nil || got != test.want+"\n" {
				t.Errorf("it printed %q, %v; want the connection and no way into it", got, err)
			}
			nothingLeft(t, api, owner)
		})
	}
}

// intruderService lets the program in the environment intrude, as the service's own number.
func intruderService() {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	ctx, program := context.Background(), os.Getenv(programVar)
	b, err := docker.New(ctx, &docker.Options{Owner: os.Getenv(ownerVar), Image: os.Getenv(imageVar)})
	check(err)
	sb, err := sandbox.New(ctx, b, &sandbox.Options{Config: sandbox.Config{
		Mounts: []backend.Mount{{Source: program, Target: "/intruder", ReadOnly: true}},
	}})
	check(err)
	fmt.Println(sb.Info().Backend.Connection)
	rec, err := sb.Run(ctx, sandbox.Command{Argv: []string{"/intruder"}})
	check(err)
	fmt.Printf("%s%s", rec.Stdout, rec.Stderr)
	if after, err := sb.Run(ctx, sandbox.Command{Shell: "id -u"}); err != nil || after.Stdout.String() != fmt.Sprintln(os.Getuid()) {
		fmt.Println("then", after, err)
	}
	check(sb.Close(ctx))
	check(b.Close(ctx))
}
