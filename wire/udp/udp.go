package udp

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
)

// EnvGRO names the environment variable that switches receive offload off for a whole
// process, whatever the program asks for: "off", "false", "no" or "0", in any case. With
// any other value, and without one, offload stays on where the system has it.
const EnvGRO = "QUOIN_UDP_GRO"

// Conn is a UDP socket with what a QUIC library wants of one: packets with their control
// messages, access to the descriptor for socket options, and sizes for its buffers.
// Its value is a [*net.UDPConn], or a socket that also has
//
//	ReadBatch([]ipv4.Message, int) (int, error)
//
// and takes groups of datagrams from the kernel. All methods may be called from several
// goroutines; reads take turns.
//
// Once a socket is in use by a QUIC library, leave reading and deadlines to the library.
type Conn interface {
	net.PacketConn
	SyscallConn() (syscall.RawConn, error)
	SetReadBuffer(bytes int) error
	SetWriteBuffer(bytes int) error
	ReadMsgUDP(b, oob []byte) (n, oobn, flags int, addr *net.UDPAddr, err error)
	WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error)
}

// Options change how a socket is set up. The zero value is right for nearly everybody.
type Options struct {
	// PlainReceive leaves receive offload off. Default: false. On Linux it costs a third
	// of the throughput of a busy receiver; it saves 256 KiB of memory a socket, and it
	// is the way around a network driver or a kernel that merges packets wrongly.
	PlainReceive bool
}

// Listen opens a socket bound to addr, "host:port" with port 0 for any. The network is
// "udp", "udp4" or "udp6"; the host may be empty for all addresses. Errors are those of
// [net.ListenPacket].
func Listen(network, addr string, o Options) (Conn, error) {
	switch network {
	case "udp", "udp4", "udp6":
	default: // some others would leave a file behind
		return nil, fmt.Errorf("open UDP socket: %w", net.UnknownNetworkError(network))
	}
	var lc net.ListenConfig
	pc, err := lc.ListenPacket(context.Background(), network, addr)
	if err != nil {
		return nil, fmt.Errorf("open UDP socket: %w", err)
	}
	c, ok := pc.(*net.UDPConn)
	if !ok {
		pc.Close()
		return nil, fmt.Errorf("open UDP socket: %w", net.UnknownNetworkError(network))
	}
	return Wrap(c, o), nil
}

// Wrap takes over a socket that is open already. From then on read only from what it
// returns: datagrams read from c itself may be whole groups. Closing the returned Conn
// closes c. Wrap never fails: without offload it returns c.
func Wrap(c *net.UDPConn, o Options) Conn {
	if o.PlainReceive || switchedOff(os.Getenv(EnvGRO)) {
		return c
	}
	if g, ok := newGRO(c); ok {
		return g
	}
	return c
}

// Coalesces reports whether datagrams reach c in groups, that is whether receive offload
// is on. For logs and diagnosis.
func Coalesces(c net.PacketConn) bool {
	g, ok := c.(interface{ coalesces() bool })
	return ok && g.coalesces()
}

// switchedOff reads the value of EnvGRO. An unknown word leaves offload on: a typing
// error must not cost throughput that nobody then misses.
func switchedOff(value string) bool {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "off", "false", "no", "0":
		return true
	}
	return false
}
