package network

import (
	"math/rand/v2"
	"time"
)

// maxBacklog bounds how long a datagram waits for its turn on a link with a rate: what
// would wait longer is dropped, as by a router whose queue is full.
const maxBacklog = 200 * time.Millisecond

// Conditions are what one direction of a network does to datagrams. The zero value does
// nothing.
type conditions struct {
	delay          time.Duration
	loss           float64       // the share that is lost
	reorder        float64       // the share that is held back, so that later ones overtake it
	holdBack       time.Duration // for how long, on top of delay
	duplicate      float64       // the share that comes twice
	bytesPerSecond int           // 0 for any
}

// badLink is the network of the tests that are not about one fault alone.
var badLink = conditions{delay: 20 * time.Millisecond, loss: 0.01, reorder: 0.05, holdBack: 5 * time.Millisecond, duplicate: 0.02}

// decided counts what a link chose.
type decided struct {
	in        int // datagrams that came
	lost      int
	held      int // held back
	doubled   int
	overflown int // dropped since too much waited for the rate
}

// A link decides what becomes of datagrams.
type link struct {
	conditions
	rng  *rand.Rand
	free time.Time // when all that came before is on its way, if there is a rate
	decided
}

func newLink(seed, stream uint64) link { return link{rng: rand.New(rand.NewPCG(seed, stream))} }

// pass decides what becomes of a datagram that comes at now: when it arrives, once for each
// copy. Every datagram takes the same number of random choices, so that the nth has the same
// fate whatever the sizes and times of those before it.
func (l *link) pass(now time.Time, size int) (arrivals []time.Time) {
	lost, held, doubled := l.rng.Float64() < l.loss, l.rng.Float64() < l.reorder, l.rng.Float64() < l.duplicate
	l.in++
	start, overflown := l.turn(now, size)
	switch {
	case overflown:
		l.overflown++
		return nil
	case lost:
		l.lost++
		return nil
	}
	at := start.Add(l.delay)
	if held {
		l.held++
		at = at.Add(l.holdBack)
	}
	if doubled {
		l.doubled++
		arrivals = append(arrivals, at)
	}
	return append(arrivals, at)
}

// turn is when a datagram has left, at the rate of the link.
func (l *link) turn(now time.Time, size int) (at time.Time, overflown bool) {
	if l.bytesPerSecond == 0 {
		return now, false
	}
	if l.free.Before(now) {
		l.free = now
	}
	if l.free.Sub(now) > maxBacklog {
		return now, true
	}
	l.free = l.free.Add(time.Duration(size) * time.Second / time.Duration(l.bytesPerSecond))
	return l.free, false
}
