package local

import (
	"context"
	"net"
)

// Reaches is reaches, for a user that is the sandbox's alone or not.
func Reaches(ctx context.Context, uid uint32, own bool, conn net.Conn) (bool, error) {
	return reaches(ctx, account{id: uid, own: own}, conn)
}
