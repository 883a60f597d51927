package source

import (
	"context"
	"math/rand/v2"
	"time"
)

// ceiling bounds the pause before an attempt, the first of a row being 1.
func ceiling(attempt int, first, max time.Duration) time.Duration {
	d := first
	for ; attempt > 1 && d < max; attempt-- {
		d *= 2 // max is an hour at most, so this cannot overflow
	}
	return min(d, max)
}

// jitter is a random part of a pause: runs that fail together do not come back together.
func jitter(d time.Duration) time.Duration { return rand.N(d + 1) }

// pause waits, and reports false when ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
