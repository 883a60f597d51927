package udp

import (
	"encoding/binary"
	"net"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// queue holds groups that were read and cuts them into segments, in the order of arrival.
// It is pure memory; its owner provides the lock. The zero value is empty.
type queue struct {
	groups []ipv4.Message // not begun yet

	begun   bool // the fields below describe a group with a segment left
	addr    net.Addr
	flags   int
	control []byte // every control message but the segment size
	segment int    // bytes of each segment but the last, which may be shorter
	rest    []byte // payload not handed out yet
}

// fill moves segments into ms, as many as there are, and reports how many.
func (q *queue) fill(ms []ipv4.Message) int {
	for i := range ms {
		if !q.begun && !q.begin() {
			return i
		}
		q.handOut(&ms[i])
	}
	return len(ms)
}

// begin takes up the next group. A group without a usable segment size is one datagram.
func (q *queue) begin() bool {
	if len(q.groups) == 0 {
		return false
	}
	m := &q.groups[0]
	q.groups = q.groups[1:]
	size, control := cutSegmentSize(m.OOB[:m.NN])
	q.begun = true
	q.addr = m.Addr
	q.flags = m.Flags
	q.control = control
	q.rest = m.Buffers[0][:m.N]
	q.segment = len(q.rest)
	if size > 0 {
		q.segment = min(size, len(q.rest))
	}
	return true
}

// handOut copies the next segment into m the way that the kernel would have done it: what
// does not fit is lost and flagged. Control messages are given whole or not at all.
func (q *queue) handOut(m *ipv4.Message) {
	n := min(q.segment, len(q.rest))
	data := q.rest[:n]
	q.rest = q.rest[n:]
	q.begun = len(q.rest) > 0

	m.Addr = q.addr
	m.Flags = q.flags
	if q.begun {
		m.Flags &^= unix.MSG_TRUNC // only the end of a group can have been cut off
	}
	m.N = 0
	for _, b := range m.Buffers {
		m.N += copy(b, data[m.N:])
	}
	if m.N < n {
		m.Flags |= unix.MSG_TRUNC
	}
	m.NN = 0
	if len(q.control) <= len(m.OOB) {
		m.NN = copy(m.OOB, q.control)
	} else {
		m.Flags |= unix.MSG_CTRUNC
	}
}

// cutSegmentSize takes the segment size out of a list of control messages. The kernel
// writes it as an int and leaves it out for a datagram that came alone: then it is 0. The
// other messages stay in their order, in the same memory. Reading on stops at a message
// that does not parse; it is left for the reader to judge.
func cutSegmentSize(oob []byte) (size int, others []byte) {
	others = oob[:0]
	left := oob
	for len(left) >= unix.SizeofCmsghdr { // the parser reads a header without looking
		hdr, body, after, err := unix.ParseOneSocketControlMessage(left)
		if err != nil {
			break
		}
		if hdr.Level == unix.IPPROTO_UDP && hdr.Type == unix.UDP_GRO && len(body) >= 4 {
			size = int(int32(binary.NativeEndian.Uint32(body)))
		} else {
			others = append(others, left[:len(left)-len(after)]...)
		}
		left = after
	}
	return size, append(others, left...)
}
