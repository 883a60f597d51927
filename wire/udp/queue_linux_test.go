package udp

import (
	"bytes"
	"encoding/binary"
	"testing"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

func segmentSize(n int32) []byte {
	return controlMessage(unix.IPPROTO_UDP, unix.UDP_GRO, binary.NativeEndian.AppendUint32(nil, uint32(n)))
}

func TestCutSegmentSize(t *testing.T) {
	tos := controlMessage(unix.IPPROTO_IP, unix.IP_TOS, []byte{3})
	info := controlMessage(unix.IPPROTO_IP, unix.IP_PKTINFO, make([]byte, 12))
	tests := []struct {
		name   string
		oob    []byte
		size   int
		others []byte
	}{
		{"nothing at all", nil, 0, nil},
		{"a datagram that came alone", join(tos, info), 0, join(tos, info)},
		{"size first", join(segmentSize(1200), tos), 1200, tos},
		{"size between", join(tos, segmentSize(1200), info), 1200, join(tos, info)},
		{"size last", join(tos, info, segmentSize(9)), 9, join(tos, info)},
		{"size too short to be one", controlMessage(unix.IPPROTO_UDP, unix.UDP_GRO, []byte{1, 2}), 0,
			controlMessage(unix.IPPROTO_UDP, unix.UDP_GRO, []byte{1, 2})},
		{"header cut off", join(segmentSize(7), tos[:10]), 7, tos[:10]},
		{"length beyond the end", join(segmentSize(7), tos[:16]), 7, tos[:16]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			size, others := cutSegmentSize(bytes.Clone(tt.oob))
			if size != tt.size || !bytes.Equal(others, tt.others) {
				t.Errorf("got %d and %x, want %d and %x", size, others, tt.size, tt.others)
			}
		})
	}
}

func TestTruncatedGroupFlagsItsLastSegmentOnly(t *testing.T) {
	q := queue{groups: []ipv4.Message{group(make([]byte, 2500), segmentSize(1000), unix.MSG_TRUNC)}}
	for i, want := range []int{0, 0, unix.MSG_TRUNC} {
		ms := []ipv4.Message{{Buffers: [][]byte{make([]byte, 1452)}}}
		if q.fill(ms) != 1 {
			t.Fatalf("no segment %d", i)
		}
		if got := ms[0].Flags & unix.MSG_TRUNC; got != want {
			t.Errorf("segment %d: flags %#x, want %#x", i, got, want)
		}
	}
}

func TestScatteredBuffers(t *testing.T) {
	q := queue{groups: []ipv4.Message{group([]byte("abcdefgh"), segmentSize(5), 0)}}
	ms := []ipv4.Message{
		{Buffers: [][]byte{make([]byte, 2), make([]byte, 9)}},
		{Buffers: [][]byte{make([]byte, 2), make([]byte, 9)}},
		{Buffers: [][]byte{make([]byte, 2)}},
	}
	if n := q.fill(ms); n != 2 {
		t.Fatalf("%d segments, want 2", n)
	}
	if got := string(ms[0].Buffers[0]) + string(ms[0].Buffers[1][:3]); got != "abcde" || ms[0].N != 5 {
		t.Errorf("first segment %q, N %d", got, ms[0].N)
	}
	if got := string(ms[1].Buffers[0]) + string(ms[1].Buffers[1][:1]); got != "fgh" || ms[1].N != 3 {
		t.Errorf("second segment %q, N %d", got, ms[1].N)
	}
}

// FuzzQueue cuts any payload by any control messages: it must neither panic nor loop, and
// the segments must add up to the payload.
func FuzzQueue(f *testing.F) {
	f.Add([]byte("some payload"), segmentSize(5))
	f.Add([]byte{}, segmentSize(0))
	f.Add([]byte("x"), segmentSize(-1))
	f.Add([]byte("no control message"), []byte{})
	f.Fuzz(func(t *testing.T, payload, oob []byte) {
		q := queue{groups: []ipv4.Message{group(payload, bytes.Clone(oob), 0)}}
		ms := make([]ipv4.Message, len(payload)+2)
		for i := range ms {
			ms[i].Buffers = [][]byte{make([]byte, len(payload))}
			ms[i].OOB = make([]byte, len(oob))
		}
		n := q.fill(ms)
		if n < 1 || n > len(payload)+1 {
			t.Fatalf("%d segments of %d bytes", n, len(payload))
		}
		var got []byte
		for _, m := range ms[:n] {
			got = append(got, m.Buffers[0][:m.N]...)
			if m.NN > len(oob) {
				t.Fatalf("%d bytes of control messages out of %d", m.NN, len(oob))
			}
		}
		if !bytes.Equal(got, payload) {
			t.Fatalf("segments add up to %x, want %x", got, payload)
		}
	})
}

func group(payload, oob []byte, flags int) ipv4.Message {
	return ipv4.Message{Buffers: [][]byte{payload}, N: len(payload), OOB: oob, NN: len(oob), Flags: flags}
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
