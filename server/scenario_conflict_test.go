package server_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/internal/catalog"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// Batches that cannot be what they claim to be, and retries in a world that has changed.
var conflictScenarios = []scenario{
	{5, "shorter", "the same base, fewer records: SEQUENCE_CONFLICT, nothing appended",
		[]string{"conflict-taken"}, shorter},
	{6, "longer", "the same base, more records: SEQUENCE_CONFLICT, the tail is not appended",
		[]string{"conflict-taken"}, longer},
	{7, "overlap", "a batch that reaches over the end of the lane: SEQUENCE_CONFLICT, not cut to fit",
		[]string{"conflict-taken"}, overlap},
	{8, "two-in-one", "one batch over two stored ones: SEQUENCE_CONFLICT",
		[]string{"conflict-taken"}, twoInOne},
	{9, "other-payload", "the same range, other content: SEQUENCE_CONFLICT; when the original is removed, success that is not verified",
		[]string{"conflict-taken"}, otherPayload},
	{10, "encoded-anew", "the same records, encoded anew: SEQUENCE_CONFLICT, the bytes are the identity",
		[]string{"conflict-taken"}, encodedAnew},
	{11, "gap", "a batch behind a gap: OUT_OF_ORDER_SEQUENCE_NUMBER with what is expected, state unchanged",
		[]string{"gap-accepted"}, gapInTheLane},
	{12, "impossible-numbers", "impossible sequence or count: CORRUPT_BATCH, state unchanged, connection alive",
		[]string{"records-unchecked"}, impossibleNumbers},
	{62, "clock-steps", "the wall clock goes forth and back by days: nothing expires, append times never fall",
		[]string{"clock-expiry"}, clockSteps},
	{63, "record-times", "records of 1970 and of 2100: no effect on what is remembered",
		[]string{"clock-expiry"}, recordTimes},
	{70, "limit-lowered", "the size limit is lowered between attempts: DUPLICATE, only new batches meet it",
		[]string{"limits-first"}, limitLowered},
	{71, "late-retry", "a retry whose records are years old by now: DUPLICATE",
		[]string{"clock-expiry"}, lateRetry},
}

// wantConflict checks that offending is refused for good behind two batches of two, with
// both digests, and that the lane is as before. It does the same when the window of the
// lane has moved on, and what is stored must be looked up.
func wantConflict(t *testing.T, offending func(t *testing.T, f *fixture) []byte) {
	t.Helper()
	for _, behind := range []int{0, 5} {
		f := setUp(t)
		stored := f.stored(t, 0, 2+behind)
		b := offending(t, f)
		f.lane.Produce(b)
		r := f.lane.Result()
		wantCode(t, r, wire.CodeSequenceConflict)
		if r.Code.Info().Retry {
			t.Error("a conflict stays one for ever")
		}
		isSaid := func(b []byte) bool { return strings.Contains(r.Detail, digestOf(t, b)) }
		if !isSaid(b) || !slices.ContainsFunc(stored, isSaid) {
			t.Errorf("the digests are not in %q", r.Detail)
		}
		f.wantLog(t, 2+behind)
		f.wantRetries(t, stored)
		f.stored(t, batchfmt.Seq(4+2*behind), 1)
	}
}

func digestOf(t *testing.T, b []byte) string {
	t.Helper()
	front, err := batchfmt.ParseFront(b)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%016x", uint64(front.Digest))
}

func shorter(t *testing.T) {
	wantConflict(t, func(t *testing.T, f *fixture) []byte { return f.batch(t, 2, two(2)[0]) })
}

func longer(t *testing.T) {
	wantConflict(t, func(t *testing.T, f *fixture) []byte { return f.batch(t, 2, append(two(2), "tail")...) })
}

func overlap(t *testing.T) {
	wantConflict(t, func(t *testing.T, f *fixture) []byte { return f.batch(t, 3, two(2)[1], "tail") })
}

func twoInOne(t *testing.T) {
	wantConflict(t, func(t *testing.T, f *fixture) []byte { return f.batch(t, 0, append(two(0), two(2)...)...) })
}

