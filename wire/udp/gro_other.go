//go:build !linux

package udp

import "net"

// newGRO has nothing to offer outside Linux.
func newGRO(*net.UDPConn) (Conn, bool) { return nil, false }
