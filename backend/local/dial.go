package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/sandbox-go/sandbox/backend"
)

var _ backend.Dialer = (*instance)(nil)

// Dial implements [backend.Dialer]. The machine's network is everybody's: what
// makes a port the sandbox's is that its user listens on it. Who listens may change
// at any time, so the connection itself is checked too.
func (i *instance) Dial(ctx context.Context, port int) (net.Conn, error) {
	var dialer net.Dialer
	for _, ip := range []string{"127.0.0.1", "::1"} {
		ours, err := listens(i.user, net.ParseIP(ip), port)
		if err != nil {
			return nil, fmt.Errorf("local: %w", err)
		}
		if !ours {
			continue
		}
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
		if errors.Is(err, syscall.ECONNREFUSED) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if ours, err = reaches(ctx, i.user, conn); ours {
			return conn, nil
		}
		conn.Close()
		if err != nil {
			return nil, fmt.Errorf("local: %w", err)
		}
	}
	return nil, fmt.Errorf("local: port %d: %w", port, backend.ErrRefused)
}
