package network

import (
	"container/heap"
	"sync"
	"time"
)

// maxOnTheWay bounds the datagrams that a line holds.
const maxOnTheWay = 16384

// A datagram is on its way through a line.
type datagram struct {
	at    time.Time // of its arrival
	n     int       // which one it was of those that came
	path  *path
	bytes []byte
}

// passed counts what a line did.
type passed struct {
	decided
	out      int // datagrams that arrived, copies included
	late     int // of these, those that a later one had overtaken
	discards int // for want of a path, or of room
}

// A line carries datagrams in one direction. Its goroutine, run, belongs to the relay.
type line struct {
	deliver func(datagram) bool // reports whether there was a path for it
	wake    chan struct{}       // capacity 1
	stop    chan struct{}
	mu      struct {
		sync.Mutex
		link   link
		queue  arrivals
		next   int // number of the next datagram
		newest int // the highest number that arrived
		passed
	}
}

func newLine(l link, deliver func(datagram) bool) *line {
	n := &line{deliver: deliver, wake: make(chan struct{}, 1), stop: make(chan struct{})}
	n.mu.link = l
	n.mu.newest = -1
	return n
}

func (l *line) set(c conditions) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.link.conditions = c
}

func (l *line) counts() passed {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.mu.passed
	p.decided = l.mu.link.decided
	return p
}

// take accepts a datagram; the line keeps its bytes.
func (l *line) take(p *path, b []byte) {
	now := time.Now()
	l.mu.Lock()
	n := l.mu.next
	l.mu.next++
	for _, at := range l.mu.link.pass(now, len(b)) {
		if len(l.mu.queue) >= maxOnTheWay {
			l.mu.discards++
			continue
		}
		heap.Push(&l.mu.queue, datagram{at: at, n: n, path: p, bytes: b})
	}
	l.mu.Unlock()
	signal(l.wake)
}

// run delivers what has arrived until stop is closed.
func (l *line) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		d, wait := l.due(time.Now())
		if wait == 0 {
			l.arrive(d)
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-l.wake:
		case <-l.stop:
			return
		}
	}
}

// due gives the next datagram that has arrived, or how long to wait for one.
func (l *line) due(now time.Time) (d datagram, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mu.queue) == 0 {
		return d, time.Hour
	}
	if wait := l.mu.queue[0].at.Sub(now); wait > 0 {
		return d, wait
	}
	return heap.Pop(&l.mu.queue).(datagram), 0
}

// arrive counts a datagram before it is there: who has it may look at the counts at once.
func (l *line) arrive(d datagram) {
	l.mu.Lock()
	out, late, newest := l.mu.out, l.mu.late, l.mu.newest // which nobody else changes
	if d.n < newest {
		l.mu.late++
	}
	l.mu.out++
	l.mu.newest = max(newest, d.n)
	l.mu.Unlock()
	if !l.deliver(d) {
		l.mu.Lock()
		l.mu.out, l.mu.late, l.mu.newest = out, late, newest
		l.mu.discards++
		l.mu.Unlock()
	}
}

// arrivals is a heap of datagrams, by their arrival; those of one moment stay in order.
type arrivals []datagram

func (q arrivals) Len() int { return len(q) }
func (q arrivals) Less(i, j int) bool {
	if !q[i].at.Equal(q[j].at) {
		return q[i].at.Before(q[j].at)
	}
	return q[i].n < q[j].n
}
func (q arrivals) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *arrivals) Push(x any)   { *q = append(*q, x.(datagram)) }
func (q *arrivals) Pop() any {
	last := len(*q) - 1
	d := (*q)[last]
	(*q)[last] = datagram{}
	*q = (*q)[:last]
	return d
}

func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
