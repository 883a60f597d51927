package sdk

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/batcher"
	"github.com/quoin-io/quoin/sdk/internal/outbox"
	"github.com/quoin-io/quoin/wire"
)

// gatheringSender is an idle sender whose records gather, the only one of its producer.
func gatheringSender(batchBytes int) *sender {
	const limit = 1 << 20
	s := idleSender()
	s.p.client.logger = slog.New(slog.DiscardHandler)
	s.p.limit.Store(limit)
	s.p.most = limit
	slots := senderSlots(nil).grown(1)
	slots[0].Store(s)
	s.p.senders.Store(&slots)
	s.mu.batcher = batcher.New[delivery](batcher.Config{BatchBytes: batchBytes, Limit: limit, Linger: time.Second, Pool: &s.p.batches, Cost: costOf})
	return s
}

func (s *sender) gatherForTest(t *testing.T, bytes int, fn func(Ack, error)) {
	t.Helper()
	if err := s.add(&batchfmt.Record{Value: make([]byte, bytes)}, int64(bytes+recordOverhead), delivery{fn: fn}, time.Now(), false); err != nil {
		t.Fatal(err)
	}
}

// What waits for room in the outbox is divided when the limit is lowered, before or while it is
// put aside.
func TestParkedBatchIsDivided(t *testing.T) {
	for _, parkedBefore := range []bool{true, false} {
		s := gatheringSender(1 << 16)
		for range 5 {
			s.gatherForTest(t, 1000, nil)
		}
		batch := s.mu.batcher.Take()
		s.gatherForTest(t, 1000, nil)
		lower := func() { s.p.learn(&wire.TopicInfo{MaxBatchBytes: 2500, Partitions: make([]wire.PartitionInfo, 1)}) }
		if parkedBefore {
			if !s.park(batch) {
				t.Fatal("it is not put aside though it fits")
			}
			lower()
		} else {
			lower()
			if s.park(batch) {
				t.Error("it is put aside though it does not fit")
			}
		}
		if s.mu.parked != nil {
			t.Error("it is put aside, whole")
		}
		var got []string
		for !s.mu.batcher.Empty() {
			part := s.mu.batcher.Take()
			got = append(got, fmt.Sprintf("%d records, %d bytes", len(part.Tags), part.Bytes))
		}
		two, one := "2 records, 2128 bytes", "1 records, 1064 bytes"
		if diff := cmp.Diff([]string{two, two, one, one}, got); diff != "" {
			t.Errorf("parked before: %v; batches (-want +got):\n%s", parkedBefore, diff)
		}
	}
}

// A batch that cannot be frozen ends in its turn: the outcome of those in front of it is told
// first.
func TestWhatCannotBeFrozenWaitsForItsTurn(t *testing.T) {
	s := gatheringSender(1)
	now := time.Now()
	s.core.Connected(now)
	s.core.Opened(now, &wire.LaneOpened{LastSequence: -1, LastOffset: -1})
	s.core.Actions() // there is no connection to carry them out on
	told := make(chan string, 3)
	tell := func(name string) func(Ack, error) {
		return func(_ Ack, err error) { told <- fmt.Sprint(name, " stored: ", err == nil) }
	}
	s.gatherForTest(t, 10, tell("the one in front"))
	s.sendDue()
	box, _, err := outbox.Open(t.TempDir(), outbox.Binding{Topic: "t", Producer: "n"}, outbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Close(); err != nil { // from here on nothing can be put into it
		t.Fatal(err)
	}
	s.p.outbox = box
	s.gatherForTest(t, 10, tell("the one that fails"))
	s.sendDue()
	s.gatherForTest(t, 10, tell("the one behind"))
	s.sendDue()
	s.core.Result(now, &wire.ProduceResult{BaseSequence: 0, BaseOffset: 0, Expected: -1})
	s.perform()
	s.sendDue()
	s.callbacks.finish()
	<-s.callbacks.done
	close(told)
	var got []string
	for text := range told {
		got = append(got, text)
	}
	want := []string{"the one in front stored: true", "the one that fails stored: false", "the one behind stored: false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
