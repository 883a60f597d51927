package partition

import (
	"errors"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

func (b *bench) resolve(batch batchfmt.Batch, settle bool) (m *wire.Resolved, e *wire.Error) {
	done := make(chan struct{})
	b.p.Resolve(ResolveRequest{Batch: producerstate.IdentityOf(batch), Settle: settle, Reply: func(resolved *wire.Resolved, failure *wire.Error) {
		m, e = resolved, failure
		close(done)
	}})
	<-done
	return m, e
}

func (b *bench) wantResolved(batch batchfmt.Batch, settle bool, want wire.ResolveOutcome, offset batchfmt.Offset) {
	b.t.Helper()
	m, e := b.resolve(batch, settle)
	if e != nil {
		b.t.Fatalf("resolve: %v", e)
	}
	if m.Outcome != want || m.Offset != offset {
		b.t.Fatalf("resolve says %v at %d (%s), want %v at %d", m.Outcome, m.Offset, m.Detail, want, offset)
	}
}

func TestResolveAndSettle(t *testing.T) {
	fs := vfs.NewMem()
	b := openPartition(t, fs)
	b.openLane()
	for i := range batchfmt.Seq(8) {
		b.give(i, "v")
		b.wantStored(batchfmt.Offset(i), false)
	}
	b.wantResolved(sealed(t, 7, 6, "v"), false, wire.ResolveStored, 6)
	b.wantResolved(sealed(t, 7, 1, "v"), false, wire.ResolveStored, 1) // behind the window
	b.wantResolved(sealed(t, 7, 1, "w"), true, wire.ResolveNever, -1)
	b.wantResolved(sealed(t, 7, 6, "v", "w", "x"), true, wire.ResolveNever, -1)
	b.wantResolved(sealed(t, 7, 9, "v"), false, wire.ResolveNotYet, -1)
	b.wantResolved(sealed(t, 30, 0, "v"), false, wire.ResolveNotYet, -1)

	// To look changes nothing: the batch can still come in.
	b.give(8, "v")
	b.wantStored(8, false)

	// To settle keeps every copy out, whether the lane is known or not.
	b.wantResolved(sealed(t, 7, 9, "v"), true, wire.ResolveNever, -1)
	b.wantResolved(sealed(t, 30, 0, "v"), true, wire.ResolveNever, -1)
	late := func(b *bench) {
		t.Helper()
		b.give(9, "v")
		if r := <-b.sink; r.Code != wire.CodeInvalidProducerEpoch || r.Expected != 1 || !r.NotStored {
			t.Fatalf("a late copy is answered with %v, epoch %d", r.Code, r.Expected)
		}
		o, _, e := b.enter(30, 0)
		if e != nil {
			t.Fatal(e)
		}
		if r := b.send(o, 0, -1); r.Code != wire.CodeInvalidProducerEpoch || !r.NotStored {
			t.Fatalf("a late copy of a new lane is answered with %v", r.Code)
		}
		b.leave(o)
		b.give(8, "v")
		b.wantStored(8, true)
	}
	late(b)
	b.p.Abandon() // the fences are in the log, no snapshot is
	b = openPartition(t, fs)
	b.openLane()
	late(b)
	b.close()
	b = openPartition(t, fs)
	defer b.close()
	b.openLane()
	late(b)
	if end := b.p.HighWatermark(); end != 9 {
		t.Errorf("the log ends at %d", end)
	}
	out, next, e := b.p.Read(nil, 0, 1<<20)
	if e != nil || next != 9 || len(out) == 0 {
		t.Errorf("readers come to %d, %v", next, e)
	}
}

// A fence is worth nothing before it is durable.
func TestSettleWaitsForTheSync(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	b := openPartition(t, disk)
	defer b.close()
	disk.FailSync(1, errors.New("no"))
	if _, e := b.resolve(sealed(t, 7, 0, "v"), true); e == nil || e.Code != wire.CodeDurabilityUnknown {
		t.Fatalf("settled without a sync: %v", e)
	}
	if _, e := b.resolve(sealed(t, 7, 1, "v"), true); e == nil || e.Code.Info().Outcome == wire.Happened {
		t.Fatalf("the partition has stopped, and settles: %v", e)
	}
}

func TestSettleOnAFullDisk(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	b := openPartition(t, disk)
	defer b.close()
	b.openLane()
	disk.LimitSpace(0)
	if _, e := b.resolve(sealed(t, 7, 0, "v"), true); e == nil || e.Code != wire.CodeDiskFull {
		t.Fatalf("settled without room: %v", e)
	}
	disk.Heal()
	b.give(0, "v") // nothing is fenced
	b.wantStored(0, false)
}

// A batch that is on its way to the disk is neither stored nor not.
func TestResolveWhileTheSyncIsOn(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	b := openPartition(t, disk)
	defer b.close()
	b.openLane()
	gate, began := make(chan struct{}), make(chan struct{}, 10)
	disk.Observe(func(op vfs.Op, _ string) {
		if op == vfs.OpSync {
			began <- struct{}{}
			<-gate
		}
	})
	b.give(0, "v")
	<-began
	b.wantResolved(sealed(t, 7, 0, "v"), false, wire.ResolveInFlight, 0)
	settled, never := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(settled)
		b.wantResolved(sealed(t, 7, 0, "v"), true, wire.ResolveStored, 0)
	}()
	go func() {
		defer close(never)
		b.wantResolved(sealed(t, 7, 0, "w"), false, wire.ResolveNever, -1)
	}()
	select {
	case <-settled:
		t.Fatal("it was said to be stored while the sync was held")
	case <-never:
		t.Fatal("it was said not to be stored while the other batch was not durable")
	default:
	}
	close(gate)
	b.wantStored(0, false)
	<-settled
	<-never
}

