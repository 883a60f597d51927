package udp

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

const (
	// groupsPerRead groups are fetched in one system call. A group holds up to 64
	// datagrams, so more would only enlarge the memory of a socket.
	groupsPerRead = 4

	// groupBytes is more than the largest UDP payload, so no group is ever cut short.
	groupBytes = 64 << 10

	// controlBytes takes every control message that QUIC asks for, for both IP versions
	// at once (120 bytes), and the segment size (24 bytes).
	controlBytes = 256
)

// groConn reads groups from the kernel and hands out their segments. The inner socket is a
// field and not embedded, so that no method is left over that would return whole groups.
type groConn struct {
	udp    *net.UDPConn
	groups *ipv4.PacketConn // reads udp, of either IP version
	closed atomic.Bool

	// A reader holds the lock while it waits for the kernel; deadlines and Close, which
	// end that wait, do not take it.
	mu struct {
		sync.Mutex
		read  [groupsPerRead]ipv4.Message // memory of the groups; queue points into it
		queue queue
	}
}

// newGRO turns receive offload on for c, and reports false when the kernel refuses.
func newGRO(c *net.UDPConn) (Conn, bool) {
	if !enableGRO(c) {
		return nil, false
	}
	g := &groConn{udp: c, groups: ipv4.NewPacketConn(c)}
	for i := range g.mu.read {
		g.mu.read[i].Buffers = [][]byte{make([]byte, groupBytes)}
		g.mu.read[i].OOB = make([]byte, controlBytes)
	}
	return g, true
}

func enableGRO(c *net.UDPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var refused error
	err = raw.Control(func(fd uintptr) {
		refused = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO, 1)
	})
	return err == nil && refused == nil
}

func (c *groConn) coalesces() bool { return true }

// ReadBatch reads one datagram or more, at most one into each message. It waits for the
// kernel only when no segment of an earlier group is left, so an expired deadline does not
// hold such segments back. Segments of one group share their Addr: do not write to it.
// MSG_PEEK is refused, as a group that was peeked at would be delivered twice.
func (c *groConn) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
	if len(ms) == 0 {
		return 0, nil
	}
	if flags&unix.MSG_PEEK != 0 {
		return 0, c.readError(os.NewSyscallError("recvmmsg", unix.EOPNOTSUPP))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return 0, c.readError(net.ErrClosed)
	}
	if n := c.mu.queue.fill(ms); n > 0 {
		return n, nil
	}
	n, err := c.groups.ReadBatch(c.mu.read[:], flags)
	if err != nil {
		return 0, err
	}
	c.mu.queue = queue{groups: c.mu.read[:n]}
	return c.mu.queue.fill(ms), nil
}

// ReadMsgUDP reads one datagram and its control messages, as [net.UDPConn.ReadMsgUDP] does.
func (c *groConn) ReadMsgUDP(b, oob []byte) (n, oobn, flags int, addr *net.UDPAddr, err error) {
	ms := [1]ipv4.Message{{Buffers: [][]byte{b}, OOB: oob}}
	if _, err := c.ReadBatch(ms[:], 0); err != nil {
		return 0, 0, 0, nil, err
	}
	addr, _ = ms[0].Addr.(*net.UDPAddr)
	return ms[0].N, ms[0].NN, ms[0].Flags, addr, nil
}

// ReadFrom reads one datagram, as [net.UDPConn.ReadFrom] does.
func (c *groConn) ReadFrom(b []byte) (int, net.Addr, error) {
	n, _, _, addr, err := c.ReadMsgUDP(b, nil)
	if err != nil || addr == nil {
		return n, nil, err
	}
	return n, addr, nil
}

// Close closes the socket and drops what was read and not handed out yet.
func (c *groConn) Close() error {
	c.closed.Store(true)
	return c.udp.Close()
}

func (c *groConn) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	return c.udp.WriteMsgUDP(b, oob, addr)
}

func (c *groConn) WriteTo(b []byte, addr net.Addr) (int, error) { return c.udp.WriteTo(b, addr) }
func (c *groConn) LocalAddr() net.Addr                          { return c.udp.LocalAddr() }
func (c *groConn) SetDeadline(t time.Time) error                { return c.udp.SetDeadline(t) }
func (c *groConn) SetReadDeadline(t time.Time) error            { return c.udp.SetReadDeadline(t) }
func (c *groConn) SetWriteDeadline(t time.Time) error           { return c.udp.SetWriteDeadline(t) }
func (c *groConn) SetReadBuffer(bytes int) error                { return c.udp.SetReadBuffer(bytes) }
func (c *groConn) SetWriteBuffer(bytes int) error               { return c.udp.SetWriteBuffer(bytes) }
func (c *groConn) SyscallConn() (syscall.RawConn, error)        { return c.udp.SyscallConn() }

func (c *groConn) readError(err error) error {
	local := c.udp.LocalAddr()
	return &net.OpError{Op: "read", Net: "udp", Source: local, Err: err}
}
