package partition

import (
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// Somebody asks for the indexes when the log has begun a segment and the owner has not taken
// note of it yet: the index of that segment must not stay what it was then.
func TestIndexOfASegmentThatIsJustBegun(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	b := openPartition(t, disk, tiny)
	defer b.close()
	o, _, e := b.enter(1, -1)
	if e != nil {
		t.Fatal(e)
	}
	var first atomic.Value // name of the segment that was there first
	var looked atomic.Bool
	first.Store(filepath.Base(filepath.Join(dir, "00000000000000000000.seg")))
	disk.Observe(func(op vfs.Op, name string) {
		if op != vfs.OpWrite || filepath.Ext(name) != ".seg" || filepath.Base(name) == first.Load() || b.p.log.ActiveBase() == 0 {
			return
		}
		if looked.Swap(true) {
			return
		}
		if _, err := b.p.Versions(); err != nil { // as quoin topic describe does, or any look-up
			t.Error(err)
		}
	})
	for seq := batchfmt.Seq(0); len(b.p.log.Segments()) < 4; seq++ {
		if r := b.send(o, seq, -1); r.Code != wire.CodeOK {
			t.Fatal(r.Code)
		}
	}
	if !looked.Load() {
		t.Fatal("nobody looked")
	}
	segments := b.p.log.Segments()
	for _, s := range segments[:3] {
		indexes, err := b.p.indexesOf(s)
		must(t, err)
		at, found, err := b.p.findInSegment(s, 1, []batchfmt.Seq{batchfmt.Seq(s.Base)})
		if err != nil || !found {
			t.Errorf("segment %d up to %d: sequence %d is not in its index: %v, %+v, %v", s.Base, s.Next, s.Base, found, at, err)
		}
		if indexes[0].Versions() == 0 {
			t.Errorf("segment %d: it holds no version", s.Base)
		}
	}
	if f, err := b.p.findProven(identityAt(t, 1, batchfmt.Seq(segments[1].Base))); err != nil || f.Found == 0 || f.Base != batchfmt.Seq(segments[1].Base) {
		t.Errorf("what stands there is not proven: %+v, %v", f, err)
	}
}

func identityAt(t *testing.T, pid batchfmt.ProducerID, seq batchfmt.Seq) producerstate.Identity {
	return producerstate.IdentityOf(sealed(t, pid, seq, "v"))
}

// The last batch of a lane is stored and durable, its records rot, and its producer goes on at the
// server's end under the next epoch (ContinueAfterLoss). Who asks what became of the first batch must
// not hear that it was never stored: its front, with its digest, is there.
func TestNeverIsNotSaidOfWhatIsDamaged(t *testing.T) {
	fs := vfs.NewMem()
	b := openPartition(t, fs, forgetful)
	o, _, _ := b.enter(1, -1)
	for seq := range batchfmt.Seq(4) {
		if r := b.send(o, seq, -1); r.Code != wire.CodeOK {
			t.Fatal(r.Code)
		}
	}
	b.leave(o)
	other, _, _ := b.enter(8, -1) // what it writes proves that the batch was durable
	for seq := range batchfmt.Seq(2) {
		b.send(other, seq, -1)
	}
	b.leave(other)
	b.close()
	removeSnapshots(t, fs)
	size := int64(sealed(t, 1, 0, "v").Size())
	flipByte(t, fs, filepath.Join(dir, "00000000000000000000.seg"), segmentHeader+4*size-1)
	b = openPartition(t, fs, forgetful)
	defer b.close()
	lost := sealed(t, 1, 3, "v")
	said := func(when string) {
		m, e := b.resolve(lost, false)
		if e != nil {
			t.Fatal(e)
		}
		if m.Outcome == wire.ResolveNever {
			t.Errorf("%s: a batch that was stored is said never to have been: %s", when, m.Detail)
		}
	}
	said("after the damage")
	before, _, _ := b.enter(1, 3) // under the first epoch: so it learns of the loss
	b.leave(before)
	opened := make(chan *wire.LaneOpened, 1)
	lane := b.p.OpenLane(OpenRequest{Grant: NewGrant(1, 1), Epoch: 1, Fresh: true, Reply: func(m *wire.LaneOpened, e *wire.Error) {
		if e != nil {
			t.Error(e)
		}
		opened <- m
	}})
	if m := <-opened; m.LastSequence != 2 {
		t.Fatalf("it goes on behind %d", m.LastSequence)
	}
	if e := b.p.Produce(Produce{Opening: lane, Batch: sealedUnder(t, 1, 1, 3), Sink: b.sink, Confirmed: 3}); e != nil {
		t.Fatal(e)
	}
	if r := <-b.sink; r.Code != wire.CodeOK || r.Duplicate {
		t.Fatalf("%+v", r)
	}
	said("when the lane has gone on")
	b.leave(lane)
	for newcomer := batchfmt.ProducerID(20_000); b.remembers(1) && newcomer < 20_300; newcomer++ {
		b.visit(newcomer)
	}
	said("when it is forgotten")
}
