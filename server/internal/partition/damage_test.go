package partition

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// write fills the lane of producer 7 with n batches and closes the partition.
func write(t *testing.T, fs vfs.FS, n int) {
	t.Helper()
	b := openPartition(t, fs)
	b.openLane()
	for i := range n {
		b.give(batchfmt.Seq(i), "v")
		b.wantStored(batchfmt.Offset(i), false)
	}
	b.close()
}

func removeSnapshots(t *testing.T, fs vfs.FS) {
	t.Helper()
	names, err := snapshots(fs, dir)
	must(t, err)
	for _, name := range names {
		must(t, fs.Remove(filepath.Join(dir, name)))
	}
}

func TestDamageIsPutAside(t *testing.T) {
	fs := vfs.NewMem()
	write(t, fs, 12)
	removeSnapshots(t, fs)
	flipBatch(t, fs, 3)
	b := openPartition(t, fs)
	defer b.close()
	if !strings.Contains(b.logs.String(), "damaged") {
		t.Error("nobody shouts")
	}
	// The rest is read as ever, and who comes upon the damage is told where to go on.
	out, next, e := b.p.Read(nil, 0, 1<<20)
	if e != nil || next != 3 {
		t.Fatalf("read %d bytes up to %d, %v", len(out), next, e)
	}
	if _, _, e := b.p.Read(nil, 3, 1<<20); e == nil || e.Code != wire.CodeCorruptBatch || e.Expected != 4 {
		t.Fatalf("read of the damage: %v, next %d", e, e.Expected)
	}
	if _, next, e := b.p.Read(nil, 4, 1<<20); e != nil || next != 12 {
		t.Fatalf("read behind the damage up to %d, %v", next, e)
	}
	// The lane goes on behind it, so it is known what it had in there.
	if m := b.openLane(); m.LastSequence != 11 {
		t.Fatalf("the lane is at %d", m.LastSequence)
	}
	b.give(3, "v")
	if r := <-b.sink; r.Code != wire.CodeBatchUnreadable || r.BaseOffset != 3 {
		t.Fatalf("the retry of a damaged batch: %v at %d", r.Code, r.BaseOffset)
	}
	b.give(2, "v")
	b.wantStored(2, true)
	b.give(12, "w")
	b.wantStored(12, false)
}

// A lane whose last batches may have been lost is not taken for one that ends before
// them, and a producer that may have been lost as a whole is not taken for a new one.
func TestDamageAtTheEndOfALane(t *testing.T) {
	fs := vfs.NewMem()
	write(t, fs, 4)
	// Another producer's batch behind it proves that what is damaged was durable.
	b := openPartition(t, fs)
	other := NewGrant(8, 0)
	opened := make(chan struct{})
	lane := b.p.OpenLane(OpenRequest{Grant: other, Reply: func(*wire.LaneOpened, *wire.Error) { close(opened) }})
	<-opened
	for i := range 2 {
		pr := Produce{Opening: lane, Batch: sealed(t, 8, batchfmt.Seq(i), "v"), Sink: b.sink, Confirmed: -1}
		if e := b.p.Produce(pr); e != nil {
			t.Fatal(e)
		}
		b.wantStored(batchfmt.Offset(4+i), false)
	}
	b.close()
	removeSnapshots(t, fs)
	flipBatch(t, fs, 3)

	for range 2 { // the next start knows it as well
		b = openPartition(t, fs)
		if m := b.openLane(); m.LastSequence != 2 {
			t.Fatalf("the lane is at %d", m.LastSequence)
		}
		b.give(3, "v")
		b.wantCode(wire.CodeUnknownOutcome)
		b.give(2, "v")
		b.wantStored(2, true)
		if m, e := openAs(b, 30); e == nil {
			t.Errorf("producer 30, who may have been lost, was opened at %d", m.LastSequence)
		} else if e.Code != wire.CodeUnknownProducerID {
			t.Errorf("producer 30 was refused with %v", e)
		}
		if _, e := openAs(b, 51); e != nil {
			t.Errorf("producer 51, who came after the loss, was refused: %v", e)
		}
		b.close()
	}
}

// openAs opens a lane for a producer that has sent something before.
func openAs(b *bench, pid batchfmt.ProducerID) (m *wire.LaneOpened, e *wire.Error) {
	sent := batchfmt.Seq(0)
	done := make(chan struct{})
	o := b.p.OpenLane(OpenRequest{Grant: NewGrant(pid, 0), Sent: &sent, Reply: func(opened *wire.LaneOpened, failure *wire.Error) {
		m, e = opened, failure
		close(done)
	}})
	<-done
	b.p.CloseLane(o, func() {})
	return m, e
}

func TestScrubFindsDamageBeforeAReader(t *testing.T) {
	fs := vfs.NewMem()
	b := openPartition(t, fs)
	defer b.close()
	b.openLane()
	for i := range 12 {
		b.give(batchfmt.Seq(i), "v")
		b.wantStored(batchfmt.Offset(i), false)
	}
	if err := b.p.Scrub(context.Background(), 1<<30); err != nil || len(b.p.Damaged()) != 0 {
		t.Fatalf("a sound log: %v, %v", b.p.Damaged(), err)
	}
	flipBatch(t, fs, 5)
	if err := b.p.Scrub(context.Background(), 1<<30); err != nil {
		t.Fatal(err)
	}
	if d := b.p.Damaged(); len(d) != 1 || d[0].From != 5 || d[0].Next != 6 || !strings.Contains(b.logs.String(), "damaged") {
		t.Fatalf("found %+v, said %q", d, b.logs.String())
	}
	if _, _, e := b.p.Read(nil, 5, 100); e == nil || e.Code != wire.CodeCorruptBatch || e.Expected != 6 {
		t.Fatalf("a reader is told %v", e)
	}
}
