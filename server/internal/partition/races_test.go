package partition

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// A producer that says twice that it is done must not be told so before the log says it.
func TestSecondCloseProducerWaitsForTheFirst(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	b := openPartition(t, disk)
	defer b.close()
	b.openLane()
	b.give(0, "v")
	b.wantStored(0, false)
	gate, began := make(chan struct{}), make(chan struct{}, 10)
	disk.Observe(func(op vfs.Op, _ string) {
		if op == vfs.OpSync {
			began <- struct{}{}
			<-gate
		}
	})
	first, second := make(chan *wire.Error, 1), make(chan *wire.Error, 1)
	b.p.CloseProducer(7, func(e *wire.Error) { first <- e })
	<-began
	b.p.CloseProducer(7, func(e *wire.Error) { second <- e })
	decided := make(chan struct{})
	b.p.do(func() { close(decided) })
	<-decided
	select {
	case <-second:
		t.Error("the second was answered while the sync of the close was held")
	default:
	}
	close(gate)
	if e := <-first; e != nil {
		t.Error(e)
	}
}

// A lane whose newest row is lost has an older one, which is marked. What it stored since under
// a higher epoch must not be stored again.
func TestLostRowOfAHigherEpochStoresNothingTwice(t *testing.T) {
	for _, settledOnly := range []bool{false, true} {
		fs := vfs.NewMem()
		b := openPartition(t, fs, few)
		for pid := batchfmt.ProducerID(1); pid <= 8; pid++ {
			b.visit(pid) // the row of 1 says: last sequence 0, epoch 0
		}
		before, err := fs.List(dir)
		must(t, err)
		o, _, e := b.enter(1, 0)
		if e != nil {
			t.Fatal(e)
		}
		b.wantResolved(sealed(t, 1, 1, "x"), true, wire.ResolveNever, -1) // a fence for epoch 1
		if settledOnly {
			b.wantResolved(sealedUnder(t, 1, 1, 1), true, wire.ResolveNever, -1) // and for epoch 2
		} else {
			o.grant.Raise(1)
			b.produceUnder(o, 1)
			b.wantStored(8, false)
		}
		b.leave(o)
		for pid := batchfmt.ProducerID(9); pid <= 14; pid++ {
			b.visit(pid) // 1 leaves again
		}
		end := b.p.HighWatermark()
		b.close()
		names, err := fs.List(dir)
		must(t, err)
		for _, name := range names { // what was written since is lost
			if strings.HasSuffix(name, ".tab") && !contains(before, name) {
				must(t, fs.Remove(filepath.Join(dir, name)))
			}
		}
		b = openPartition(t, fs, few)
		done := make(chan *wire.Error, 1)
		o = b.p.OpenLane(OpenRequest{Grant: NewGrant(1, 2), Epoch: 2, Fresh: true, Reply: func(m *wire.LaneOpened, e *wire.Error) {
			t.Logf("opened: %+v, %v", m, e)
			done <- e
		}})
		<-done
		b.produceUnder(o, 1)
		if r := <-b.sink; r.Code == wire.CodeOK && !r.Duplicate || b.p.HighWatermark() != end {
			t.Errorf("settled only %v: the batch was appended at %d, %v; the log ended at %d", settledOnly, r.BaseOffset, r.Code, end)
		}
		b.close()
	}
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

func sealedUnder(t *testing.T, pid batchfmt.ProducerID, epoch batchfmt.Epoch, base batchfmt.Seq) batchfmt.Batch {
	t.Helper()
	var builder batchfmt.Builder
	must(t, builder.Add(&batchfmt.Record{Value: []byte("v")}))
	raw, err := builder.Seal(nil, batchfmt.Seal{ProducerID: pid, BaseSequence: base, Epoch: epoch})
	must(t, err)
	b, err := batchfmt.Parse(raw)
	must(t, err)
	return b
}

func (b *bench) produceUnder(o *Opening, epoch batchfmt.Epoch) {
	b.t.Helper()
	if e := b.p.Produce(Produce{Opening: o, Batch: sealedUnder(b.t, 1, epoch, 1), Sink: b.sink, Confirmed: -1}); e != nil {
		b.t.Fatal(e)
	}
}

// An opening that waits for room must not take the lane from one that was asked for after it.
func TestOpeningThatWaitsForRoomIsNotTheNewest(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	b := openPartition(t, disk, few)
	for pid := batchfmt.ProducerID(1); pid <= 2; pid++ {
		b.visit(pid) // these may leave
	}
	var guests []*Opening
	for pid := batchfmt.ProducerID(3); pid <= 4; pid++ {
		o, _, e := b.enter(pid, -1) // these hold places of their own, and have stored nothing
		if e != nil {
			t.Fatal(e)
		}
		guests = append(guests, o)
	}
	pass, came := make(chan struct{}), make(chan struct{}, 100)
	disk.Observe(func(op vfs.Op, name string) {
		if op == vfs.OpCreate && strings.Contains(name, "retired.head") {
			came <- struct{}{}
			<-pass
		}
	})
	open := func() (*Opening, chan *wire.Error) {
		done := make(chan *wire.Error, 1)
		o := b.p.OpenLane(OpenRequest{Grant: NewGrant(5, 0), Fresh: true, Reply: func(_ *wire.LaneOpened, e *wire.Error) { done <- e }})
		return o, done
	}
	_, olderDone := open() // an old stream, whose end is not known yet
	<-came
	b.leave(guests[0]) // a place is free, and nobody who waits is told
	newer, newerDone := open()
	asked := make(chan struct{})
	b.p.do(func() { close(asked) })
	<-asked
	disk.Observe(nil)
	close(pass)
	<-olderDone
	if e := <-newerDone; e != nil {
		t.Fatal(e)
	}
	pr := Produce{Opening: newer, Batch: sealed(t, 5, 0, "v"), Sink: b.sink, Confirmed: -1}
	if e := b.p.Produce(pr); e != nil {
		t.Fatal(e)
	}
	if r := <-b.sink; r.Code != wire.CodeOK {
		t.Errorf("the batch of the newest stream is answered with %v %s", r.Code, r.Detail)
	}
	b.leave(guests[1])
	b.close()
}
