package sdk

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-io/quoin/batchfmt"
)

// batchAt seals a batch of values as a server gives it out.
func batchAt(t testing.TB, offset int64, codec batchfmt.Codec, values ...string) []byte {
	t.Helper()
	var b batchfmt.Builder
	for _, v := range values {
		if err := b.Add(&batchfmt.Record{Timestamp: 1, Value: []byte(v)}); err != nil {
			t.Fatal(err)
		}
	}
	bytes, err := b.Seal(nil, batchfmt.Seal{Codec: codec, ProducerID: 5, BaseSequence: 3})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := batchfmt.Parse(bytes)
	if err != nil {
		t.Fatal(err)
	}
	batch.Stamp(batchfmt.Stamp{BaseOffset: batchfmt.Offset(offset), AppendTime: 2, Term: 1})
	return bytes
}

// offline is a consumer of one partition whose feed does not run: a test plays it.
func offline(next int64) (*Consumer, *feed) {
	c := &Consumer{client: new(Client), topic: "t", wake: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	f := &feed{consumer: c, partition: 2, next: batchfmt.Offset(next), credit: credit{total: 1 << 30}}
	c.mu.feeds = []*feed{f}
	return c, f
}

// arrive queues batches and lets the feed end behind them.
func arrive(c *Consumer, f *feed, batches ...[]byte) {
	for _, b := range batches {
		c.push(&chunk{feed: f, batches: b})
	}
	c.end()
}

func TestBadBatchesAreErrorsThatNameTheirPlace(t *testing.T) {
	good := func(offset int64) []byte { return batchAt(t, offset, batchfmt.CodecNone, "a", "b") }
	flip := func(b []byte, at int) []byte {
		b[at] ^= 1
		return b
	}
	tests := []struct {
		name   string
		batch  []byte
		offset int64 // that the error names
		gap    bool
	}{
		{"body damaged", flip(good(12), batchfmt.HeaderSize2+5), 12, false},
		{"what the server wrote is damaged", flip(good(12), 8), 12, false},
		{"cut off", good(12)[:100], 12, false},
		{"not a batch", []byte("something else"), 12, false},
		{"a version that is not known", good(12), 12, false},
		{"offsets are missing", good(13), 12, true},
	}
	tests[4].batch[3] = 9
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, f := offline(10)
			arrive(c, f, good(10), tt.batch)
			for round := range 2 {
				var values []string
				var last error
				for r, err := range c.Records(context.Background()) {
					if err != nil {
						last = err
						continue
					}
					values = append(values, string(r.Value))
				}
				if want := 2 * (1 - round); len(values) != want {
					t.Errorf("round %d gave %v", round, values)
				}
				var corrupt *CorruptBatchError
				var gap *GapError
				switch {
				case tt.gap && (!errors.As(last, &gap) || gap.Partition != 2 || gap.Expected != tt.offset || gap.Got != tt.offset+1):
					t.Errorf("got %v", last)
				case !tt.gap && (!errors.As(last, &corrupt) || corrupt.Topic != "t" || corrupt.Partition != 2 || corrupt.Offset != tt.offset):
					t.Errorf("got %v", last)
				}
			}
		})
	}
}

func TestRecordsBelowTheWantedOffsetAreDropped(t *testing.T) {
	c, f := offline(11)
	arrive(c, f, batchAt(t, 10, batchfmt.CodecZstd, "a", "b", "c"), batchAt(t, 10, batchfmt.CodecNone, "a", "b", "c"),
		batchAt(t, 13, batchfmt.CodecSnappy, "d"))
	var got []string
	for r, err := range c.Records(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d %s %d", r.Offset, r.Value, r.Producer.Sequence))
	}
	if diff := cmp.Diff([]string{"11 b 4", "12 c 5", "13 d 3"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestErrorOfAPartitionComesInItsPlace(t *testing.T) {
	c, healthy := offline(0)
	failed := &feed{consumer: c, partition: 3}
	c.mu.feeds = append(c.mu.feeds, failed)
	gone := errors.New("gone")
	c.push(&chunk{feed: healthy, batches: batchAt(t, 0, batchfmt.CodecNone, "a")})
	c.fail(failed, gone)
	c.push(&chunk{feed: healthy, batches: batchAt(t, 1, batchfmt.CodecNone, "b")})
	for round := range 2 {
		var got []string
		var last error
		for r, err := range c.Records(context.Background()) {
			if last = err; err == nil {
				got = append(got, string(r.Value))
			}
		}
		if len(got) != 1-round || last != gone {
			t.Errorf("round %d: %q, then %v", round, got, last)
		}
	}
}

func TestCreditHoldsTheServerToWhatItMayPush(t *testing.T) {
	c := &credit{total: 100}
	if n := c.begin(); n != 100 {
		t.Errorf("begins with %d", n)
	}
	if !c.received(99) || !c.received(1000) {
		t.Error("the last frame may be larger than what is left")
	}
	if c.received(1) {
		t.Error("pushed without credit")
	}
}

// TestCreditOutlivesItsSubscription: what waits counts against every later subscription.
func TestCreditOutlivesItsSubscription(t *testing.T) {
	c := &credit{total: 100}
	c.begin()
	c.received(60)
	if n := c.begin(); n != 40 {
		t.Errorf("60 of 100 wait, and the next one begins with %d", n)
	}
	c.received(70)
	if n := c.begin(); n != 0 {
		t.Errorf("130 of 100 wait, and the next one begins with %d", n)
	}
	c.consumed(50)
	if c.mu.owed != 20 || c.mu.waiting != 80 {
		t.Errorf("80 of 100 wait and %d may be granted", c.mu.owed)
	}
	if n := c.begin(); n != 20 || c.mu.owed != 0 {
		t.Errorf("80 of 100 wait, and the next one begins with %d, and %d for later", n, c.mu.owed)
	}
	c.consumed(80)
	if n := c.begin(); n != 100 {
		t.Errorf("nothing waits, and the next one begins with %d", n)
	}
}

func TestPartitionsMustNameOne(t *testing.T) {
	if _, err := new(Client).Consumer("t").Partitions().Build(context.Background()); err == nil {
		t.Error("an empty list is taken")
	}
	if _, err := new(Client).Consumer("t").Partitions([]int{}...).Build(context.Background()); err == nil {
		t.Error("an empty slice is taken")
	}
}

func TestReadingIsBounded(t *testing.T) {
	c := &Client{}
	if err := c.startReading(maxReading - 1); err != nil {
		t.Fatal(err)
	}
	if err := c.startReading(2); !errors.Is(err, ErrTooManyPartitions) {
		t.Errorf("got %v", err)
	}
	c.stopReading(1)
	if err := c.startReading(2); err != nil {
		t.Errorf("after another consumer was closed: %v", err)
	}
}
