//go:build !linux || !(amd64 || arm64)

package agentclient

import (
	"errors"
	"net"

	"github.com/sandbox-go/sandbox/backend"
)

// handed is there on Linux only.
type handed struct{}

func takeSockets(int, int, string) (net.Conn, *handed, error) {
	return nil, nil, errors.ErrUnsupported
}

func (*handed) expect(int) (forget func()) { return func() {} }

func (*handed) pipes(int, *backend.Spec) (outcome, error) { return nil, errors.ErrUnsupported }
func (*handed) connection(int) (*net.TCPConn, error)      { return nil, errors.ErrUnsupported }
func (*handed) listener(int) (*net.TCPListener, error)    { return nil, errors.ErrUnsupported }
func (*handed) receive()                                  {}
func (*handed) close()                                    {}
