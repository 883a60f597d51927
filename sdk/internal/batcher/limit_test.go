package batcher

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/quoin-io/quoin/batchfmt"
)

func costOf(r *batchfmt.Record) int { return len(r.Value) }

// takeAll takes every batch, and says what is in it: tags, the position, and why it is refused.
func takeAll(b *Batcher[int]) (all []string) {
	for !b.Empty() {
		refuses := b.Refuses()
		batch := b.Take()
		text := fmt.Sprint(batch.Tags)
		if batch.Position != nil {
			text += " at " + string(batch.Position)
		}
		if batch.Refused != nil {
			text += ": " + batch.Refused.Error()
		}
		if refuses != (batch.Refused != nil) || batch.Builder.Len() != len(batch.Tags) || !batch.First.Equal(start) {
			text += fmt.Sprintf(" announced as refused: %v, %d records, first at %v", refuses, batch.Builder.Len(), batch.First)
		}
		all = append(all, text)
	}
	return all
}

// The limit is lowered: what gathers is divided into what fits, and what never will is refused at
// its place.
func TestSetLimit(t *testing.T) {
	const limit = batchfmt.HeaderSize2 + 250
	refused := func(sizes ...int) string {
		var alone batchfmt.Builder
		for _, size := range sizes {
			if err := alone.Add(record(size)); err != nil {
				t.Fatal(err)
			}
		}
		return fmt.Sprintf(": record needs a batch of %d bytes, the limit is %d", alone.SectionBytes()+batchfmt.HeaderSize2, limit)
	}
	add := func(sizes ...int) func(t *testing.T, b *Batcher[int]) {
		return func(t *testing.T, b *Batcher[int]) {
			for tag, size := range sizes {
				add(t, b, size, tag, start)
			}
		}
	}
	gather := func(t *testing.T, b *Batcher[int], position string, tags ...int) {
		t.Helper()
		done, err := b.Gather(len(tags)*batchfmt.RecordBytes(record(100)), len(tags))
		if err != nil {
			t.Fatal(err)
		}
		for _, tag := range tags {
			if err := b.Add(record(100), 100, tag, start); err != nil {
				t.Fatal(err)
			}
		}
		done()
		if position != "" {
			b.SetPosition([]byte(position))
		}
	}
	tests := []struct {
		name string
		play func(t *testing.T, b *Batcher[int])
		want []string
	}{
		{"what fits stays together", add(50, 50, 50), []string{"[0 1 2]"}},
		{"what is open is divided", add(100, 100, 100, 100, 100), []string{"[0 1]", "[2 3]", "[4]"}},
		{"what is full is divided, and nothing is moved from one batch to the next", add(300, 100, 100, 100, 100, 400, 50),
			[]string{"[0]" + refused(300), "[1]", "[2 3]", "[4]", "[5]" + refused(400), "[6]"}},
		{"the last one does not fit", add(100, 300), []string{"[0]", "[1]" + refused(300)}},
		{"none fits", add(300, 300), []string{"[0]" + refused(300), "[1]" + refused(300)}},
		{"what was gathered stays together, each with its position", func(t *testing.T, b *Batcher[int]) {
			gather(t, b, "a", 0, 1)
			gather(t, b, "b", 2)
			gather(t, b, "", 3, 4)
			gather(t, b, "c", 5)
			gather(t, b, "d", 6)
		}, []string{"[0 1] at a", "[2] at b", "[3 4]", "[5 6] at d"}},
		{"what was gathered and does not fit is refused together", func(t *testing.T, b *Batcher[int]) {
			gather(t, b, "a", 0)
			gather(t, b, "b", 1, 2, 3)
			gather(t, b, "c", 4)
		}, []string{"[0] at a", "[1 2 3] at b" + refused(100, 100, 100), "[4] at c"}},
		{"timestamps that are ages apart once the first is gone", func(t *testing.T, b *Batcher[int]) {
			for tag, at := range []int64{0, math.MinInt64 + 1, math.MaxInt64} {
				if err := b.Add(&batchfmt.Record{Timestamp: at, Value: make([]byte, 100)}, 100, tag, start); err != nil {
					t.Fatal(err)
				}
			}
		}, []string{"[0 1]", "[2]"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBatcher(Config{BatchBytes: 500, Limit: 5000, Cost: costOf})
			tt.play(t, b)
			b.SetLimit(limit)
			if diff := cmp.Diff(tt.want, takeAll(b)); diff != "" {
				t.Errorf("batches (-want +got):\n%s", diff)
			}
		})
	}
}

