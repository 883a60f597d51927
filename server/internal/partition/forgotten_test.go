package partition

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// forgetful gives room for four lanes in memory and eight rows on disk.
func forgetful(c *Config) {
	few(c)
	c.MaxRetired = 8
	c.LastProducerID = func() (batchfmt.ProducerID, error) { return 10_000, nil }
}

// tiny segments hold seven small batches.
func tiny(c *Config) { c.Log.SegmentBytes = 1000 }

// theirs is how many batches the forgotten producer of these tests has written, each of one
// record, at the offsets of their sequences.
const theirs = 9

// writeAndForget lets producer 1 write, then do something more, and be forgotten.
func writeAndForget(b *bench, more func()) {
	b.t.Helper()
	o, _, e := b.enter(1, -1)
	if e != nil {
		b.t.Fatal(e)
	}
	for seq := range batchfmt.Seq(theirs) {
		if r := b.send(o, seq, -1); r.Code != wire.CodeOK || r.BaseOffset != batchfmt.Offset(seq) {
			b.t.Fatalf("sequence %d: %v at %d", seq, r.Code, r.BaseOffset)
		}
	}
	b.leave(o)
	more()
	b.forget(1)
}

// forget lets others come and go until nothing is left of a producer but what is in the log.
func (b *bench) forget(pid batchfmt.ProducerID) {
	b.t.Helper()
	for other := batchfmt.ProducerID(100); b.remembers(pid); other++ {
		if other == 300 {
			b.t.Fatal("it is not forgotten")
		}
		b.visit(other)
	}
}

func (b *bench) remembers(pid batchfmt.ProducerID) bool {
	d := make(chan wire.ProducersDescribed, 1)
	b.p.DescribeProducers(&wire.DescribeProducers{ProducerID: pid}, func(all wire.ProducersDescribed, e *wire.Error) {
		if e != nil {
			b.t.Errorf("describe producer %d: %v", pid, e)
		}
		d <- all
	})
	return len((<-d).Lanes) > 0
}

// as opens the lane of a producer that says it has sent nothing. That is how one gets in who
// was forgotten.
func (b *bench) as(pid batchfmt.ProducerID) *Opening {
	b.t.Helper()
	o, m, e := b.enter(pid, -1)
	if e != nil || m.LastSequence != -1 {
		b.t.Fatalf("producer %d is opened at %+v, %v", pid, m, e)
	}
	return o
}

// try sends any batch of a lane.
func (b *bench) try(o *Opening, base batchfmt.Seq, values ...string) wire.ProduceResult {
	b.t.Helper()
	pr := Produce{Opening: o, Batch: sealed(b.t, o.ProducerID(), base, values...), Sink: b.sink, Confirmed: -1}
	if e := b.p.Produce(pr); e != nil {
		b.t.Fatal(e)
	}
	return <-b.sink
}

// wantTried expects an answer, and that nothing is appended whatever it is.
func (b *bench) wantTried(o *Opening, code wire.Code, offset batchfmt.Offset, base batchfmt.Seq, values ...string) {
	b.t.Helper()
	end := b.p.HighWatermark()
	r := b.try(o, base, values...)
	if r.Code != code || r.BaseOffset != offset || r.Code == wire.CodeOK && (!r.Duplicate || !r.Verified) {
		b.t.Errorf("%v from sequence %d: %v (%s) at %d, duplicate %v, want %v at %d", values, base, r.Code, r.Detail, r.BaseOffset, r.Duplicate, code, offset)
	}
	if now := b.p.HighWatermark(); now != end {
		b.t.Errorf("%v from sequence %d: the end has moved from %d to %d", values, base, end, now)
	}
}

// wantProven expects that all is told of producer 1 that the log proves, and that nothing is
// taken of it.
func (b *bench) wantProven() {
	b.t.Helper()
	o := b.as(1)
	for seq := range batchfmt.Seq(theirs) {
		b.wantTried(o, wire.CodeOK, batchfmt.Offset(seq), seq, "v")
		b.wantTried(o, wire.CodeSequenceConflict, -1, seq, "w")
	}
	b.wantTried(o, wire.CodeSequenceConflict, -1, 3, "v", "v")
	b.wantTried(o, wire.CodeSequenceConflict, -1, theirs-1, "v", "v") // out of what is stored
	b.wantTried(o, wire.CodeUnknownProducerID, -1, theirs, "v")
	b.wantTried(o, wire.CodeUnknownProducerID, -1, theirs+7, "v")
	b.leave(o)
	for _, settle := range []bool{false, true} {
		b.wantResolved(sealed(b.t, 1, 5, "v"), settle, wire.ResolveStored, 5)
		b.wantResolved(sealed(b.t, 1, 5, "w"), settle, wire.ResolveNever, -1)
		b.wantResolved(sealed(b.t, 1, theirs, "v"), settle, wire.ResolveUnknowable, -1)
		for _, values := range [][]string{{"v"}, {"w"}} {
			// Who is told less takes all that it has sent for "not stored".
			if m, _ := b.resolve(sealed(b.t, 1, 5, values...), settle); m.LastSequence != 5 {
				b.t.Errorf("%v: the lane is said to end with %d", values, m.LastSequence)
			}
		}
	}
	if _, _, e := b.enter(1, theirs-1); e == nil || e.Code != wire.CodeUnknownProducerID {
		b.t.Errorf("where the lane stands is not known, and it is opened: %v", e)
	}
}

