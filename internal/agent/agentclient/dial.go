package agentclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/shared/mux"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
)

// Dial connects to a TCP port in the container, by the rules of [backend.Dialer].
func (c *Conn) Dial(ctx context.Context, port int) (net.Conn, error) {
	stream, err := c.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { stream.SetDeadline(time.Unix(1, 0)) })
	request := &wire.Dial{Port: port}
	if c.handed != nil {
		request.ID = int(c.numbers.Add(1))
		defer c.handed.expect(request.ID)()
	}
	go wire.Write(stream, request) // it may wait for the connection; reading notices that it failed
	var m wire.Message
	m, err = wire.NewReader(stream).Next()
	if answer, ok := m.(*wire.Dialed); ok {
		switch {
		case answer.Refused:
			err = fmt.Errorf("port %d: %w", port, backend.ErrRefused)
		case answer.Why != "":
			err = errors.New(answer.Why)
		}
	} else if err == nil {
		err = errors.New("unexpected answer")
	}
	if !stop() {
		err = ctx.Err()
	}
	if err == nil && request.ID == 0 {
		return mux.NewConn(stream), nil
	}
	go stream.Close()
	var conn *net.TCPConn
	if err == nil {
		conn, err = c.handed.connection(request.ID)
	}
	if err != nil {
		return nil, c.explain(fmt.Errorf("agent: %w", err))
	}
	return c.sockets.add(conn), nil
}
