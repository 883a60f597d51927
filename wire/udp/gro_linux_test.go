package udp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/quic-go/quic-go"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// What the QUIC library must find to read in batches and to write with control messages.
var (
	_ quic.OOBCapablePacketConn = (*groConn)(nil)
	_ batchReader               = (*groConn)(nil)
)

// A send is one call to the kernel: a payload that it cuts into datagrams of segment
// bytes, or one datagram if segment is 0.
type send struct {
	bytes   int
	segment int
}

// datagrams are the sizes that must arrive.
func (s send) datagrams() []int {
	if s.segment == 0 {
		return []int{s.bytes}
	}
	var sizes []int
	for left := s.bytes; left > 0; left -= s.segment {
		sizes = append(sizes, min(left, s.segment))
	}
	return sizes
}

var groupCases = []struct {
	name  string
	sends []send
}{
	{"peer without GSO", []send{{1200, 0}, {1, 0}, {0, 0}, {1452, 0}}},
	{"whole segments", []send{{12000, 1200}}},
	{"short tail", []send{{12001, 1200}, {3000, 1452}}},
	{"mixed sizes", []send{{10000, 1000}, {50, 0}, {5000, 1452}, {1300, 0}, {640, 10}, {900, 900}}},
	{"more groups than one read takes", slices.Repeat([]send{{4000, 1300}}, 11)},
	{"largest group", []send{{63 * 1024, 1024}}},
}

func TestGroupsArriveAsDatagrams(t *testing.T) {
	binds := []struct{ name, network, bind, host string }{
		{"IPv4", "udp4", "127.0.0.1:0", "127.0.0.1"},
		{"IPv6", "udp6", "[::1]:0", "::1"},
		{"unspecified IPv4", "udp4", "0.0.0.0:0", "127.0.0.1"},
		{"unspecified both, IPv4 peer", "udp", ":0", "127.0.0.1"},
		{"unspecified both, IPv6 peer", "udp", ":0", "::1"},
	}
	for _, b := range binds {
		for _, tt := range groupCases {
			for _, o := range []Options{{}, {PlainReceive: true}} {
				t.Run(fmt.Sprintf("%s/%s/plain=%v", b.name, tt.name, o.PlainReceive), func(t *testing.T) {
					c := listen(t, b.network, b.bind, o)
					if Coalesces(c) == o.PlainReceive {
						t.Fatalf("Coalesces = %v", Coalesces(c))
					}
					askForControl(t, c)
					peer := listen(t, "udp", net.JoinHostPort(b.host, "0"), o)
					to := &net.UDPAddr{IP: net.ParseIP(b.host), Port: c.LocalAddr().(*net.UDPAddr).Port}
					var sizes []int
					for _, s := range tt.sends {
						transmit(t, peer, to, s, len(sizes))
						sizes = append(sizes, s.datagrams()...)
					}
					expect(t, c, peer, sizes)
				})
			}
		}
	}
}

// transmit numbers the bytes of s, so that a byte out of place shows.
func transmit(t *testing.T, peer Conn, to *net.UDPAddr, s send, first int) {
	t.Helper()
	var payload []byte
	for i, size := range s.datagrams() {
		payload = append(payload, content(first+i, size)...)
	}
	control := trafficClass(to.IP, 2) // ECT(0)
	if s.segment > 0 {
		control = append(control, controlMessage(unix.IPPROTO_UDP, unix.UDP_SEGMENT,
			binary.NativeEndian.AppendUint16(nil, uint16(s.segment)))...)
	}
	if _, _, err := peer.WriteMsgUDP(payload, control, to); err != nil {
		t.Fatal(err)
	}
}

// expect reads datagrams of these sizes from peer, in this order, in batches.
func expect(t *testing.T, c, peer Conn, sizes []int) {
	t.Helper()
	ms := make([]ipv4.Message, 8)
	for i := range ms {
		ms[i].Buffers = [][]byte{make([]byte, 1452)}
		ms[i].OOB = make([]byte, 128)
	}
	read := reader(c)
	for next := 0; next < len(sizes); {
		n, err := read.ReadBatch(ms, 0)
		if err != nil {
			t.Fatalf("datagram %d of %d: %v", next, len(sizes), err)
		}
		for _, m := range ms[:n] {
			if want := content(next, sizes[next]); !bytes.Equal(m.Buffers[0][:m.N], want) {
				t.Fatalf("datagram %d: %d bytes of other content, want %d", next, m.N, len(want))
			}
			if m.Flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
				t.Errorf("datagram %d: flags %#x", next, m.Flags)
			}
			if got, want := m.Addr.(*net.UDPAddr).Port, peer.LocalAddr().(*net.UDPAddr).Port; got != want {
				t.Errorf("datagram %d: from port %d, want %d", next, got, want)
			}
			checkControl(t, m.OOB[:m.NN])
			next++
		}
	}
}