// TestForgottenButStored: the row is gone, and the log tells what it has.
func TestForgottenButStored(t *testing.T) {
	rows := []struct {
		name  string
		log   func(*Config)
		again bool // after a stop
		harm  func(t *testing.T, fs vfs.FS)
	}{
		{"in the active segment", func(*Config) {}, false, nil},
		{"in segments before it", tiny, false, nil},
		{"in the active segment, after a restart", func(*Config) {}, true, nil},
		{"in segments before it, after a restart", tiny, true, nil},
		{"without any index", tiny, true, func(t *testing.T, fs vfs.FS) {
			for _, name := range indexFiles(t, fs) {
				must(t, fs.Remove(name))
			}
		}},
		{"with indexes whose blocks have rotted", tiny, true, func(t *testing.T, fs vfs.FS) {
			for _, name := range indexFiles(t, fs) {
				flipByte(t, fs, name, blocksOf(t, fs, name)+3)
			}
		}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			fs := vfs.NewMem()
			b := openPartition(t, fs, forgetful, row.log)
			writeAndForget(b, func() {})
			if row.again {
				b.close()
				if row.harm != nil {
					row.harm(t, fs)
				}
				b = openPartition(t, fs, forgetful, row.log)
			}
			b.wantProven()
			b.close()
		})
	}
}

// blocksOf is where in a producer index the blocks begin, behind a header with meta: they are not
// looked at before a look-up comes to them.
func blocksOf(t *testing.T, fs vfs.FS, name string) int64 {
	t.Helper()
	f, err := fs.Open(name)
	must(t, err)
	var meta [4]byte
	_, err = f.ReadAt(meta[:], 8)
	must(t, err)
	must(t, f.Close())
	return 64 + int64(binary.LittleEndian.Uint32(meta[:])) + 8
}

// flipByte damages a byte of a file.
func flipByte(t *testing.T, fs vfs.FS, name string, at int64) {
	t.Helper()
	f, err := fs.Open(name)
	must(t, err)
	var c [1]byte
	_, err = f.ReadAt(c[:], at)
	must(t, err)
	c[0] ^= 0xff
	_, err = f.WriteAt(c[:], at)
	must(t, err)
	must(t, f.Close())
}

// An index that goes bad while it is in use is made again: the retry is not sent away for ever.
func TestForgottenAndAnIndexThatRots(t *testing.T) {
	fs := vfs.NewMem()
	b := openPartition(t, fs, forgetful, tiny)
	defer b.close()
	writeAndForget(b, func() {})
	b.wantProven() // all indexes are ready
	for _, name := range indexFiles(t, fs) {
		size, err := fs.Stat(name)
		must(t, err)
		for at := blocksOf(t, fs, name); at < size; at += 64 {
			flipByte(t, fs, name, at)
		}
	}
	b.wantProven()
}

// After a crash the log is read again, and the lane with it as far as that goes: whatever is
// known then, retries are answered alike.
func TestForgottenAndACrash(t *testing.T) {
	for _, log := range []func(*Config){func(*Config) {}, tiny} {
		fs := vfs.NewMem()
		b := openPartition(t, fs, forgetful, log)
		writeAndForget(b, func() {})
		b.p.Abandon()
		b = openPartition(t, fs.CrashClone(), forgetful, log)
		o, _, _ := b.enter(1, theirs-1)
		b.leave(o)
		if o, _, e := b.enter(1, theirs-1); e == nil {
			for seq := range batchfmt.Seq(theirs) {
				b.wantTried(o, wire.CodeOK, batchfmt.Offset(seq), seq, "v")
				b.wantTried(o, wire.CodeSequenceConflict, -1, seq, "w")
			}
			b.leave(o)
			b.forget(1)
		}
		b.wantProven()
		b.close()
	}
}

