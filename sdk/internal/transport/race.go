package transport

import (
	"context"
	"errors"
	"time"
)

// stagger is how long an attempt is alone before the next one is started beside it, the
// Connection Attempt Delay of RFC 8305, section 5.
const stagger = 250 * time.Millisecond

// An entrant is one attempt of a race. It returns what it won, or further entrants that it
// found, such as the addresses of a host, or why it failed. It returns soon after ctx ended.
type entrant[T any] func(ctx context.Context) (won T, found []entrant[T], err error)

// A finish is what became of the nth entrant that was started.
type finish[T any] struct {
	n     int
	won   T
	found []entrant[T]
	err   error
}

// race starts the entrants in turn, each one a stagger after the one before, or as soon as
// one failed. The first that wins ends it: the others are stopped and awaited, and what
// they won all the same is given to lose. Of the entrants that one found, the first takes
// its place and the rest queue up at the end. Without a winner the error has those of all
// that were started, in that order; when ctx ends nobody is started any more.
//
// The caller's goroutine runs it; those of the entrants end before it returns.
func race[T any](ctx context.Context, queue []entrant[T], lose func(T)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.NewTimer(stagger)
	defer timer.Stop()
	finishes := make(chan finish[T])
	var errs []error // by the number of the entrant
	running, failed := 0, false
	start := func(e entrant[T]) {
		n := len(errs)
		errs = append(errs, nil)
		running++
		timer.Reset(stagger)
		go func() {
			f := finish[T]{n: n}
			f.won, f.found, f.err = e(ctx)
			finishes <- f
		}()
	}
	for due := true; ; {
		if due && len(queue) > 0 && (ctx.Err() == nil || running == 0 && !failed) {
			first := queue[0]
			queue = queue[1:]
			start(first)
		}
		if due = false; running == 0 {
			var none T
			return none, joined(errs)
		}
		select {
		case <-timer.C:
			due = true
		case f := <-finishes:
			running--
			switch {
			case f.err != nil:
				errs[f.n] = f.err
				due, failed = true, true
			case len(f.found) > 0:
				queue = append(append([]entrant[T]{f.found[0]}, queue...), f.found[1:]...)
				due = true
			default:
				cancel()
				discard(finishes, running, lose)
				return f.won, nil
			}
		}
	}
}

// discard waits for the n entrants that still run.
func discard[T any](finishes <-chan finish[T], n int, lose func(T)) {
	for range n {
		if f := <-finishes; f.err == nil && len(f.found) == 0 {
			lose(f.won)
		}
	}
}

// joined leaves a single error as it is.
func joined(errs []error) error {
	var all []error
	for _, err := range errs {
		if err != nil {
			all = append(all, err)
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return errors.Join(all...)
}
