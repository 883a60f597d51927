package copies

import (
	"math"
	"time"

	"github.com/quic-go/quic-go"
)

const (
	// lossy is for how long a connection that lost a packet is taken for one that loses
	// packets. At 1 % loss and ten packets a second one is lost every ten seconds.
	lossy = 30 * time.Second

	// The time between two looks at the connection is a round trip, or this.
	shortestLook = 20 * time.Millisecond

	// A copy leaves an eighth of a round trip after its frame: so late that it is not in
	// the packet of the frame, nor in the same short burst of losses, and long before a
	// loss could be noticed, which takes 9/8 of one (RFC 9002, section 6.1.2).
	delayShare    = 8
	shortestDelay = time.Millisecond
	longestDelay  = 25 * time.Millisecond

	packet     = 1250 // bytes, about
	rememberIn = 4096 // packets in which losses are counted before older ones count half

	averageOver = 500 * time.Millisecond
	remember    = 5 * time.Second // the most that was under way counts e times less after that
)

// A meter says how many bytes of copies a connection may send. It knows no clock.
type meter struct {
	looked time.Time            // zero before the first look
	last   quic.ConnectionStats // as of that
	lostAt time.Time            // when a loss was last seen; zero for never

	losses, packets float64 // of late
	flight, demand  float64 // bytes of frames under way at a time: on average, and at most, of late

	offered uint64  // bytes of frames since the last look, whether or not they were sent yet
	copied  uint64  // bytes of copies since then
	own     float64 // packets of both
	room    uint64  // for copies until the next one
	every   time.Duration
	delay   time.Duration // of a copy
}

// due reports whether it is time to look at the connection again.
func (m *meter) due(now time.Time) bool { return m.looked.IsZero() || now.Sub(m.looked) >= m.every }

// look takes what the connection says of itself.
func (m *meter) look(now time.Time, s quic.ConnectionStats) {
	first, elapsed := m.looked.IsZero(), now.Sub(m.looked)
	if !first {
		m.count(now, s)
	}
	m.every = max(s.SmoothedRTT, shortestLook)
	m.delay = min(max(s.SmoothedRTT/delayShare, shortestDelay), longestDelay)
	m.room = 0
	if !first {
		sent := s.BytesSent - m.last.BytesSent
		sent -= min(sent, m.copied)
		m.weigh(float64(max(sent, m.offered))*float64(s.SmoothedRTT)/float64(max(elapsed, time.Microsecond)), elapsed)
	}
	if !m.lostAt.IsZero() && now.Sub(m.lostAt) < lossy {
		m.room = uint64(room(m.window(), float64(s.CongestionWindow), m.demand) * float64(m.every) / float64(max(s.SmoothedRTT, time.Millisecond)))
	}
	m.looked, m.last, m.copied, m.offered, m.own = now, s, 0, 0, 0
}

// weigh takes how many bytes of frames were under way lately. Those that did not get through
// are among them, but for what waits for an answer first: where a link is too narrow less is
// offered as well, and it must not look as if there were room again.
func (m *meter) weigh(flight float64, elapsed time.Duration) {
	part := min(1, float64(elapsed)/float64(averageOver))
	if m.flight == 0 {
		part = 1 // the first
	}
	m.flight += (flight - m.flight) * part
	m.demand = max(m.flight, m.demand*math.Exp(-float64(elapsed)/float64(remember)))
}

func (m *meter) count(now time.Time, s quic.ConnectionStats) {
	m.packets += m.own                      // PacketsSent has those with nothing but acknowledgements, whose loss nobody notices
	if s.PacketsLost > m.last.PacketsLost { // it shrinks when a packet was only late
		m.losses += float64(s.PacketsLost - m.last.PacketsLost)
		m.lostAt = now
	}
	if m.packets > rememberIn {
		m.packets, m.losses = m.packets/2, m.losses/2
	}
}

// window is about how many bytes may be under way at a time where so many packets are lost
// (Mathis et al., 1997). The congestion window of the moment says less: losses shrink it below
// that, and it only grows again while it is full.
func (m *meter) window() float64 {
	share := (m.losses + 2) / (m.packets + 200) // 1 % until more is known
	return packet * math.Sqrt(1.5/share)
}

// room is how many bytes of copies may be under way at a time beside flight bytes of frames.
// First match wins.
//
//	the frames fill more than 45 % of the window   none: they could not all have a copy, and
//	                                               copies that fill the window hold up what
//	                                               is sent for the first time, which costs
//	                                               more than the losses do
//	the congestion window of the moment leaves     none, until frames alone have filled it
//	less than half of that beside them             again: it has met several losses in a row
//	otherwise                                      up to 90 % of the window
func room(window, now, flight float64) float64 {
	if flight > 0.45*window || now < 1.5*flight {
		return 0
	}
	return 0.9*window - flight
}

// offer counts a frame of n bytes.
func (m *meter) offer(n int) {
	m.offered += uint64(n)
	m.own += float64(n/packet + 1)
}

// take reports whether a copy of n bytes may be sent, and counts it.
func (m *meter) take(n int) bool {
	if m.copied+uint64(n) > m.room {
		return false
	}
	m.copied += uint64(n)
	m.own++
	return true
}
