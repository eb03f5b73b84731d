//go:build linux && (amd64 || arm64)

package serve

import (
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/internal/agent/modes/harden"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
)

// offer offers the service a socket, and returns the connection that it chooses: the socket,
// with another for what is handed over, or conn. Only who may trace this process can take the
// other end out of it, which no command may. The sockets have no name, and the service alone
// learns the secret.
func offer(conn io.ReadWriteCloser) (io.ReadWriteCloser, *sender, error) {
	var pairs [2][2]int
	for i := range pairs {
		var err error
		if pairs[i], err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return nil, nil, os.NewSyscallError("socketpair", err)
		}
		defer unix.Close(pairs[i][1]) // the service has it by then, or never will
	}
	ours := os.NewFile(uintptr(pairs[0][0]), "direct")
	defer ours.Close()
	handing := harden.Conn(pairs[1][0])
	secret := rand.Text()
	if err := harden.Conn(pairs[0][0]).Send([]byte(secret), pairs[1][1]); err != nil {
		return nil, nil, os.NewSyscallError("sendmsg", err)
	}
	if err := wire.Write(conn, &wire.Offer{FD: pairs[0][1], Secret: secret}); err != nil {
		return nil, nil, err
	}
	m, err := wire.NewReader(conn).Next()
	if err != nil {
		return nil, nil, err
	}
	choice, ok := m.(*wire.Choice)
	switch {
	case !ok:
		return nil, nil, errors.New("want a choice")
	case choice.Direct:
		direct, err := net.FileConn(ours)
		return direct, &sender{conn: handing}, err
	}
	unix.Close(int(handing))
	return conn, nil, nil
}
