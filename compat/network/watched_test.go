package network

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
)

// A watched client keeps what happened to its connection.
type watched struct {
	*sdk.Client
	mu struct {
		sync.Mutex
		events  []sdk.Event
		changed chan struct{} // closed when one is added
	}
}

// dial connects and lets the client end with the test.
func dial(tb testing.TB, url string, opts ...sdk.DialOption) *watched {
	tb.Helper()
	w := &watched{}
	w.mu.changed = make(chan struct{})
	c, err := sdk.Dial(waiting(tb), url, append(opts, sdk.OnEvent(w.add))...)
	if err != nil {
		tb.Fatal(err)
	}
	w.Client = c
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			tb.Errorf("close: %v", err)
		}
		if tb.Failed() {
			w.dump(tb)
		}
	})
	return w
}

func (w *watched) add(e sdk.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.events = append(w.mu.events, e)
	close(w.mu.changed)
	w.mu.changed = make(chan struct{})
}

func (w *watched) count(kind sdk.EventKind) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.mu.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// await waits for the nth event of a kind, and says when it was.
func (w *watched) await(tb testing.TB, kind sdk.EventKind, n int) time.Time {
	tb.Helper()
	deadline := time.NewTimer(*patience)
	defer deadline.Stop()
	for {
		at, changed := w.nth(kind, n)
		if !at.IsZero() {
			return at
		}
		select {
		case <-changed:
		case <-deadline.C:
			tb.Fatalf("no event %v number %d", kind, n)
		}
	}
}

func (w *watched) nth(kind sdk.EventKind, n int) (time.Time, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.mu.events {
		if e.Kind != kind {
			continue
		}
		if n--; n == 0 {
			return e.Time, nil
		}
	}
	return time.Time{}, w.mu.changed
}

func (w *watched) dump(tb testing.TB) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.mu.events {
		tb.Logf("event at %s: %v attempt %d: %v", e.Time.Format("15:04:05.000"), e.Kind, e.Attempt, e.Err)
	}
}
