//go:build !linux

package agentclient

import (
	"errors"
	"net"
)

func takeSocket(int, int, string) (net.Conn, error) { return nil, errors.ErrUnsupported }
