package partition

import (
	"testing"
	"testing/synctest"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// rounds runs act within each of n syncs of the log, as a busy partition has it: there is always
// a control batch that is not durable.
func rounds(b *bench, disk *vfs.Faulty, n int, act func(i int)) {
	began, gate := make(chan struct{}), make(chan struct{})
	disk.Observe(func(op vfs.Op, name string) {
		if op == vfs.OpSync && len(name) > 4 && name[len(name)-4:] != ".tmp" {
			began <- struct{}{}
			<-gate
		}
	})
	act(-1) // begins the first sync
	for i := range n {
		<-began
		act(i)
		synctest.Wait()
		gate <- struct{}{}
	}
	disk.Observe(nil)
}

// Who settles is not answered as long as others settle or close.
func TestSettleStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewFaulty(vfs.NewMem())
		b := openPartition(t, disk)
		defer b.close()
		answered := -2
		settle := func(pid batchfmt.ProducerID, reply func()) {
			b.p.Resolve(ResolveRequest{Batch: producerstate.IdentityOf(sealed(t, pid, 0, "v")), Settle: true,
				Reply: func(*wire.Resolved, *wire.Error) { reply() }})
		}
		const n = 50
		now := -1
		rounds(b, disk, n, func(i int) {
			now = i
			if i < 0 {
				settle(1000, func() { answered = now })
				return
			}
			settle(batchfmt.ProducerID(1001+i), func() {})
		})
		if answered < 0 || answered > 1 {
			t.Errorf("its fence was durable after sync 0, it was answered in %d (-2: not in %d syncs)", answered, n)
		}
		synctest.Wait()
	})
}

// A newcomer is let in by nobody as long as producers close, though all the lanes are idle.
func TestNewcomerStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewFaulty(vfs.NewMem())
		const n = 50
		b := openPartition(t, disk, func(c *Config) { c.Producers = producerstate.Limits{MaxLanes: n + 8} })
		defer b.close()
		for pid := batchfmt.ProducerID(1); pid <= n+8; pid++ {
			b.visit(pid)
		}
		entered := false
		rounds(b, disk, n, func(i int) {
			b.p.CloseProducer(batchfmt.ProducerID(i+2), func(*wire.Error) {})
			if i == 0 {
				b.p.OpenLane(OpenRequest{Grant: NewGrant(1000, 0), Reply: func(*wire.LaneOpened, *wire.Error) { entered = true }})
			}
		})
		if !entered {
			t.Errorf("not let in within %d syncs", n)
		}
		synctest.Wait()
	})
}
