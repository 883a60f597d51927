package partition

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// After a failed sync nothing is in flight any more: a batch whose fate only a restart can tell
// must not be called "in flight" for as long as the server runs.
func TestInFlightForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewFaulty(vfs.NewMem())
		b := openPartition(t, disk)
		b.openLane()
		disk.FailSync(1, errors.New("no"))
		b.give(0, "v")
		b.wantCode(wire.CodeDurabilityUnknown)
		if m, e := b.resolve(sealed(t, 7, 0, "v"), false); e == nil {
			t.Errorf("inspect says %v", m.Outcome)
		}
		b.p.Close(wire.Errorf(wire.CodeShutdown, ""))
	})
}

// A lane that is being brought back is not described as one that never wrote.
func TestDescribedWhileItIsRecalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewFaulty(vfs.NewMem())
		b := openPartition(t, disk, few)
		for pid := batchfmt.ProducerID(1); pid <= 8; pid++ {
			b.visit(pid)
		}
		for b.lanes() > 3 { // room for one
			b.p.do(func() { b.p.retire(1, 0) })
			synctest.Wait()
		}
		gate := make(chan struct{})
		disk.Observe(func(op vfs.Op, _ string) {
			if op == vfs.OpRead {
				<-gate
			}
		})
		sent := batchfmt.Seq(0)
		b.p.OpenLane(OpenRequest{Grant: NewGrant(1, 0), Sent: &sent, Reply: func(*wire.LaneOpened, *wire.Error) {}})
		var d wire.ProducersDescribed
		b.p.DescribeProducers(&wire.DescribeProducers{ProducerID: 1}, func(x wire.ProducersDescribed, _ *wire.Error) { d = x })
		synctest.Wait()
		close(gate)
		synctest.Wait()
		if len(d.Lanes) != 1 || d.Lanes[0].Last != 0 {
			t.Errorf("%+v", d.Lanes)
		}
		b.close()
	})
}
