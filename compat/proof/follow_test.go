//go:build linux

package proof

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
)

// A follower reads a topic as it grows, and must never come to an end by itself.
type follower struct {
	tb     testing.TB
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	next  map[int]int64 // by partition
	got   int           // records
	moved chan struct{} // closed at each record
}

func follow(tb testing.TB, url, topic string) *follower {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{tb: tb, cancel: cancel, done: make(chan struct{}), next: make(map[int]int64), moved: make(chan struct{})}
	consumer, err := dial(tb, url).Consumer(topic).From(sdk.Earliest).Build(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	go func() { // ends with cancel; end waits for it
		defer close(f.done)
		defer consumer.Close()
		for rec, err := range consumer.Records(ctx) {
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				tb.Errorf("the consumer came to an end: %v", err)
				return
			}
			f.note(rec)
		}
	}()
	return f
}

func (f *follower) note(rec *sdk.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if want := f.next[rec.Partition]; rec.Offset != want {
		f.tb.Errorf("the consumer got offset %d of partition %d, want %d", rec.Offset, rec.Partition, want)
	}
	f.next[rec.Partition] = rec.Offset + 1
	f.got++
	close(f.moved)
	f.moved = make(chan struct{})
}

// awaitAll waits until the follower has so many records.
func (f *follower) awaitAll(records int) {
	f.tb.Helper()
	late := time.After(*patience)
	for {
		f.mu.Lock()
		got, moved := f.got, f.moved
		f.mu.Unlock()
		if got >= records {
			break
		}
		select {
		case <-moved:
			continue
		case <-f.done:
		case <-late:
		}
		f.tb.Fatalf("the consumer has %d records of %d", got, records)
	}
	f.end()
	if f.got != records {
		f.tb.Errorf("the consumer has %d records, %d were sent", f.got, records)
	}
}

// end stops the follower. It may be called again.
func (f *follower) end() {
	f.cancel()
	<-f.done
}