// What no index tells is that a fence has passed, or that the producer has ended its lane. So
// what would be next is not taken, and not called final either.
func TestForgottenBehindAFence(t *testing.T) {
	late := sealed(t, 1, theirs, "v")
	rows := []struct {
		name string
		more func(b *bench)
	}{
		{"a fence", func(b *bench) { b.wantResolved(late, true, wire.ResolveNever, -1) }},
		{"a close", func(b *bench) {
			done := make(chan *wire.Error, 1)
			b.p.CloseProducer(1, func(e *wire.Error) { done <- e })
			if e := <-done; e != nil {
				t.Fatal(e)
			}
		}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			fs := vfs.NewMem()
			b := openPartition(t, fs, forgetful, tiny)
			writeAndForget(b, func() { row.more(b) })
			for range 2 {
				b.wantProven()
				b.close()
				b = openPartition(t, fs, forgetful, tiny)
			}
			b.close()
		})
	}
}

// A fence is all that there is of the lane: the batch that it keeps out must not come in.
func TestForgottenFenceAlone(t *testing.T) {
	b := openPartition(t, vfs.NewMem(), forgetful)
	defer b.close()
	first := sealed(t, 1, 0, "v")
	b.wantResolved(first, true, wire.ResolveNever, -1)
	b.forget(1)
	o := b.as(1)
	b.wantTried(o, wire.CodeUnknownProducerID, -1, 0, "v")
	b.leave(o)
	b.wantResolved(first, true, wire.ResolveUnknowable, -1)
}

// What is removed from the start of the log is not known any more, and not taken for new; what
// is left is.
func TestForgottenAndRemoved(t *testing.T) {
	fs := vfs.NewMem()
	b := openPartition(t, fs, forgetful, tiny)
	writeAndForget(b, func() {})
	second := b.p.log.Segments()[1].Base
	b.close()
	for _, ext := range []string{"seg", "idx", "pix"} {
		must(t, fs.Remove(filepath.Join(dir, fmt.Sprintf("%020d.%s", 0, ext))))
	}
	b = openPartition(t, fs, forgetful, tiny)
	defer b.close()
	if start := b.p.LogStart(); start != second || start >= theirs {
		t.Fatalf("the log starts at %d", start)
	}
	o := b.as(1)
	for seq := range batchfmt.Seq(theirs) {
		if batchfmt.Offset(seq) < second {
			b.wantTried(o, wire.CodeUnknownProducerID, -1, seq, "v")
			b.wantTried(o, wire.CodeUnknownProducerID, -1, seq, "w")
			continue
		}
		b.wantTried(o, wire.CodeOK, batchfmt.Offset(seq), seq, "v")
		b.wantTried(o, wire.CodeSequenceConflict, -1, seq, "w")
	}
	edge := batchfmt.Seq(second) - 1
	b.wantTried(o, wire.CodeSequenceConflict, -1, edge, "v", "v") // from what is removed into what is left
	b.wantTried(o, wire.CodeUnknownProducerID, -1, theirs, "v")
	b.leave(o)
	b.wantResolved(sealed(t, 1, edge, "v"), true, wire.ResolveUnknowable, -1)
}

// Of a batch that cannot be read its digest may be left, which proves that it was stored. Where
// that is gone too nothing is claimed.
func TestForgottenAndDamaged(t *testing.T) {
	size := int64(sealed(t, 1, 0, "v").Size())
	for _, row := range []struct {
		name string
		at   int64 // in the batch
		code wire.Code
		from batchfmt.Offset
		fate wire.ResolveOutcome
	}{
		{"the records", size - 1, wire.CodeBatchUnreadable, 4, wire.ResolveStored},
		{"the front", 20, wire.CodeUnknownProducerID, -1, wire.ResolveUnknowable},
	} {
		t.Run(row.name, func(t *testing.T) {
			fs := vfs.NewMem()
			b := openPartition(t, fs, forgetful, tiny)
			writeAndForget(b, func() {})
			b.close()
			flipByte(t, fs, filepath.Join(dir, fmt.Sprintf("%020d.seg", 0)), segmentHeader+4*size+row.at)
			b = openPartition(t, fs, forgetful, tiny)
			defer b.close()
			o := b.as(1)
			for range 2 { // the second time it is known that the place is bad
				b.wantTried(o, row.code, row.from, 4, "v")
				b.wantTried(o, wire.CodeUnknownProducerID, -1, 4, "w")
				b.wantTried(o, wire.CodeOK, 3, 3, "v")
				b.wantTried(o, wire.CodeOK, 5, 5, "v")
			}
			b.leave(o)
			b.wantResolved(sealed(t, 1, 4, "v"), true, row.fate, row.from)
			b.wantResolved(sealed(t, 1, 4, "w"), true, wire.ResolveUnknowable, -1)
		})
	}
}

