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
	c := &Consumer{topic: "t", wake: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	f := &feed{consumer: c, partition: 2, next: batchfmt.Offset(next)}
	c.feeds = []*feed{f}
	return c, f
}

// arrive queues batches and lets the feed end behind them.
func arrive(c *Consumer, f *feed, batches ...[]byte) {
	for _, b := range batches {
		c.push(&chunk{feed: f, link: newLink(nil, 1<<30), batches: b})
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

func TestLinkHoldsTheServerToItsCredit(t *testing.T) {
	l := newLink(nil, 100)
	if !l.received(99) || !l.received(1000) {
		t.Error("the last frame may be larger than what is left")
	}
	if l.received(1) {
		t.Error("pushed without credit")
	}
}
