package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/quoin-io/quoin/examples/internal/cli"
	"github.com/quoin-io/quoin/sdk"
)

// A watch hears what happens behind the back of the program, and prints. Events and
// outcomes come from goroutines of the client.
type watch struct {
	cancel  context.CancelCauseFunc // ends the counting
	changed chan struct{}           // something was settled; capacity 1

	mu struct {
		sync.Mutex
		out     io.Writer
		settled int // batches
	}
}

func newWatch(out io.Writer, cancel context.CancelCauseFunc) *watch {
	w := &watch{cancel: cancel, changed: make(chan struct{}, 1)}
	w.mu.out = out
	return w
}

func (w *watch) printf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w.mu.out, format, args...)
}

// event is called for each event of the client, one after the other.
func (w *watch) event(e sdk.Event) {
	switch e.Kind {
	case sdk.EventFenced:
		w.stop(e.Err)
	case sdk.EventSettled:
		w.printf("settled: sequences %d to %d are %s\n", e.Token.First(), e.Token.Last(), fate(e.Resolution))
		w.mu.Lock()
		w.mu.settled++
		w.mu.Unlock()
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

func fate(r sdk.Resolution) string {
	switch r.Outcome {
	case sdk.ResolveStored:
		return fmt.Sprintf("stored at offset %d", r.Offset)
	case sdk.ResolveNotStored:
		return "not stored"
	}
	return fmt.Sprintf("%s: %s", r.Outcome, r.Reason)
}

// stop ends the counting, for the first reason that there is.
func (w *watch) stop(err error) { w.cancel(explain(err)) }

// explain says what it means that a producer may not write any more.
func explain(err error) error {
	switch {
	case errors.Is(err, sdk.ErrFenced):
		return fmt.Errorf("the name has another holder, which goes on from here: %w", err)
	case errors.Is(err, sdk.ErrProducerCloned):
		return fmt.Errorf("the name was used with another outbox since, go on with that one or with a new one: %w", err)
	}
	return err
}

// reason is why ctx ended: what stop was called with, or an interrupt.
func reason(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return cli.ErrInterrupted
}

// awaitOutbox says what an earlier run left, and waits until all of it has its outcome.
func (w *watch) awaitOutbox(ctx context.Context, found sdk.OutboxFound) error {
	if found.Damage != nil {
		w.printf("outbox: %v\n", found.Damage)
	}
	if found.Pending+found.Unknown == 0 {
		w.printf("outbox: nothing was left\n")
		return nil
	}
	w.printf("outbox: %d batches with %d records are sent again, %d unknown batches are settled\n",
		found.Pending, found.Records, found.Unknown)
	for w.settled() < found.Pending+found.Unknown {
		select {
		case <-w.changed:
		case <-ctx.Done():
			return fmt.Errorf("the outbox has no outcome yet: %w", reason(ctx))
		}
	}
	return nil
}

func (w *watch) settled() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.settled
}
