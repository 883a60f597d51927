package network

import (
	"bytes"
	"encoding/binary"
	"math"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"
)

func TestLinkDecidesAsItIsTold(t *testing.T) {
	const n, size = 50000, 1000
	tests := []struct {
		name              string
		c                 conditions
		lost, held, twice float64 // shares of n
	}{
		{"a good link does nothing", conditions{}, 0, 0, 0},
		{"all is lost", conditions{loss: 1}, 1, 0, 0},
		{"all comes twice", conditions{duplicate: 1}, 0, 0, 1},
		{"all is held back", conditions{reorder: 1, holdBack: time.Second}, 0, 1, 0},
		{"the bad link", badLink, 0.01, 0.05 * 0.99, 0.02 * 0.99},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLink(*seed, 0)
			l.conditions = tt.c
			now, out := time.Unix(0, 0), 0
			for range n {
				for _, at := range l.pass(now, size) {
					out++
					if got := at.Sub(now); got != tt.c.delay && got != tt.c.delay+tt.c.holdBack {
						t.Fatalf("took %v", got)
					}
				}
			}
			for what, pair := range map[string][2]float64{
				"lost": {float64(l.lost), tt.lost}, "held back": {float64(l.held), tt.held}, "doubled": {float64(l.doubled), tt.twice},
			} {
				share, deviation := pair[0]/n, 5*math.Sqrt(pair[1]*(1-pair[1])/n)
				if math.Abs(share-pair[1]) > deviation {
					t.Errorf("%s: a share of %v, want %v give or take %v", what, share, pair[1], deviation)
				}
			}
			if l.in != n || out != n-l.lost+l.doubled {
				t.Errorf("%+v, and %d came out", l.decided, out)
			}
		})
	}
}

func TestLinkRepeatsItself(t *testing.T) {
	fates := func(seed uint64, size int) (out []int) {
		l := newLink(seed, 0)
		l.conditions = badLink
		for range 5000 {
			out = append(out, len(l.pass(time.Unix(0, 0), size)))
		}
		return out
	}
	if !slices.Equal(fates(3, 100), fates(3, 1400)) {
		t.Error("the same seed decided something else for other sizes")
	}
	if slices.Equal(fates(3, 100), fates(4, 100)) {
		t.Error("another seed decided the same")
	}
}

func TestLinkKeepsItsRate(t *testing.T) {
	l := newLink(1, 0)
	l.conditions = conditions{bytesPerSecond: 100_000}
	begin := time.Unix(0, 0)
	var last time.Time
	for range 100 { // 1 s worth, of which the queue holds a fifth
		for _, at := range l.pass(begin, 1000) {
			last = at
		}
	}
	if l.overflown == 0 || l.in-l.overflown != 21 || last.Sub(begin) != 210*time.Millisecond {
		t.Errorf("%+v, the last one left after %v", l.decided, last.Sub(begin))
	}
	if at := l.pass(begin.Add(time.Second), 1000); len(at) != 1 || at[0] != begin.Add(1010*time.Millisecond) {
		t.Errorf("an idle link: %v", at)
	}
}

// An echo is a server for tests of the relay: it sends back what it gets, with the port that
// it came from in front.
func echo(t *testing.T) string {
	t.Helper()
	c, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { c.Close(); <-done })
	go func() { // ends with the socket, see the cleanup
		defer close(done)
		b := make([]byte, maxDatagram)
		for {
			n, from, err := c.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			c.WriteToUDPAddrPort(append(binary.BigEndian.AppendUint16(nil, from.Port()), b[:n]...), from)
		}
	}()
	return c.LocalAddr().String()
}

// A caller talks to the echo through a relay.
type caller struct {
	t *testing.T
	*net.UDPConn
	to netip.AddrPort
}

func newCaller(t *testing.T, r *relay) *caller {
	t.Helper()
	c, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &caller{t, c, netip.MustParseAddrPort(r.addr())}
}

func (c *caller) say(b ...byte) {
	c.t.Helper()
	if _, err := c.WriteToUDPAddrPort(b, c.to); err != nil {
		c.t.Fatal(err)
	}
}

// hear waits for an answer, which must be this one, and gives the port that the echo saw.
func (c *caller) hear(want ...byte) (port uint16) {
	c.t.Helper()
	b := make([]byte, maxDatagram)
	c.SetReadDeadline(time.Now().Add(*patience))
	n, _, err := c.ReadFromUDPAddrPort(b)
	if err != nil {
		c.t.Fatal(err)
	}
	if !bytes.Equal(b[2:n], want) {
		c.t.Fatalf("heard %v, want %v", b[2:n], want)
	}
	return binary.BigEndian.Uint16(b)
}