// checkControl wants the traffic class and where the datagram was sent to, no segment size.
func checkControl(t *testing.T, oob []byte) {
	t.Helper()
	ms, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		t.Fatal(err)
	}
	var class, info bool
	for _, m := range ms {
		switch [2]int32{m.Header.Level, m.Header.Type} {
		case [2]int32{unix.IPPROTO_IP, unix.IP_TOS}, [2]int32{unix.IPPROTO_IPV6, unix.IPV6_TCLASS}:
			class = m.Data[0] == 2
		case [2]int32{unix.IPPROTO_IP, unix.IP_PKTINFO}, [2]int32{unix.IPPROTO_IPV6, unix.IPV6_PKTINFO}:
			info = true
		case [2]int32{unix.IPPROTO_UDP, unix.UDP_GRO}:
			t.Error("the segment size was handed out")
		}
	}
	if !class || !info {
		t.Errorf("control messages: traffic class %v, packet info %v; want both", class, info)
	}
}

func TestKernelDoesCoalesce(t *testing.T) {
	c := listen(t, "udp4", "127.0.0.1:0", Options{}).(*groConn)
	peer := listen(t, "udp4", "127.0.0.1:0", Options{})
	transmit(t, peer, c.LocalAddr().(*net.UDPAddr), send{12000, 1200}, 0)
	if _, _, err := c.ReadFrom(make([]byte, 1452)); err != nil {
		t.Fatal(err)
	}
	if got, want := len(c.mu.queue.rest), 12000-1200; got != want {
		t.Errorf("%d bytes of the group are left after one datagram, want %d", got, want)
	}
}

func TestSmallBuffersAreFlagged(t *testing.T) {
	c := listen(t, "udp4", "127.0.0.1:0", Options{})
	askForControl(t, c)
	peer := listen(t, "udp4", "127.0.0.1:0", Options{})
	transmit(t, peer, c.LocalAddr().(*net.UDPAddr), send{2500, 1000}, 0)
	for i, want := range []int{unix.MSG_TRUNC, unix.MSG_TRUNC, 0} {
		n, oobn, flags, _, err := c.ReadMsgUDP(make([]byte, 600), make([]byte, 20))
		if err != nil {
			t.Fatal(err)
		}
		if flags&unix.MSG_TRUNC != want || n > 600 {
			t.Errorf("datagram %d: %d bytes, flags %#x, want truncation %#x", i, n, flags, want)
		}
		if oobn != 0 || flags&unix.MSG_CTRUNC == 0 {
			t.Errorf("datagram %d: %d bytes of control messages, flags %#x", i, oobn, flags)
		}
	}
}

func TestCloseDropsTheQueue(t *testing.T) {
	c := listen(t, "udp4", "127.0.0.1:0", Options{})
	peer := listen(t, "udp4", "127.0.0.1:0", Options{})
	transmit(t, peer, c.LocalAddr().(*net.UDPAddr), send{2000, 1000}, 0)
	if _, _, err := c.ReadFrom(make([]byte, 1452)); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, _, err := c.ReadFrom(make([]byte, 1452)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after Close: %v, want net.ErrClosed", err)
	}
}

func TestPeekIsRefused(t *testing.T) {
	c := listen(t, "udp4", "127.0.0.1:0", Options{}).(*groConn)
	_, err := c.ReadBatch(make([]ipv4.Message, 1), unix.MSG_PEEK)
	if !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("ReadBatch with MSG_PEEK: %v", err)
	}
}

type batchReader interface {
	ReadBatch(ms []ipv4.Message, flags int) (int, error)
}

// reader finds the batched reads of c the way that the QUIC library does.
func reader(c Conn) batchReader {
	if r, ok := c.(batchReader); ok {
		return r
	}
	return ipv4.NewPacketConn(c.(*net.UDPConn))
}

// askForControl turns on traffic class and packet info for whichever IP versions c has.
func askForControl(t *testing.T, c Conn) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var v4, v6 error
	err = raw.Control(func(fd uintptr) {
		v4 = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVTOS, 1),
			unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1))
		v6 = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1),
			unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1))
	})
	if err != nil || (v4 != nil && v6 != nil) {
		t.Fatal(errors.Join(err, v4, v6))
	}
}

func trafficClass(to net.IP, value byte) []byte {
	if to.To4() != nil {
		return controlMessage(unix.IPPROTO_IP, unix.IP_TOS, []byte{value})
	}
	return controlMessage(unix.IPPROTO_IPV6, unix.IPV6_TCLASS,
		binary.NativeEndian.AppendUint32(nil, uint32(value)))
}

// controlMessage lays out one control message as the kernel does.
func controlMessage(level, kind int32, body []byte) []byte {
	h := unix.Cmsghdr{Level: level, Type: kind}
	h.SetLen(unix.CmsgLen(len(body)))
	b := make([]byte, unix.CmsgSpace(len(body)))
	if _, err := binary.Encode(b, binary.NativeEndian, h); err != nil {
		panic(err) // a struct of fixed size always fits
	}
	copy(b[unix.CmsgLen(0):], body)
	return b
}

// content is what datagram i of this size must hold.
func content(i, size int) []byte {
	b := make([]byte, size)
	for j := range b {
		b[j] = byte(i*31 + j)
	}
	return b
}
