//go:build !linux

package local

import "net"

// listens does not know whose a port is: the service's user is the commands' too.
func listens(uint32, net.IP, int) (bool, error) { return true, nil }
