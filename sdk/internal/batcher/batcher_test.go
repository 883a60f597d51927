package batcher

import (
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/quoin-io/quoin/batchfmt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Unix(1_000_000, 0)

func newBatcher(c Config) *Batcher[int] {
	c.Pool = &sync.Pool{New: func() any { return new(Batch[int]) }}
	if c.Limit == 0 {
		c.Limit = batchfmt.DefaultTopicBatchBytes
	}
	return New[int](c)
}

func record(bytes int) *batchfmt.Record {
	return &batchfmt.Record{Timestamp: 1, Value: []byte(strings.Repeat("x", bytes))}
}

func add(t *testing.T, b *Batcher[int], bytes, tag int, at time.Time) {
	t.Helper()
	if err := b.Add(record(bytes), bytes, tag, at); err != nil {
		t.Fatal(err)
	}
}

func TestRemove(t *testing.T) {
	b := newBatcher(Config{BatchBytes: 100})
	for tag := range 4 {
		add(t, b, 60, tag, start) // each batch takes one and is closed by the next
	}
	add(t, b, 10, 4, start)
	is := func(tag int) func(int) bool { return func(other int) bool { return other == tag } }
	if b.Remove(60, is(9)) {
		t.Error("removed what is not there")
	}
	for _, tag := range []int{1, 3} { // one of a full batch, one of those that gather
		if !b.Remove(60, is(tag)) || b.Remove(60, is(tag)) {
			t.Errorf("record %d cannot be removed once", tag)
		}
	}
	var got []int
	for !b.Empty() {
		batch := b.Take()
		if batch.Builder.Len() != len(batch.Tags) || batch.Bytes < 10 {
			t.Errorf("batch of %v with %d records, %d bytes", batch.Tags, batch.Builder.Len(), batch.Bytes)
		}
		got = append(got, batch.Tags...)
	}
	if !slices.Equal(got, []int{0, 2, 4}) {
		t.Errorf("left are %v", got)
	}
	add(t, b, 10, 5, start)
	if !b.Remove(10, is(5)) || !b.Empty() || b.Gathering() {
		t.Error("an empty batch is left")
	}
}

// Records that belong together come into one batch, even a larger one than usual.
func TestGather(t *testing.T) {
	b := newBatcher(Config{BatchBytes: 100, Limit: 2000})
	add(t, b, 60, 0, start)
	done, err := b.Gather(3*batchfmt.RecordBytes(record(60)), 3)
	if err != nil {
		t.Fatal(err)
	}
	for tag := 1; tag <= 3; tag++ {
		add(t, b, 60, tag, start)
	}
	done()
	b.SetPosition([]byte("after 3"))
	add(t, b, 10, 4, start)
	var got [][]int
	var positions []string
	for !b.Empty() {
		batch := b.Take()
		got, positions = append(got, batch.Tags), append(positions, string(batch.Position))
	}
	if !slices.EqualFunc(got, [][]int{{0}, {1, 2, 3}, {4}}, slices.Equal) || !slices.Equal(positions, []string{"", "after 3", ""}) {
		t.Errorf("batches %v with positions %q", got, positions)
	}
	var large *TooLargeError
	if _, err := b.Gather(2000, 2); !errors.As(err, &large) || large.Limit != 2000 {
		t.Errorf("too much: %v", err)
	}
}

// The more full batches wait, the larger the next one is, up to what the topic takes.
func TestAdapt(t *testing.T) {
	b := newBatcher(Config{BatchBytes: 1000, Limit: 3500, Adapt: true})
	for tag := range 200 {
		add(t, b, 90, tag, start)
	}
	var sizes []int
	for !b.Empty() {
		sizes = append(sizes, b.Take().Builder.SectionBytes())
	}
	for i, want := range []int{1000, 2000, 3000, 3500, 3500} {
		if got := sizes[i]; got > want || got < want-250 {
			t.Errorf("batch %d has %d bytes, want up to %d; all: %v", i, got, want, sizes)
		}
	}
	add(t, b, 90, 0, start)
	for range 15 {
		add(t, b, 90, 0, start)
	}
	if got := b.Take().Builder.SectionBytes(); got > 1000 {
		t.Errorf("with nothing left to wait the next batch has %d bytes", got)
	}
}

func TestDue(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name   string
		linger time.Duration
		play   func(t *testing.T, b *Batcher[int])
		after  time.Duration
		idle   bool
		want   bool
	}{
		{"nothing waits", 0, func(*testing.T, *Batcher[int]) {}, 0, true, false},
		{"idle sends at once", 0, func(t *testing.T, b *Batcher[int]) { add(t, b, 1, 0, start) }, 0, true, true},
		{"busy waits", 0, func(t *testing.T, b *Batcher[int]) { add(t, b, 1, 0, start) }, time.Hour, false, false},
		{"busy sends what an answer finds", 0, func(t *testing.T, b *Batcher[int]) {
			add(t, b, 1, 0, start)
			b.Answered()
		}, 0, false, true},
		{"an answer that found nothing does not count for later", 0, func(t *testing.T, b *Batcher[int]) {
			b.Answered()
			add(t, b, 1, 0, start)
		}, 0, false, false},
		{"full is due however busy", 0, func(t *testing.T, b *Batcher[int]) { add(t, b, 2000, 0, start) }, 0, false, true},
		{"linger holds an idle lane too", 5 * ms, func(t *testing.T, b *Batcher[int]) { add(t, b, 1, 0, start) }, 4 * ms, true, false},
		{"linger ends", 5 * ms, func(t *testing.T, b *Batcher[int]) { add(t, b, 1, 0, start) }, 5 * ms, false, true},
		{"linger does not hold a full batch", 5 * ms, func(t *testing.T, b *Batcher[int]) { add(t, b, 2000, 0, start) }, 0, true, true},
		{"answers do not shorten linger", 5 * ms, func(t *testing.T, b *Batcher[int]) {
			add(t, b, 1, 0, start)
			b.Answered()
		}, 0, true, false},
		{"a flush does", 5 * ms, func(t *testing.T, b *Batcher[int]) {
			add(t, b, 1, 0, start)
			b.Flush()
		}, 0, false, true},
		{"a flush of nothing does not count for later", 5 * ms, func(t *testing.T, b *Batcher[int]) {
			b.Flush()
			add(t, b, 1, 0, start)
		}, 0, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBatcher(Config{BatchBytes: 1000, Linger: tt.linger})
			tt.play(t, b)
			if got := b.Due(start.Add(tt.after), tt.idle); got != tt.want {
				t.Errorf("due: %v, want %v", got, tt.want)
			}
		})
	}
}

