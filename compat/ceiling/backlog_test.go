package ceiling

import (
	"fmt"
	"sync"
	"time"
)

// backlog holds the records that were due and are not sent yet: their intended starts.
type backlog struct {
	mu struct {
		sync.Mutex
		due    []time.Time
		closed bool
		err    error
	}
	changed chan struct{}
}

// backlogMax records behind, nobody keeps up and the latencies mean nothing any more.
const backlogMax = 1 << 17

var errTooSlow = fmt.Errorf("%d records behind the pace", backlogMax)

func newBacklog() *backlog { return &backlog{changed: make(chan struct{}, 1)} }

func (q *backlog) put(intended time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.err != nil {
		return q.mu.err
	}
	if len(q.mu.due) >= backlogMax {
		return errTooSlow
	}
	q.mu.due = append(q.mu.due, intended)
	q.wake()
	return nil
}

// wait returns when something is due, or false when nothing will be any more.
func (q *backlog) wait() bool {
	for {
		q.mu.Lock()
		due, closed := len(q.mu.due), q.mu.closed
		q.mu.Unlock()
		if due > 0 || closed {
			return due > 0
		}
		<-q.changed
	}
}

// take moves the oldest entries, at most most of them, to the end of into.
func (q *backlog) take(into []time.Time, most int) []time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(most, len(q.mu.due))
	into = append(into, q.mu.due[:n]...)
	q.mu.due = q.mu.due[:copy(q.mu.due, q.mu.due[n:])]
	return into
}

// close says that nothing more will be put.
func (q *backlog) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.closed = true
	q.wake()
}

// fail makes every later put fail: nobody takes any more.
func (q *backlog) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.err = err
}

func (q *backlog) wake() {
	select {
	case q.changed <- struct{}{}:
	default: // the taker has not looked since the last change
	}
}
