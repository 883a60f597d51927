package partition

import (
	"testing"
	"testing/synctest"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// stuck gives a partition with a look-up of lane 7 that does not come back before gate closes.
func stuck(t *testing.T, edit ...func(*Config)) (b *bench, gate chan struct{}) {
	disk := vfs.NewFaulty(vfs.NewMem())
	b = openPartition(t, disk, edit...)
	b.openLane()
	for i := range 8 {
		b.give(batchfmt.Seq(i), "v")
		b.wantStored(batchfmt.Offset(i), false)
	}
	gate = make(chan struct{})
	disk.Observe(func(op vfs.Op, _ string) {
		if op == vfs.OpRead {
			<-gate
		}
	})
	b.give(1, "v") // behind the window: looked up
	synctest.Wait()
	return b, gate
}

// A producer that is closed while a look-up of its lane is on, and then the topic goes or the
// server stops: panic: send on closed channel, in the owner.
func TestCloseProducerHeldAtShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, gate := stuck(t)
		done := make(chan *wire.Error, 1)
		b.p.CloseProducer(7, func(e *wire.Error) { done <- e })
		synctest.Wait()
		go b.p.Close(wire.Errorf(wire.CodeUnknownTopicID, "the topic was deleted"))
		synctest.Wait()
		close(gate)
		<-done
		synctest.Wait()
	})
}

// The same with a settle: it appends a fence behind the last sync.
func TestSettleHeldAtShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, gate := stuck(t)
		var answers int
		b.p.Resolve(ResolveRequest{Batch: producerstate.IdentityOf(sealed(t, 7, 8, "v")), Settle: true,
			Reply: func(*wire.Resolved, *wire.Error) { answers++ }})
		synctest.Wait()
		go b.p.Close(wire.Errorf(wire.CodeUnknownTopicID, "the topic was deleted"))
		synctest.Wait()
		close(gate)
		synctest.Wait()
		if answers != 1 {
			t.Errorf("%d answers", answers)
		}
	})
}

// Someone who came for a lane that is being looked up, and would need room, is never answered.
func TestNewcomerHeldAtShutdownIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewFaulty(vfs.NewMem())
		b := openPartition(t, disk, few)
		for pid := batchfmt.ProducerID(1); pid <= 8; pid++ {
			b.visit(pid)
		}
		gate := make(chan struct{})
		disk.Observe(func(op vfs.Op, _ string) {
			if op == vfs.OpRead {
				<-gate
			}
		})
		id := producerstate.IdentityOf(sealed(t, 1, 1, "v"))
		resolved := 0
		b.p.Resolve(ResolveRequest{Batch: id, Reply: func(*wire.Resolved, *wire.Error) { resolved++ }}) // lane 1 is looked up
		synctest.Wait()
		answers := 0
		sent := batchfmt.Seq(0)
		b.p.OpenLane(OpenRequest{Grant: NewGrant(1, 0), Sent: &sent, Reply: func(*wire.LaneOpened, *wire.Error) { answers++ }})
		b.p.Resolve(ResolveRequest{Batch: id, Settle: true, Reply: func(*wire.Resolved, *wire.Error) { resolved++ }})
		synctest.Wait()
		go b.p.Close(wire.Errorf(wire.CodeUnknownTopicID, "the topic was deleted"))
		synctest.Wait()
		close(gate)
		synctest.Wait()
		if answers != 1 || resolved != 2 {
			t.Errorf("%d answers to the opening, %d of 2 to Resolve", answers, resolved)
		}
	})
}
