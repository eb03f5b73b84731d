//go:build linux && (amd64 || arm64)

package agentclient

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// takeSockets returns a copy of another process's descriptor, which is a socket out of which
// the secret comes first, and with it a second socket. The caller must be one that may trace
// the process. Where processes are numbered apart from this one, pid is of some other process:
// of its descriptors none has the secret, and nothing is taken out of them.
func takeSockets(pid, fd int, secret string) (net.Conn, *handed, error) {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(process)
	copied, err := unix.PidfdGetfd(process, fd, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("pidfd_getfd", err)
	}
	f := os.NewFile(uintptr(copied), "agent")
	defer f.Close()
	said := make([]byte, len(secret))
	n, _, err := unix.Recvfrom(copied, said, unix.MSG_PEEK|unix.MSG_DONTWAIT)
	if err != nil {
		return nil, nil, os.NewSyscallError("recvfrom", err)
	}
	if n < len(secret) || string(said) != secret {
		return nil, nil, errors.New("the socket is another's")
	}
	conn, err := socketOf[*net.UnixConn](f, net.FileConn)
	if err != nil {
		return nil, nil, err
	}
	handed, err := newHanded(conn, said)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, handed, nil
}