// A retired lane answers as one in memory, and is fenced as one.
func TestResolveOfARetiredLane(t *testing.T) {
	fs := vfs.NewMem()
	b := openPartition(t, fs, few)
	for pid := batchfmt.ProducerID(1); pid <= 20; pid++ {
		b.visit(pid)
	}
	b.wantResolved(sealed(t, 1, 0, "v"), false, wire.ResolveStored, 0)
	b.wantResolved(sealed(t, 1, 0, "w"), false, wire.ResolveNever, -1)
	b.wantResolved(sealed(t, 2, 1, "v"), false, wire.ResolveNotYet, -1)
	if n := b.lanes(); n > 4 {
		t.Errorf("to look brought lanes back: %d", n)
	}
	b.wantResolved(sealed(t, 2, 1, "v"), true, wire.ResolveNever, -1)
	for range 2 {
		for pid := batchfmt.ProducerID(3); pid <= 12; pid++ { // it leaves again, with its fence
			b.wantRetry(pid, batchfmt.Offset(pid-1))
		}
		o, _, e := b.enter(2, 1)
		if e != nil {
			t.Fatal(e)
		}
		if r := b.send(o, 1, -1); r.Code != wire.CodeInvalidProducerEpoch || !r.NotStored {
			t.Fatalf("a late copy is answered with %v", r.Code)
		}
		b.leave(o)
		b.p.Abandon()
		b = openPartition(t, fs, few)
	}
	b.close()
}

func TestCloseProducer(t *testing.T) {
	fs := vfs.NewMem()
	b := openPartition(t, fs, few)
	end := func(pid batchfmt.ProducerID) {
		t.Helper()
		done := make(chan *wire.Error, 1)
		b.p.CloseProducer(pid, func(e *wire.Error) { done <- e })
		if e := <-done; e != nil {
			t.Fatalf("close producer %d: %v", pid, e)
		}
	}
	for pid := batchfmt.ProducerID(1); pid <= 4; pid++ {
		b.visit(pid)
	}
	end(3)
	end(3)
	end(40) // never here
	for range 2 {
		closed := make(chan bool, 1)
		b.p.do(func() { closed <- b.p.owner.state.Lane(3).Closed() })
		if !<-closed {
			t.Fatal("the lane is not closed")
		}
		b.p.Abandon()
		b = openPartition(t, fs, few)
	}
	defer b.close()
	b.visit(5)
	gone := make(chan bool, 1)
	b.p.do(func() { gone <- b.p.owner.state.Lane(3) == nil })
	if !<-gone {
		t.Error("the closed lane did not leave first")
	}
}
