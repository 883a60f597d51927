package counters

import (
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quoin-io/quoin/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAnswer(t *testing.T) {
	var b Batches
	for _, row := range []struct {
		reason    string
		code      wire.Code
		duplicate bool
		want      *Counter
	}{
		{"new and stored", wire.CodeOK, false, &b.Appended},
		{"stored before", wire.CodeOK, true, &b.Duplicate},
		{"something before it is missing", wire.CodeOutOfOrder, false, &b.Gap},
		{"a newer instance", wire.CodeInvalidProducerEpoch, false, &b.Fenced},
		{"a newer opening", wire.CodeSuperseded, false, &b.Fenced},
		{"another batch is there", wire.CodeSequenceConflict, false, &b.Conflict},
		{"no room now", wire.CodeThrottled, false, &b.Rejected},
		{"bad bytes", wire.CodeCorruptBatch, false, &b.Rejected},
		{"the append was undone", wire.CodeDiskFull, false, &b.Rejected},
		{"the partition has stopped", wire.CodePartitionStopped, false, &b.Rejected},
		{"the sync failed", wire.CodeDurabilityUnknown, false, &b.Unknown},
		{"nothing is left to tell", wire.CodeUnknownOutcome, false, &b.Unknown},
		{"nothing is known of the lane", wire.CodeUnknownProducerID, false, &b.Unknown},
		{"stored and unreadable", wire.CodeBatchUnreadable, false, &b.Unknown},
		{"the log could not be searched", wire.CodeLookUpFailed, false, &b.Unknown},
		{"a code of a newer version", 60000, false, &b.Unknown},
	} {
		before := row.want.Load()
		b.Answer(row.code, row.duplicate)
		if row.want.Load() != before+1 {
			t.Errorf("%s: %v is counted elsewhere", row.reason, row.code)
		}
	}
}

// A duplicate is a kind of success: the flag must not turn a refusal into one.
func TestAnswerLooksAtTheCodeFirst(t *testing.T) {
	for _, row := range wire.Codes() {
		var b Batches
		b.Answer(row.Code, true)
		if got := b.Duplicate.Load() == 1; got != (row.Code == wire.CodeOK) {
			t.Errorf("%v is counted as a duplicate: %v", row.Code, got)
		}
	}
}

func TestHistogram(t *testing.T) {
	var h Histogram
	for _, d := range []time.Duration{
		-time.Second, 0, Bounds[0], Bounds[0] + 1, 2 * time.Millisecond, Bounds[len(Bounds)-1], time.Minute,
	} {
		h.Observe(d)
	}
	v := h.Load()
	want := HistogramView{
		Count: 7, Sum: 2*Bounds[0] + 1 + 2*time.Millisecond + Bounds[len(Bounds)-1] + time.Minute,
		UpTo: [len(Bounds)]uint64{3, 4, 4, 5, 5, 5, 5, 5, 5, 6},
	}
	if v != want {
		t.Errorf("%+v, want %+v", v, want)
	}
	for i := 1; i < len(Bounds); i++ {
		if Bounds[i] <= Bounds[i-1] {
			t.Errorf("bound %v stands behind %v", Bounds[i], Bounds[i-1])
		}
	}
}

func TestLevelIsTheSumOfItsParts(t *testing.T) {
	var l Level
	x, y := l.Part(), l.Part()
	for _, step := range []struct {
		part *Part
		set  int
		want int64
	}{
		{&x, 5, 5}, {&y, 3, 8}, {&x, 5, 8}, {&x, 1, 4}, {&y, 0, 1}, {&x, 0, 0}, {&x, 0, 0},
	} {
		if step.part.Set(step.set); l.Load() != step.want {
			t.Fatalf("%d, want %d", l.Load(), step.want)
		}
	}
}

func TestCountingTogether(t *testing.T) {
	var s Set
	var counting sync.WaitGroup
	const each = 1000
	for range 8 {
		counting.Go(func() {
			lanes := s.Producers.Lanes.Part()
			for i := range each {
				s.Appended.Records.Add(2)
				s.Syncs.Took.Observe(time.Duration(i))
				lanes.Set(i)
			}
			lanes.Set(0)
		})
	}
	counting.Wait()
	took := s.Syncs.Took.Load()
	if s.Appended.Records.Load() != 16*each || took.Count != 8*each || took.Sum != 8*each*(each-1)/2 || s.Producers.Lanes.Load() != 0 {
		t.Errorf("%d records, %+v, %d lanes", s.Appended.Records.Load(), took, s.Producers.Lanes.Load())
	}
}

func BenchmarkAnswer(b *testing.B) {
	var s Set
	for b.Loop() {
		s.Batches.Answer(wire.CodeOK, false)
	}
}

func BenchmarkAnswerTogether(b *testing.B) {
	var s Set
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s.Batches.Answer(wire.CodeOK, false)
		}
	})
}

func BenchmarkObserve(b *testing.B) {
	var h Histogram
	for b.Loop() {
		h.Observe(time.Millisecond)
	}
}
