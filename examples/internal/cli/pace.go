package cli

import (
	"context"
	"errors"
	"time"

	"golang.org/x/time/rate"
)

// ErrInterrupted says that a program stopped since its context ended.
var ErrInterrupted = errors.New("interrupted")

// NewLimiter lets perSecond events pass; 0 is no limit. What a pause of up to 50 ms left
// over may be made up for: timers are too coarse to wait for every event of a fast stream.
func NewLimiter(perSecond float64) *rate.Limiter {
	if perSecond == 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond/20)))
}

// Outlive returns a context that ends d after ctx does: the time for what is under way
// when an interrupt comes.
func Outlive(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return longer, func() { stop(); cancel() }
}
