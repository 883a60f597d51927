package network

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// A pace says when each record is due, and takes when it was acknowledged. Before the first
// there are some that are not timed, one a partition, so that what is measured is a way that
// stands and not how it is made.
type pace struct {
	begin time.Time
	taken []taken // each is written by one acknowledgement
	left  sync.WaitGroup
}

// taken is how long a record took.
type taken struct {
	wait time.Duration
	passage
}

// A passage is what a server of Quoin tells of a record; zero of one that tells nothing. Its
// clock is that of the client.
type passage struct {
	duplicate bool
	appended  time.Time     // milliseconds
	after     time.Duration // from then until the record was on disk
}

func newPace(n int) *pace { return &pace{taken: make([]taken, n)} }

func (p *pace) due(n int) time.Time {
	return p.begin.Add(time.Duration(n) * time.Second / ackPerSecond)
}

// run calls send for each record when it is due, and waits for all acknowledgements.
func (p *pace) run(send func(n int) error) error {
	p.left.Add(ackPartitions)
	for n := -ackPartitions; n < 0; n++ {
		if err := send(n); err != nil {
			return err
		}
	}
	p.left.Wait()
	p.left.Add(len(p.taken))
	p.begin = time.Now()
	for n := range p.taken {
		<-time.After(time.Until(p.due(n)))
		if err := send(n); err != nil {
			return err
		}
	}
	p.left.Wait()
	return nil
}

func (p *pace) acknowledged(n int, by passage) {
	if n >= 0 {
		p.taken[n] = taken{time.Since(p.due(n)), by}
	}
	p.left.Done()
}

func (p *pace) timing() timing {
	n := len(p.taken)
	t := timing{N: n}
	sorted := slices.Clone(p.taken)
	slices.SortFunc(sorted, func(a, b taken) int { return int(a.wait - b.wait) })
	at := func(share int) time.Duration { return sorted[(n-1)*share/100].wait }
	t.P50, t.P90, t.P99, t.Max = at(50), at(90), at(99), at(100)
	for _, r := range sorted {
		if r.duplicate {
			t.Duplicates++
		}
	}
	for n, r := range p.taken {
		if r.wait > t.P99 && !r.appended.IsZero() {
			t.Slowest.count(r, p.due(n))
		}
	}
	return t
}

// places count where records spent most of their time.
type places struct{ There, Server, Back int }

func (p *places) count(r taken, due time.Time) {
	there := r.appended.Sub(due)
	switch back := r.wait - there - r.after; max(there, r.after, back) {
	case there:
		p.There++
	case back:
		p.Back++
	default:
		p.Server++
	}
}

func (p places) String() string {
	return fmt.Sprintf("on the way there %d, in the server %d, on the way back %d", p.There, p.Server, p.Back)
}