func TestGoodRelayChangesNothing(t *testing.T) {
	const n = 200
	r := startRelay(t, echo(t), *seed)
	c := newCaller(t, r)
	for i := range byte(n) {
		c.say(i)
		c.hear(i)
	}
	want := passed{decided: decided{in: n}, out: n}
	if up, down := r.up.counts(), r.down.counts(); up != want || down != want {
		t.Errorf("up %+v, down %+v", up, down)
	}
	if got := r.counts(); got != (events{opened: 1}) {
		t.Errorf("%+v", got)
	}
}

func TestRelayDelaysBothWays(t *testing.T) {
	r := startRelay(t, echo(t), *seed)
	r.set(conditions{delay: 30 * time.Millisecond})
	c := newCaller(t, r)
	begin := time.Now()
	c.say(1)
	c.hear(1)
	if took := time.Since(begin); took < 60*time.Millisecond {
		t.Errorf("there and back in %v", took)
	}
}

func TestRelayOvertakesAndDoubles(t *testing.T) {
	r := startRelay(t, echo(t), *seed)
	c := newCaller(t, r)
	r.up.set(conditions{reorder: 1, holdBack: 50 * time.Millisecond})
	c.say(1)
	for r.up.counts().in == 0 {
		<-r.handled
	}
	r.up.set(conditions{})
	c.say(2)
	c.hear(2)
	c.hear(1)
	r.down.set(conditions{duplicate: 1})
	c.say(3)
	c.hear(3)
	c.hear(3)
	if up, down := r.up.counts(), r.down.counts(); up.late != 1 || up.held != 1 || down.doubled != 1 || down.out != 4 {
		t.Errorf("up %+v, down %+v", up, down)
	}
}

func TestRelayGivesEachClientAPortAndChangesIt(t *testing.T) {
	r := startRelay(t, echo(t), *seed)
	one, two := newCaller(t, r), newCaller(t, r)
	ports := make(map[uint16]bool)
	for range 2 {
		one.say(1)
		ports[one.hear(1)] = true
		two.say(2)
		ports[two.hear(2)] = true
	}
	if len(ports) != 2 {
		t.Fatalf("two clients had the ports %v", ports)
	}
	r.rebind()
	one.say(1)
	ports[one.hear(1)] = true
	two.say(2)
	ports[two.hear(2)] = true
	if got := r.counts(); len(ports) != 4 || got != (events{opened: 4, rebound: 2}) {
		t.Errorf("ports %v, %+v", ports, got)
	}
}

// What begins a connection, and what belongs to one, to the relay.
const begins, belongs = 0xc0, 0x40

func TestLostPathIsLostForGood(t *testing.T) {
	r := startRelay(t, echo(t), *seed)
	c := newCaller(t, r)
	c.say(begins)
	old := c.hear(begins)
	r.losePaths()
	c.say(belongs)
	c.say(begins, 1)
	if port := c.hear(begins, 1); port == old {
		t.Error("the new path has the port of the old one")
	}
	c.say(belongs, 2)
	c.hear(belongs, 2)
	if got := r.counts(); got != (events{opened: 2, lostPaths: 1, deadPath: 1}) {
		t.Errorf("%+v", got)
	}
}

func TestBlackHoleTakesAllUntilItEnds(t *testing.T) {
	r := startRelay(t, echo(t), *seed)
	c := newCaller(t, r)
	c.say(1)
	c.hear(1)
	r.blackHole(true)
	c.say(2)
	c.say(begins)
	for r.counts().hole < 2 {
		<-r.handled
	}
	r.blackHole(false)
	c.say(3)
	c.hear(3)
	if up := r.up.counts(); up.out != 2 {
		t.Errorf("%+v", up)
	}
}

func TestTapeIsPlayedAgain(t *testing.T) {
	r := startRelay(t, echo(t), *seed)
	c := newCaller(t, r)
	c.say(1)
	port := c.hear(1)
	r.record(true)
	c.say(2)
	c.hear(2)
	r.record(false)
	c.say(3)
	c.hear(3)
	if sent := r.replay(); sent != 1 {
		t.Errorf("%d were sent again", sent)
	}
	if again := c.hear(2); again != port {
		t.Errorf("from port %d, the client has %d", again, port)
	}
	if sent, answers := r.replayAsStranger(); sent != 1 || answers != 1 {
		t.Errorf("a stranger sent %d and heard %d answers", sent, answers)
	}
}