// What comes next keeps to the new limit, and a smaller batch size stays as it was asked for.
func TestAfterSetLimit(t *testing.T) {
	b := newBatcher(Config{BatchBytes: 500, Limit: 2000, Cost: costOf})
	b.SetLimit(batchfmt.HeaderSize2 + 200)
	var large *TooLargeError
	if err := b.Add(record(250), 250, 0, start); !errors.As(err, &large) || large.Limit != batchfmt.HeaderSize2+200 {
		t.Errorf("over the new limit: %v", err)
	}
	add(t, b, 100, 1, start)
	opened := b.Opened()
	add(t, b, 60, 2, start)
	if b.Opened() != opened {
		t.Error("it was opened anew though it is the same batch")
	}
	b.SetLimit(4000)
	for tag := 3; tag < 6; tag++ {
		add(t, b, 300, tag, start)
	}
	if diff := cmp.Diff([]string{"[1 2 3]", "[4]", "[5]"}, takeAll(b)); diff != "" {
		t.Errorf("batches (-want +got):\n%s", diff)
	}
}

func TestRefusedUntilTheLimitIsRaised(t *testing.T) {
	b := newBatcher(Config{BatchBytes: 500, Limit: 2000, Cost: costOf})
	add(t, b, 300, 0, start)
	b.SetLimit(200)
	if !b.Refuses() || !b.Due(start, false) {
		t.Error("what does not fit is not due to be refused")
	}
	b.SetLimit(2000)
	if b.Refuses() {
		t.Error("what fits again is refused")
	}
	batch := b.Take()
	batch.Refused = errors.New("another reason")
	b.Return(batch)
	b.SetLimit(3000)
	if diff := cmp.Diff([]string{"[0]: another reason"}, takeAll(b)); diff != "" {
		t.Errorf("batches (-want +got):\n%s", diff)
	}
}

// What was taken when the limit was lowered comes back to the front.
func TestReturn(t *testing.T) {
	b := newBatcher(Config{BatchBytes: 500, Limit: 2000, Cost: costOf})
	for tag := range 4 {
		add(t, b, 100, tag, start)
	}
	taken := b.Take()
	add(t, b, 100, 4, start)
	b.SetLimit(batchfmt.HeaderSize2 + 250)
	if b.Fits(taken) {
		t.Error("it fits")
	}
	b.Return(taken)
	if diff := cmp.Diff([]string{"[0 1]", "[2 3]", "[4]"}, takeAll(b)); diff != "" {
		t.Errorf("batches (-want +got):\n%s", diff)
	}
}

// TestLimitsChange changes the limit at random moments: every record is taken once, in order and
// as it was, in batches that fit, but for those that are refused and could not.
func TestLimitsChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := rapid.IntRange(150, 3000)
		limit := limits.Draw(t, "limit")
		b := newBatcher(Config{BatchBytes: rapid.IntRange(1, 3000).Draw(t, "batch bytes"), Adapt: true, Limit: limit, Cost: costOf})
		var given []int // sizes
		taken, bytes := 0, 0
		take := func() {
			batch := b.Take()
			if batch == nil {
				return
			}
			fits := batch.Builder.SectionBytes()+batchfmt.HeaderSize2 <= limit
			if fits == (batch.Refused != nil) || !fits && len(batch.Tags) != 1 {
				t.Fatalf("%d records of %d bytes, limit %d, refused: %v", len(batch.Tags), batch.Builder.SectionBytes(), limit, batch.Refused)
			}
			sealed, err := batch.Builder.Seal(nil, batchfmt.Seal{Version: batchfmt.Version1})
			if err != nil {
				t.Fatal(err)
			}
			parsed, err := batchfmt.Parse(sealed)
			if err != nil {
				t.Fatal(err)
			}
			var r batchfmt.Reader
			if err := r.Reset(parsed); err != nil {
				t.Fatal(err)
			}
			for _, tag := range batch.Tags {
				if !r.Next() || tag != taken || r.Record().Timestamp != int64(tag) || len(r.Record().Value) != given[tag] {
					t.Fatalf("record %d where %d was due: %+v", tag, taken, r.Record())
				}
				taken++
			}
			bytes += batch.Bytes
			batch.Reset()
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0:
				take()
			case 1:
				limit = limits.Draw(t, "limit")
				b.SetLimit(limit)
			default:
				size := rapid.IntRange(0, 1000).Draw(t, "size")
				r := batchfmt.Record{Timestamp: int64(len(given)), Value: make([]byte, size)}
				if err := b.Add(&r, size, len(given), start.Add(time.Duration(len(given)))); err == nil {
					given = append(given, size)
				}
			}
		}
		for !b.Empty() {
			take()
		}
		total := 0
		for _, size := range given {
			total += size
		}
		if taken != len(given) || bytes != total {
			t.Fatalf("%d records of %d given, %d bytes of %d", taken, len(given), bytes, total)
		}
	})
}

// Nothing is taken out of what belongs together.
func TestRemoveLeavesGroups(t *testing.T) {
	b := newBatcher(Config{BatchBytes: 500, Cost: costOf})
	done, err := b.Gather(200, 2)
	if err != nil {
		t.Fatal(err)
	}
	add(t, b, 10, 0, start)
	add(t, b, 10, 1, start)
	done()
	first := func(tag int) bool { return tag == 0 }
	b.RemoveAll(first, func(int) int { return 10 }, func(int) { t.Error("it is gone") })
	if b.Remove(10, first) || !slices.Equal(b.Take().Tags, []int{0, 1}) {
		t.Error("it is removed")
	}
}
