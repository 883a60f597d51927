package counters

import (
	"sync/atomic"
	"time"
)

// Bounds are the upper ends of a Histogram's buckets, each included in its bucket: from what
// a disk with a protected cache takes for a sync to what a dying one does. One more bucket
// holds what took longer than the last.
var Bounds = [...]time.Duration{
	100 * time.Microsecond, 300 * time.Microsecond,
	time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond, 30 * time.Millisecond,
	100 * time.Millisecond, 300 * time.Millisecond, time.Second, 3 * time.Second,
}

// A Histogram sorts durations into buckets. Its methods may be called from any goroutine.
type Histogram struct {
	buckets [len(Bounds) + 1]atomic.Uint64
	nanos   atomic.Int64
}

// Observe counts one duration. One below zero, which a clock that is set back can make,
// counts as zero: the sum must not fall.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	i := 0
	for i < len(Bounds) && d > Bounds[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.nanos.Add(int64(d))
}

// A HistogramView is a Histogram at one moment.
type HistogramView struct {
	Count uint64
	Sum   time.Duration
	// UpTo[i] is how many took at most Bounds[i]. The rest, up to Count, took longer.
	UpTo [len(Bounds)]uint64
}

// Load reads the histogram. Count and UpTo agree with each other; Sum may lack, or already
// have, what is observed meanwhile.
func (h *Histogram) Load() (v HistogramView) {
	v.Sum = time.Duration(h.nanos.Load())
	for i := range h.buckets {
		v.Count += h.buckets[i].Load()
		if i < len(Bounds) {
			v.UpTo[i] = v.Count
		}
	}
	return v
}
