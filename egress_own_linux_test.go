package sandbox_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox"
)

// onOwnNetwork is the variable that says that the process has a network of its own.
const onOwnNetwork = "SANDBOX_TEST_OWN_NETWORK"

// An address of the public internet's that is this machine's own leads to the service's own
// listeners: it is refused unless a rule names it.
func TestEgressToOwnAddress(t *testing.T) {
	if os.Getenv(onOwnNetwork) == "" {
		cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), onOwnNetwork+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		if cmd.Process == nil {
			t.Skipf("the machine makes no networks: %v", err)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	const own = "8.8.4.4"
	giveAddress(t, "lo", "127.0.0.1")
	giveAddress(t, "lo:1", own)
	l, err := net.Listen("tcp4", own+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	opts := sandbox.EgressOptions{Resolve: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr(own)}, nil
	}}
	name, address := fmt.Sprintf("site.example:%d", port), fmt.Sprintf("%s:%d", own, port)
	for _, test := range []struct {
		ask   string
		rules []string
		want  string
	}{
		{name, []string{name}, "403 egress: " + name + " leads to an address of this machine"},
		{address, []string{"*:*"}, "403"},
		{name, []string{name, address}, "200"},
		{address, []string{address}, "200"},
	} {
		sb, env := newOnHost(t, &sandbox.Egress{Allow: test.rules}, opts)
		answer := ""
		for _, kv := range env {
			proxy, ok := strings.CutPrefix(kv, "HTTP_PROXY=http://")
			if !ok {
				continue
			}
			conn, err := net.Dial("tcp", proxy)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", test.ask)
			answer, _ = bufio.NewReader(conn).ReadString('\n')
			conn.Close()
		}
		if !strings.HasPrefix(answer, "HTTP/1.1 "+test.want) {
			t.Errorf("%s by %q: got %q, %+v", test.ask, test.rules, answer, sb.Egress())
		}
	}
}

// giveAddress gives an interface an IPv4 address, and has it be up.
func giveAddress(t *testing.T, name, address string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq(name)
	if err == nil {
		err = r.SetInet4Addr(net.ParseIP(address).To4())
	}
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCSIFADDR, r)
	}
	if err == nil {
		r.SetUint16(unix.IFF_UP)
		err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
	}
	if err != nil {
		t.Fatal(err)
	}
}
