//go:build linux && (amd64 || arm64)

package serve

import (
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
)

// offer offers the service a socket, and returns the connection that it chooses: the socket,
// or conn. Only who may trace this process can take the other end out of it, which no
// command may. The socket has no name, and the service alone learns the secret.
func offer(conn io.ReadWriteCloser) (io.ReadWriteCloser, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	defer unix.Close(pair[1]) // the service has it by then, or never will
	ours := os.NewFile(uintptr(pair[0]), "direct")
	defer ours.Close()
	secret := rand.Text()
	if _, err := ours.WriteString(secret); err != nil {
		return nil, err
	}
	if err := wire.Write(conn, &wire.Offer{FD: pair[1], Secret: secret}); err != nil {
		return nil, err
	}
	m, err := wire.NewReader(conn).Next()
	if err != nil {
		return nil, err
	}
	choice, ok := m.(*wire.Choice)
	switch {
	case !ok:
		return nil, errors.New("want a choice")
	case choice.Direct:
		return net.FileConn(ours)
	}
	return conn, nil
}
