package sandbox

import (
	"context"
	"errors"
	"net"

	"github.com/sandbox-go/sandbox/backend"
)

func (sb *sandboxImpl) Dial(ctx context.Context, port int) (net.Conn, error) {
	conn, err := sb.dial(ctx, port)
	if err != nil {
		return nil, &Error{Op: "dial", Sandbox: sb.id, Err: err}
	}
	return conn, nil
}

func (sb *sandboxImpl) dial(ctx context.Context, port int) (net.Conn, error) {
	if port < 1 || port > 65535 {
		return nil, invalidf(FieldPort, "%d is not between 1 and 65535", port)
	}
	if err := sb.usable(); err != nil {
		return nil, err
	}
	dialer, ok := sb.instance.(backend.Dialer)
	if !sb.backend.Ports {
		return nil, errors.ErrUnsupported
	}
	if !ok { // it was recovered
		return nil, errHidden("Ports", sb.instance, "backend.Dialer")
	}
	return answerOf(ctx, "Dial", answerTime, func() (net.Conn, error) { return dialer.Dial(ctx, port) }, net.Conn.Close)
}
