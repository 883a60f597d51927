package sdk

import (
	"sync/atomic"
	"time"
)

// clockStep is how long a clock goes without looking at the clock on the wall: no longer than
// what a timestamp can tell apart.
const clockStep = time.Millisecond

// A clock tells the time of records. To read the wall and the monotonic clock for each of them is
// a seventh of what a small record costs; between two looks at the wall the monotonic one does.
// The wall is never older than clockStep, so a clock that is set is followed at once.
type clock struct {
	start  time.Time
	looked atomic.Int64 // when the wall was looked at, nanoseconds since start
	ahead  atomic.Int64 // nanoseconds since 1970 then, less looked
}

func newClock() *clock {
	c := &clock{start: time.Now()}
	c.ahead.Store(c.start.UnixNano())
	return c
}

// now is the time, of which only the monotonic reading counts, and the timestamp for a record.
func (c *clock) now() (now time.Time, millis int64) {
	since := time.Since(c.start)
	if since-time.Duration(c.looked.Load()) < clockStep {
		return c.start.Add(since), (int64(since) + c.ahead.Load()) / int64(time.Millisecond)
	}
	now = time.Now()
	since = now.Sub(c.start)
	c.ahead.Store(now.UnixNano() - int64(since))
	c.looked.Store(int64(since))
	return now, now.UnixMilli()
}
