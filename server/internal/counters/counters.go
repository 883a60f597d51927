package counters

import "sync/atomic"

// A Counter counts what has happened. Its methods may be called from any goroutine.
type Counter struct{ n atomic.Uint64 }

// Add counts n more. It is one atomic addition.
func (c *Counter) Add(n uint64) { c.n.Add(n) }

// Load is the count so far.
func (c *Counter) Load() uint64 { return c.n.Load() }

// A Level is how much of something there is now, over all of its parts.
type Level struct{ n atomic.Int64 }

// Load is the sum of the parts. Parts that change at the same time are seen before or
// after their change, each by itself.
func (l *Level) Load() int64 { return l.n.Load() }

// Part returns a new part of the level, which counts as 0 until it is set.
func (l *Level) Part() Part { return Part{of: l} }

// A Part is what one owner, such as a partition, has of a level. It belongs to one goroutine
// at a time, and must not be copied after its first use. The owner sets it to 0 when it goes.
type Part struct {
	of   *Level
	last int64
}

// Set says how much the part is now. Saying the same again costs no atomic operation.
func (p *Part) Set(n int) {
	if d := int64(n) - p.last; d != 0 {
		p.last += d
		p.of.n.Add(d)
	}
}
