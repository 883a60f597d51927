package sdk

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
)

// A record that is taken back is one that no Flush waits for, and none that it counts for
// another: whether it was given before or after the Flush.
func TestFlushDoesNotCountWhatIsTakenBack(t *testing.T) {
	for _, before := range []bool{true, false} {
		s := idleSender()
		give := func() *waiter {
			w := &waiter{done: make(chan struct{}, 1)}
			if err := s.add(&batchfmt.Record{Value: []byte("v")}, 1, delivery{wait: w}, time.Now(), false); err != nil {
				t.Fatal(err)
			}
			return w
		}
		stays := give()
		var goes *waiter
		if before {
			goes = give()
		}
		flushed := s.flushed(false)
		if !before {
			goes = give()
		}
		over := errors.New("over")
		var notStored *NotStored
		if err := s.giveUp(goes, over); !errors.As(err, &notStored) || !errors.Is(err, over) {
			t.Errorf("before %v: given up with %v", before, err)
		}
		select {
		case <-flushed:
			t.Errorf("before %v: the Flush is done, and a record has no outcome", before)
		default:
		}
		batch := s.mu.batcher.Take()
		s.endRecords(batch, &outcome{records: batch, err: over})
		if _, err := stays.await(context.Background()); !errors.Is(err, over) {
			t.Errorf("before %v: the other one ended with %v", before, err)
		}
		select {
		case <-flushed:
		default:
			t.Errorf("before %v: every record has its outcome, and the Flush waits", before)
		}
	}
}
