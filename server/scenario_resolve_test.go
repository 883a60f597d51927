package server_test

import (
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// Outcomes that were left open, and what is said of them afterwards.
var resolveScenarios = []scenario{
	{17, "renumbered", "settled, and gone on under a new epoch: a stale copy of a later batch is INVALID_PRODUCER_EPOCH",
		[]string{"fence-ignored"}, renumbered},
	{95, "late-copy-after-settle", "a copy of what was settled as not stored: never appended, after a crash neither; no settling without a sync",
		[]string{"fence-ignored", "fence-not-awaited"}, lateCopyAfterSettle},
	{96, "open-outcomes", "stored, in flight, not yet, never, topic gone, unknowable: what is said, to whom, and what it changes",
		[]string{"fence-ignored", "resolve-guesses"}, openOutcomes},
}

// asking looks for a batch in the fixture's partition, with nobody's key.
func (f *fixture) asking(t *testing.T, b []byte) *wire.Resolve {
	t.Helper()
	batch, err := batchfmt.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return &wire.Resolve{
		ProducerID: batch.ProducerID(), Epoch: batch.Epoch(), TopicID: f.topic.ID,
		Base: batch.BaseSequence(), Last: batch.LastSequence(), Digest: batch.Digest(),
	}
}

// settling is asking by the holder, who wants it to be final.
func (f *fixture) settling(t *testing.T, b []byte) *wire.Resolve {
	t.Helper()
	m := f.asking(t, b)
	m.Key, m.Settle = f.p.Key, true
	return m
}

func wantFate(t *testing.T, m wire.Message, outcome wire.ResolveOutcome, offset batchfmt.Offset) *wire.Resolved {
	t.Helper()
	r, ok := m.(*wire.Resolved)
	if !ok || r.Outcome != outcome || r.Offset != offset {
		t.Fatalf("%+v, want %v at %d", m, outcome, offset)
	}
	if outcome != wire.ResolveStored && r.Verified || outcome != wire.ResolveInFlight && r.Detail == "" {
		t.Fatalf("%v with %+v", outcome, r)
	}
	return r
}

// bump raises the epoch of the fixture's producer.
func (f *fixture) bump(t *testing.T, request byte) {
	t.Helper()
	m := &wire.BumpEpoch{ProducerID: f.p.ProducerID, Key: f.p.Key}
	m.Request[0] = request
	for range 2 { // a reply may be lost
		bumped, ok := f.c.Request(m).(*wire.EpochBumped)
		if !ok || bumped.Epoch != batchfmt.Epoch(request) {
			t.Fatalf("epoch %d: %+v", request, bumped)
		}
		f.p = &wire.ProducerInited{ProducerID: f.p.ProducerID, Key: f.p.Key, Epoch: bumped.Epoch}
	}
}

// wantStale checks that a batch of an epoch that is over is refused for good.
func wantStale(t *testing.T, r wire.ProduceResult, current int64) {
	t.Helper()
	if wantCode(t, r, wire.CodeInvalidProducerEpoch); r.Expected != current || !r.NotStored || r.BaseOffset != -1 {
		t.Fatalf("a stale copy: %+v, want epoch %d", r, current)
	}
}

func renumbered(t *testing.T) {
	f := setUp(t, servertest.InMemory())
	f.stored(t, 0, 1)
	failed, later := f.batch(t, 2, two(2)...), f.batch(t, 4, two(4)...)
	wantFate(t, f.c.Request(f.settling(t, failed)), wire.ResolveNever, -1)
	f.bump(t, 1)
	f.stored(t, 2, 1)
	f.lane.Produce(later) // of the very stream that goes on
	wantStale(t, f.lane.Result(), 1)
	f.lane.Produce(failed)
	wantCode(t, f.lane.Result(), wire.CodeSequenceConflict)
	wantFate(t, f.c.Request(f.settling(t, later)), wire.ResolveNever, -1)
	f.restarts(t, func() {
		f.lane = f.c.Lane(f.p, f.topic, 0, 5)
		f.lane.Produce(later)
		wantStale(t, f.lane.Result(), 1)
	})
	f.stored(t, 4, 1)
	// Without a settle it is the first batch of the new epoch that shuts the old one out.
	stale := f.batch(t, 8, two(8)...)
	f.bump(t, 2)
	f.stored(t, 6, 1)
	f.lane.Produce(stale)
	wantStale(t, f.lane.Result(), 2)
	f.wantLog(t, 4)
}

func lateCopyAfterSettle(t *testing.T) {
	f := setUp(t, servertest.InMemory())
	f.stored(t, 0, 1)
	late := f.batch(t, 2, two(2)...)
	f.FailSync()
	if e := wantError(t, f.c.Request(f.settling(t, late)), wire.CodeDurabilityUnknown); e.Code.Info().Outcome != wire.OutcomeUnknown {
		t.Fatalf("the fence is not durable: %+v", e)
	}
	f.Crash()
	f.reconnect(t, 3)
	wantFate(t, f.c.Request(f.asking(t, late)), wire.ResolveNotYet, -1) // the crash took the fence
	r := wantFate(t, f.c.Request(f.settling(t, late)), wire.ResolveNever, -1)
	if r.Epoch != 1 || r.LastSequence != 1 {
		t.Fatalf("the lane is at %d and takes epochs from %d on", r.LastSequence, r.Epoch)
	}
	for range 2 {
		f.lane.Produce(late)
		wantStale(t, f.lane.Result(), 1)
		wantFate(t, f.c.Request(f.asking(t, late)), wire.ResolveNever, -1)
		f.Crash()
		f.reconnect(t, 3)
	}
	// Where the producer never wrote there is a fence too.
	f.topic = f.c.CreateTopic("elsewhere", 1)
	first := f.batch(t, 0, two(0)...)
	wantFate(t, f.c.Request(f.settling(t, first)), wire.ResolveNever, -1)
	f.Crash()
	f.reconnect(t, 1)
	f.lane.Produce(first)
	wantStale(t, f.lane.Result(), 1)
	// The producer goes on in both.
	f.bump(t, 1)
	f.stored(t, 0, 2)
	f.wantLog(t, 2)
}

func openOutcomes(t *testing.T) {
	t.Run("stored", resolveStored)
	t.Run("in flight", resolveInFlight)
	t.Run("not yet", resolveNotYet)
	t.Run("never", resolveNever)
	t.Run("topic gone", resolveTopicGone)
	t.Run("unknowable", resolveUnknowable)
	t.Run("no answer", resolveRefused)
}

func resolveStored(t *testing.T) {
	f := setUp(t)
	batches := f.stored(t, 0, 8) // the first ones are behind the window
	for i, b := range batches {
		for _, m := range []*wire.Resolve{f.asking(t, b), f.settling(t, b)} {
			r := wantFate(t, f.c.Request(m), wire.ResolveStored, batchfmt.Offset(2*i))
			if !r.Verified || r.Unreadable || r.LastSequence != 15 || r.Epoch != 0 {
				t.Fatalf("batch %d: %+v", i, r)
			}
		}
	}
	if m, ok := f.c.Request(&wire.CloseProducer{ProducerID: f.p.ProducerID, Key: f.p.Key}).(*wire.ProducerClosed); !ok {
		t.Fatalf("not closed: %+v", m)
	}
	wantFate(t, f.c.Request(f.settling(t, batches[7])), wire.ResolveStored, 14)
	f.wantLog(t, 8)
}

func resolveInFlight(t *testing.T) {
	f := setUp(t)
	f.stored(t, 0, 1)
	_, release := f.HoldSync()
	b := f.batch(t, 2, two(2)...)
	f.lane.Produce(b)
	f.appended(t, 9)
	wantFate(t, f.c.Request(f.asking(t, b)), wire.ResolveInFlight, 2)
	other := f.batch(t, 2, "other", "other")
	fates := make(chan wire.Message, 2)
	for _, m := range []*wire.Resolve{f.settling(t, b), f.asking(t, other)} {
		go func() { fates <- f.c.Request(m) }() // both are final, and wait for the sync
	}
	f.appended(t, 11)
	select {
	case m := <-fates:
		t.Fatalf("before the sync: %+v", m)
	default:
	}
	release()
	for range 2 {
		if r, ok := (<-fates).(*wire.Resolved); !ok || r.Outcome != wire.ResolveStored && r.Outcome != wire.ResolveNever {
			t.Fatalf("behind the sync: %+v", r)
		}
	}
	wantStored(t, f.lane.Result(), 2, false)
	wantFate(t, f.c.Request(f.asking(t, b)), wire.ResolveStored, 2)
	wantFate(t, f.c.Request(f.asking(t, other)), wire.ResolveNever, -1)
}

func resolveNotYet(t *testing.T) {
	f := setUp(t)
	for _, base := range []batchfmt.Seq{0, 2} { // on a lane that is new, and on one that is not
		b := f.batch(t, base, two(base)...)
		r := wantFate(t, f.c.Request(f.asking(t, b)), wire.ResolveNotYet, -1)
		if r.LastSequence != base-1 {
			t.Fatalf("the last sequence is %d", r.LastSequence)
		}
		f.stored(t, base, 1) // to look changes nothing
	}
	invented := *f.p
	invented.Epoch = 7
	wantFate(t, f.c.Request(f.asking(t, rawclient.Batch(t, &invented, 4, "v"))), wire.ResolveNotYet, -1)
	nobody := &wire.ProducerInited{ProducerID: 1 << 40}
	wantFate(t, f.c.Request(f.asking(t, rawclient.Batch(t, nobody, 0, "v"))), wire.ResolveNotYet, -1)
	f.stored(t, 4, 1)
}

func resolveNever(t *testing.T) {
	f := setUp(t)
	f.stored(t, 0, 8)
	for name, b := range map[string][]byte{
		"other content":             f.batch(t, 14, "other", "other"),
		"other content, looked up":  f.batch(t, 0, "other", "other"),
		"shorter":                   f.batch(t, 12, two(12)[0]),
		"over the end":              f.batch(t, 14, rawclient.Values("v", 3)...),
		"across two, looked up too": f.batch(t, 1, two(1)...),
	} {
		for _, m := range []*wire.Resolve{f.asking(t, b), f.settling(t, b)} {
			if r, ok := f.c.Request(m).(*wire.Resolved); !ok || r.Outcome != wire.ResolveNever || r.Epoch != 0 {
				t.Fatalf("%s: %+v", name, r)
			}
		}
	}
	f.stored(t, 16, 1) // all that was so by itself, and needed no fence
	next := f.batch(t, 18, two(18)...)
	wantFate(t, f.c.Request(f.settling(t, next)), wire.ResolveNever, -1)
	wantFate(t, f.c.Request(f.settling(t, next)), wire.ResolveNever, -1)
	f.lane.Produce(next)
	wantStale(t, f.lane.Result(), 1)
	f.wantLog(t, 9)
}

func resolveTopicGone(t *testing.T) {
	f := setUp(t)
	b := f.stored(t, 0, 1)[0]
	if m, ok := f.c.Request(&wire.DeleteTopic{Name: "orders"}).(*wire.TopicDeleted); !ok {
		t.Fatalf("not deleted: %+v", m)
	}
	f.c.CreateTopic("orders", 1)
	for _, m := range []*wire.Resolve{f.asking(t, b), f.settling(t, b)} {
		wantFate(t, f.c.Request(m), wire.ResolveTopicGone, -1)
		m.TopicID = [16]byte{1} // nor was there ever one of this id
		wantFate(t, f.c.Request(m), wire.ResolveTopicGone, -1)
	}
}

func resolveUnknowable(t *testing.T) {
	f := setUp(t, limits(4, 8))
	gone := f.visit(t, f.c.NewProducer(), 1)
	f.forget(t, gone.p.ProducerID)
	for _, settle := range []bool{false, true} {
		m := f.asking(t, rawclient.Batch(t, gone.p, gone.sent()+1, "v"))
		m.Key, m.Settle = gone.p.Key, settle
		wantFate(t, f.c.Request(m), wire.ResolveUnknowable, -1)
	}
	m := f.asking(t, f.batch(t, 0, "v"))
	m.ProducerID |= 1 << 63 // of another kind of producers, who number in their own way
	wantFate(t, f.c.Request(m), wire.ResolveUnknowable, -1)
}

func resolveRefused(t *testing.T) {
	f := setUp(t)
	f.stored(t, 0, 1)
	b := f.batch(t, 2, two(2)...)
	other := f.c.NewProducer()
	rows := []struct {
		name string
		edit func(*wire.Resolve)
		code wire.Code
	}{
		{"no key", func(m *wire.Resolve) { m.Key = wire.Secret{} }, wire.CodeProducerKeyMismatch},
		{"a wrong key", func(m *wire.Resolve) { m.Key[3] ^= 1 }, wire.CodeProducerKeyMismatch},
		{"another's key", func(m *wire.Resolve) { m.Key = other.Key }, wire.CodeProducerKeyMismatch},
		{"a wrong key, the topic gone", func(m *wire.Resolve) { m.Key[3] ^= 1; m.TopicID[0] ^= 1 }, wire.CodeProducerKeyMismatch},
		{"an id that nobody has", func(m *wire.Resolve) { m.ProducerID = 1 << 40 }, wire.CodeUnknownProducerID},
		{"an epoch that nobody was given", func(m *wire.Resolve) { m.Epoch = 1 }, wire.CodeInvalidProducerEpoch},
		{"the highest epoch", func(m *wire.Resolve) { m.Epoch = 1<<32 - 1 }, wire.CodeInvalidProducerEpoch},
		{"no such partition", func(m *wire.Resolve) { m.Partition = 1 }, wire.CodeUnknownPartition},
		{"a partition below all", func(m *wire.Resolve) { m.Partition = -1 }, wire.CodeUnknownPartition},
		{"no producer", func(m *wire.Resolve) { m.ProducerID = 0 }, wire.CodeInvalidRequest},
		{"no sequence", func(m *wire.Resolve) { m.Base = -1 }, wire.CodeInvalidRequest},
		{"no range", func(m *wire.Resolve) { m.Last = m.Base - 1 }, wire.CodeInvalidRequest},
	}
	for _, row := range rows {
		m := f.settling(t, b)
		row.edit(m)
		if e, ok := f.c.Request(m).(*wire.Error); !ok || e.Code != row.code || e.Detail == "" {
			t.Errorf("%s: %+v, want %v", row.name, e, row.code)
		}
	}
	// A disk without room is no reason to say anything either.
	f.FillDisk()
	wantError(t, f.c.Request(f.settling(t, b)), wire.CodeDiskFull)
	f.FreeDisk()
	f.lane.Produce(b) // no fence came of all that
	wantStored(t, f.lane.Result(), 2, false)
	f.wantLog(t, 2)
}
