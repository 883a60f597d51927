package copies

import (
	"testing"
	"time"

	"github.com/quic-go/quic-go"
)

const rtt = 40 * time.Millisecond

// A line is a connection as a meter sees it, a round trip at a time.
type line struct {
	meter
	now   time.Time
	stats quic.ConnectionStats
}

func newLine() *line {
	l := &line{now: time.Now(), stats: quic.ConnectionStats{SmoothedRTT: rtt, CongestionWindow: 32 * packet}}
	l.look(l.now, l.stats)
	return l
}

// pass lets a round trip pass in which so many packets were offered, went out, and were lost.
func (l *line) pass(offered, sent, lost int) {
	for range offered {
		l.offer(packet - 1)
	}
	l.stats.BytesSent += uint64(sent) * packet
	l.stats.PacketsLost += uint64(lost)
	l.now = l.now.Add(rtt)
	l.look(l.now, l.stats)
}

// usual is a minute on a line with 1 % loss, whose window is about 12 packets.
func (l *line) usual(packets int) {
	for n := range int(time.Minute / rtt) {
		lost := 0
		if n*packets/100 != (n+1)*packets/100 {
			lost = 1
		}
		l.pass(packets, packets, lost)
	}
}

// copies is how many copies of a full packet may be sent now.
func (l *line) copies() (n int) {
	for l.take(packet) {
		n++
	}
	return n
}

func TestMeter(t *testing.T) {
	for _, row := range []struct {
		reason string
		happen func(*line)
		want   int // copies in the next round trip
	}{
		{"nothing is known yet", func(l *line) {}, 0},
		{"nothing was lost", func(l *line) { l.pass(4, 4, 0) }, 0},
		{"a packet was lost", func(l *line) { l.pass(4, 4, 1) }, 5},
		{"it was lost a while ago", func(l *line) {
			l.pass(4, 4, 1)
			l.now = l.now.Add(lossy - 2*rtt)
			l.pass(1, 1, 0)
		}, 9},
		{"it was lost long ago", func(l *line) {
			l.pass(4, 4, 1)
			l.now = l.now.Add(lossy - rtt)
			l.pass(1, 1, 0)
		}, 0},
		{"it was only late", func(l *line) {
			l.stats.PacketsLost = 3
			l.look(l.now, l.stats)
			l.lostAt = time.Time{}
			l.stats.PacketsLost = 2
			l.pass(1, 1, 0)
		}, 0},
		{"little of the window is in use", func(l *line) { l.usual(2) }, 9},
		{"less than half of it is", func(l *line) { l.usual(5) }, 5},
		{"half of it is", func(l *line) { l.usual(6) }, 0},
		{"half of it would be, and does not get through", func(l *line) {
			l.usual(5)
			for range 20 {
				l.pass(8, 5, 0)
			}
		}, 0},
		{"it does not get through, and nothing more is offered before it did", func(l *line) {
			l.usual(8)
			for range 20 {
				l.pass(0, 1, 0)
			}
		}, 0},
		{"more was under way long before", func(l *line) {
			l.usual(8)
			l.usual(4)
		}, 6},
		{"what else goes over the connection fills the window", func(l *line) {
			l.usual(2)
			for range 20 {
				l.pass(2, 10, 0)
			}
		}, 0},
		{"the window of the moment has just shrunk", func(l *line) {
			l.usual(4)
			l.stats.CongestionWindow = 5 * packet
			l.pass(4, 4, 1)
		}, 0},
		{"and has grown again", func(l *line) {
			l.usual(4)
			l.stats.CongestionWindow = 7 * packet
			l.pass(4, 4, 1)
		}, 6},
		{"many are lost, the window is small", func(l *line) {
			for range 1000 {
				l.pass(2, 2, 1)
			}
		}, 0},
	} {
		l := newLine()
		row.happen(l)
		if got := l.copies(); got != row.want {
			t.Errorf("%s: %d copies, want %d", row.reason, got, row.want)
		}
	}
}

// What copies use up is not there for more of them, and is not taken for anything else.
func TestMeterCountsCopies(t *testing.T) {
	l := newLine()
	l.usual(4)
	n := l.copies()
	if n == 0 || l.take(packet) {
		t.Fatalf("%d copies, and more", n)
	}
	for range 100 {
		l.pass(4, 4+n, 0)
		if again := l.copies(); again < n {
			t.Fatalf("%d copies, and then %d beside the same", n, again)
		}
	}
}

func TestMeterLooksOnceARoundTrip(t *testing.T) {
	var m meter
	now := time.Now()
	if !m.due(now) {
		t.Error("the first look is not due")
	}
	m.look(now, quic.ConnectionStats{SmoothedRTT: rtt})
	if m.due(now.Add(rtt-1)) || !m.due(now.Add(rtt)) {
		t.Error("the next look is not due after a round trip")
	}
	if m.delay != rtt/delayShare {
		t.Errorf("copies wait for %v", m.delay)
	}
	m.look(now, quic.ConnectionStats{})
	if m.every != shortestLook || m.delay != shortestDelay {
		t.Errorf("without a round trip %v and %v", m.every, m.delay)
	}
}