// A disk that does not read is no answer.
func TestForgottenAndUnread(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	b := openPartition(t, disk, forgetful, tiny)
	defer b.close()
	writeAndForget(b, func() {})
	b.wantProven() // all indexes are ready
	disk.Fail(vfs.OpRead, 0, 1, syscall.EIO)
	o := b.as(1)
	b.wantTried(o, wire.CodeLookUpFailed, -1, 2, "v")
	b.wantTried(o, wire.CodeOK, 2, 2, "v")
	b.leave(o)
}

// Producers that were never here, with ids that may have been forgotten, cost next to nothing,
// however long the log is.
func TestUnknownProducersReadNoFiles(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	b := openPartition(t, disk, forgetful, tiny)
	defer b.close()
	writeAndForget(b, func() {})
	for other := batchfmt.ProducerID(500); len(b.p.log.Segments()) < 40; other++ {
		b.visit(other)
	}
	strangers := func(from batchfmt.ProducerID) {
		for pid := from; pid < from+20; pid++ {
			o := b.as(pid)
			b.wantTried(o, wire.CodeUnknownProducerID, -1, 0, "v")
			b.leave(o)
		}
	}
	strangers(20) // the first one makes the indexes ready
	var reads atomic.Int64
	disk.Observe(func(op vfs.Op, name string) {
		if op == vfs.OpRead || op == vfs.OpOpen {
			reads.Add(1)
		}
	})
	strangers(40)
	disk.Observe(nil)
	// A filter is wrong about one in eighty: 20 of them at 40 segments are 800 filters.
	if n := reads.Load(); n > 60 {
		t.Errorf("%d calls of the disk", n)
	}
}

// No more than a few look-ups run at once, and the owner waits for none of them.
func TestForgottenLanesAreBounded(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	b := openPartition(t, disk, func(c *Config) { forgetful(c); c.Producers = producerstate.Limits{MaxLanes: 16} }, tiny)
	defer b.close()
	const lanes = maxSearches + 3
	for pid := batchfmt.ProducerID(1); pid <= lanes; pid++ {
		b.visit(pid)
	}
	b.forget(lanes)
	held := make([]*Opening, lanes)
	for i := range held {
		held[i] = b.as(batchfmt.ProducerID(1 + i))
	}
	other := b.as(400)
	// Every index must be in its file and open: while one is made, all others who need it wait.
	if _, err := b.p.Versions(); err != nil {
		t.Fatal(err)
	}
	gate, began := make(chan struct{}), make(chan struct{}, 1000)
	disk.Observe(func(op vfs.Op, name string) {
		if op == vfs.OpRead && filepath.Ext(name) == ".pix" {
			began <- struct{}{}
			<-gate
		}
	})
	give := func(o *Opening, base batchfmt.Seq) {
		t.Helper()
		if e := b.p.Produce(Produce{Opening: o, Batch: sealed(t, o.ProducerID(), base, "v"), Sink: b.sink, Confirmed: -1}); e != nil {
			t.Fatal(e)
		}
	}
	for _, o := range held {
		give(o, 0)
		give(o, 1) // waits behind it
	}
	for range maxSearches {
		<-began
	}
	give(other, 0)
	if r := <-b.sink; r.Code != wire.CodeOK || r.Duplicate {
		t.Errorf("another lane, meanwhile: %v", r.Code)
	}
	running := make(chan int, 1)
	b.p.do(func() { running <- b.p.owner.searching })
	if n := <-running; n != maxSearches {
		t.Errorf("%d look-ups run at once", n)
	}
	disk.Observe(nil)
	close(gate)
	stored, unknown := 0, 0
	for range 2 * lanes {
		switch r := <-b.sink; {
		case r.BaseSequence == 0 && r.Code == wire.CodeOK && r.Duplicate:
			stored++
		case r.BaseSequence == 1 && r.Code == wire.CodeUnknownProducerID:
			unknown++
		default:
			t.Errorf("sequence %d: %v (%s)", r.BaseSequence, r.Code, r.Detail)
		}
	}
	if stored != lanes || unknown != lanes {
		t.Errorf("%d duplicates and %d unknown", stored, unknown)
	}
}