func otherPayload(t *testing.T) {
	wantConflict(t, func(t *testing.T, f *fixture) []byte { return f.batch(t, 2, "other", "content") })

	// When the original is gone, nobody can tell whether it was the same.
	f := setUp(t, servertest.Configure(func(c *server.Config) { c.SegmentBytes = 512 }))
	f.stored(t, 0, 12)
	f.restart(t, 23, func() {
		first := filepath.Join(f.partitionDir(), fmt.Sprintf("%020d", 0))
		if err := errors.Join(os.Remove(first+".seg"), os.Remove(first+".idx")); err != nil {
			t.Fatal(err)
		}
	})
	for _, values := range [][]string{two(0), {"other", "content"}} {
		f.lane.Produce(f.batch(t, 0, values...))
		r := f.lane.Result()
		if wantStored(t, r, -1, true); r.Verified {
			t.Error("a batch that was removed counts as compared")
		}
	}
	f.stored(t, 24, 1)
}

// partitionDir is where partition 0 of the topic has its files.
func (f *fixture) partitionDir() string {
	return filepath.Join(f.Data(), "topics", catalog.TopicID(f.topic.ID).String(), "0")
}

// sealed seals records with more to say about them than their values.
func (f *fixture) sealed(t *testing.T, seal batchfmt.Seal, records ...batchfmt.Record) []byte {
	t.Helper()
	var b batchfmt.Builder
	for i := range records {
		if err := b.Add(&records[i]); err != nil {
			t.Fatal(err)
		}
	}
	seal.ProducerID, seal.Epoch = f.p.ProducerID, f.p.Epoch
	sealed, err := b.Seal(nil, seal)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func encodedAnew(t *testing.T) {
	long := strings.Repeat("v", 400)
	record := batchfmt.Record{Timestamp: 1, Value: []byte(long)}
	later := batchfmt.Record{Timestamp: 2, Value: []byte(long)}
	f := setUp(t)
	original := f.batch(t, 0, long)
	f.lane.Produce(original)
	wantStored(t, f.lane.Result(), 0, false)
	for name, again := range map[string][]byte{
		"compressed":       f.sealed(t, batchfmt.Seal{Codec: batchfmt.CodecZstd}, record),
		"other timestamps": f.sealed(t, batchfmt.Seal{}, later),
	} {
		f.lane.Produce(again)
		if r := f.lane.Result(); r.Code != wire.CodeSequenceConflict {
			t.Errorf("%s: %v (%s)", name, r.Code, r.Detail)
		}
	}
	f.lane.Produce(original)
	wantStored(t, f.lane.Result(), 0, true)
	wantValues(t, f.c, f.topic, 0, long)
}

func gapInTheLane(t *testing.T) {
	f := setUp(t)
	f.stored(t, 0, 2)
	for _, base := range []batchfmt.Seq{5, 6, 1 << 40} {
		f.lane.Produce(f.batch(t, base, "late"))
		r := f.lane.Result()
		wantCode(t, r, wire.CodeOutOfOrder)
		if r.Expected != 4 || !r.Code.Info().Retry {
			t.Fatalf("expected %d, want 4, and it must be retriable", r.Expected)
		}
	}
	f.stored(t, 4, 1)
	f.wantLog(t, 3)
}

func impossibleNumbers(t *testing.T) {
	const count, sequence = 52, 88 // where they stand in a batch
	f := setUp(t)
	f.stored(t, 0, 1)
	rows := map[string]func(b []byte){
		"negative base":           func(b []byte) { binary.LittleEndian.PutUint64(b[sequence:], math.MaxUint64) },
		"base beyond the last":    func(b []byte) { binary.LittleEndian.PutUint64(b[sequence:], math.MaxInt64) },
		"no records":              func(b []byte) { binary.LittleEndian.PutUint32(b[count:], 0) },
		"more than may be":        func(b []byte) { binary.LittleEndian.PutUint32(b[count:], batchfmt.MaxRecordCount+1) },
		"negative count":          func(b []byte) { binary.LittleEndian.PutUint32(b[count:], math.MaxUint32) },
		"more than there are":     func(b []byte) { binary.LittleEndian.PutUint32(b[count:], 3) },
		"fewer than there are":    func(b []byte) { binary.LittleEndian.PutUint32(b[count:], 1) },
		"records that are broken": func(b []byte) { b[len(b)-1] ^= 0x40 },
	}
	for name, edit := range rows {
		b := f.batch(t, 2, two(2)...)
		edit(b)
		f.lane.Produce(reseal(b))
		if r := f.lane.Result(); r.Code != wire.CodeCorruptBatch {
			t.Errorf("%s: %v (%s)", name, r.Code, r.Detail)
		}
	}
	f.c.Ping(1)
	f.stored(t, 2, 1)
	f.wantLog(t, 2)
}

func clockSteps(t *testing.T) {
	f := setUp(t)
	var batches [][]byte
	var last int64
	for i, step := range []time.Duration{0, 25 * time.Hour, -50 * time.Hour, time.Second, -time.Second, 30 * 24 * time.Hour} {
		f.AdvanceClock(step)
		f.wantRetries(t, batches)
		b := f.batch(t, batchfmt.Seq(2*i), two(batchfmt.Seq(2*i))...)
		batches = append(batches, b)
		f.lane.Produce(b)
		r := f.lane.Result()
		wantStored(t, r, batchfmt.Offset(2*i), false)
		if r.AppendTime < last {
			t.Errorf("the append time fell by %d ms", last-r.AppendTime)
		}
		last = r.AppendTime
		f.c.Ping(uint64(i)) // no client was put out for it
	}
	if ahead := last - time.Now().UnixMilli(); ahead < int64(24*time.Hour/time.Millisecond) {
		t.Errorf("the append time does not follow the clock: %d ms ahead", ahead)
	}
	f.restart(t, 11, func() { f.AdvanceClock(-60 * 24 * time.Hour) })
	f.wantRetries(t, batches)
}

func recordTimes(t *testing.T) {
	f := setUp(t)
	var batches [][]byte
	for i, year := range []int{1970, 2100, 1900, 1970, 2100, 2026} {
		at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
		var records []batchfmt.Record
		for _, v := range two(batchfmt.Seq(2 * i)) {
			records = append(records, batchfmt.Record{Timestamp: at, Value: []byte(v)})
		}
		b := f.sealed(t, batchfmt.Seal{BaseSequence: batchfmt.Seq(2 * i)}, records...)
		batches = append(batches, b)
		f.lane.Produce(b)
		wantStored(t, f.lane.Result(), batchfmt.Offset(2*i), false)
		f.AdvanceClock(30 * time.Hour)
		f.wantRetries(t, batches)
	}
	f.restart(t, 11, nil)
	f.wantRetries(t, batches)
	f.wantLog(t, 6)
}

func limitLowered(t *testing.T) {
	f := setUp(t)
	large := string(make([]byte, 100<<10))
	b := f.batch(t, 0, large)
	f.lane.Produce(b)
	wantStored(t, f.lane.Result(), 0, false)
	least := uint32(catalog.MinBatchBytes)
	if m, ok := f.c.Request(&wire.AlterTopic{Name: "orders", MaxBatchBytes: &least}).(*wire.TopicAltered); !ok || m.Topic.MaxBatchBytes != least {
		t.Fatalf("alter: %+v", m)
	}
	f.lane.Produce(b)
	wantStored(t, f.lane.Result(), 0, true)
	f.lane.Produce(f.batch(t, 1, large))
	wantCode(t, f.lane.Result(), wire.CodeMessageTooLarge)
	f.lane.Produce(f.batch(t, 1, "small"))
	wantStored(t, f.lane.Result(), 1, false)
}

func lateRetry(t *testing.T) {
	f := setUp(t)
	now := batchfmt.Record{Timestamp: time.Now().UnixMilli(), Value: []byte("v0")}
	b := f.sealed(t, batchfmt.Seal{}, now)
	f.lane.Produce(b)
	wantStored(t, f.lane.Result(), 0, false)
	f.AdvanceClock(10 * 365 * 24 * time.Hour)
	f.c = rawclient.Dial(t, f.URL())
	f.lane = f.c.Lane(f.p, f.topic, 0, 0)
	f.lane.Produce(b)
	wantStored(t, f.lane.Result(), 0, true)
	wantValues(t, f.c, f.topic, 0, "v0")
}