func TestTooLargeBeforeAnything(t *testing.T) {
	b := newBatcher(Config{BatchBytes: 64 << 10, Limit: 1000})
	err := b.Add(record(1000), 1, 0, start)
	var large *TooLargeError
	if !errors.As(err, &large) || large.Limit != 1000 || large.Bytes <= 1000 {
		t.Fatalf("got %v", err)
	}
	if !b.Empty() || b.Opened() != 0 {
		t.Error("a refused record left something")
	}
	if err := b.Add(record(1000-batchfmt.HeaderSize2-30), 1, 0, start); err != nil {
		t.Errorf("a record below the limit: %v", err)
	}
}

func TestFormatLimitLeavesNothing(t *testing.T) {
	b := newBatcher(Config{BatchBytes: 64 << 10})
	r := record(1)
	r.Headers = make([]batchfmt.Header, batchfmt.MaxHeaders+1)
	var format *batchfmt.FormatError
	if err := b.Add(r, 1, 0, start); !errors.As(err, &format) {
		t.Fatalf("got %v", err)
	}
	if !b.Empty() || b.Gathering() {
		t.Error("a refused record opened a batch")
	}
}

// Records whose timestamps are too far from each other for one batch come into several.
func TestTimestampsAgesApart(t *testing.T) {
	b := newBatcher(Config{BatchBytes: 1 << 10})
	for tag, at := range []int64{math.MinInt64, math.MaxInt64, 0, 5} {
		if err := b.Add(&batchfmt.Record{Timestamp: at}, 1, tag, start); err != nil {
			t.Fatalf("timestamp %d: %v", at, err)
		}
	}
	var got [][]int
	for !b.Empty() {
		got = append(got, b.Take().Tags)
	}
	if !slices.EqualFunc(got, [][]int{{0}, {1, 2, 3}}, slices.Equal) {
		t.Errorf("batches of %v", got)
	}
}

func TestTimes(t *testing.T) {
	b := newBatcher(Config{BatchBytes: 100, Linger: time.Second})
	if !b.Oldest().IsZero() || !b.LingerEnds().IsZero() || b.Take() != nil {
		t.Error("an empty batcher has times or batches")
	}
	add(t, b, 200, 0, start)
	add(t, b, 1, 1, start.Add(time.Minute))
	if got := b.Oldest(); !got.Equal(start) {
		t.Errorf("oldest %v", got)
	}
	if got := b.LingerEnds(); !got.Equal(start.Add(time.Minute + time.Second)) {
		t.Errorf("linger ends %v", got)
	}
}

// TestOrder takes batches at random moments and wants every record once, in order, in
// batches that keep to the limits.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(200, 4000).Draw(t, "limit")
		b := newBatcher(Config{BatchBytes: rapid.IntRange(1, 3000).Draw(t, "batch bytes"), Limit: limit})
		given, taken, bytes := 0, 0, 0
		take := func() {
			batch := b.Take()
			if batch == nil {
				return
			}
			if len(batch.Tags) != batch.Builder.Len() || len(batch.Tags) == 0 {
				t.Fatalf("%d tags, %d records", len(batch.Tags), batch.Builder.Len())
			}
			if size := batch.Builder.SectionBytes() + batchfmt.HeaderSize2; size > limit {
				t.Fatalf("a batch of %d bytes, the limit is %d", size, limit)
			}
			for _, tag := range batch.Tags {
				if tag != taken {
					t.Fatalf("record %d where %d was due", tag, taken)
				}
				taken++
			}
			bytes -= batch.Bytes
			batch.Reset()
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "take") == 0 {
				take()
				continue
			}
			size := rapid.IntRange(0, 4000).Draw(t, "size")
			if err := b.Add(record(size), size, given, start); err == nil {
				given++
				bytes += size
			}
		}
		for !b.Empty() {
			take()
		}
		if given != taken || bytes != 0 {
			t.Fatalf("%d records given, %d taken, %d bytes are left", given, taken, bytes)
		}
	})
}

func TestAddAllocatesNothing(t *testing.T) {
	b := newBatcher(Config{BatchBytes: 1 << 20})
	r := record(100)
	for range 2000 { // memory for what follows
		add(t, b, 100, 0, start)
	}
	b.Take()
	warm := new(Batch[int])
	for range 2000 {
		if err := warm.Builder.Add(r); err != nil {
			t.Fatal(err)
		}
		warm.Tags = append(warm.Tags, 0)
	}
	warm.Reset()
	b.config.Pool.New = func() any { return warm }
	if n := testing.AllocsPerRun(1000, func() { _ = b.Add(r, 100, 1, start) }); n != 0 {
		t.Errorf("%v allocations a record", n)
	}
}
