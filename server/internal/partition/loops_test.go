package partition

import (
	"path/filepath"
	"runtime/debug"
	"testing"
	"testing/synctest"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// An opening that waited for a sync and then for a look-up finds that its lane has left memory
// (its stream has ended) and then the table: State.Missed has no lane to note it at, and the
// opening asks for the lane again and again, on the stack: the process dies.
func TestOpeningAsksForever(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(16 << 20))
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewFaulty(vfs.NewMem())
		b := openPartition(t, disk, func(c *Config) { few(c); c.MaxRetired = 8 })
		b.openLane()
		for i := range 8 {
			b.give(batchfmt.Seq(i), "v")
			b.wantStored(batchfmt.Offset(i), false)
		}
		syncing, reading := make(chan struct{}), make(chan struct{})
		disk.Observe(func(op vfs.Op, name string) {
			switch {
			case filepath.Ext(name) != ".seg":
			case op == vfs.OpSync:
				<-syncing
			case op == vfs.OpRead:
				<-reading
			}
		})
		b.give(8, "v")
		synctest.Wait()
		sent := batchfmt.Seq(8)
		answers := 0
		o := b.p.OpenLane(OpenRequest{Grant: b.grant, Sent: &sent, Reply: func(*wire.LaneOpened, *wire.Error) { answers++ }})
		b.p.CloseLane(o, func() {})
		b.p.Resolve(ResolveRequest{Batch: producerstate.IdentityOf(sealed(t, 7, 1, "v")), Reply: func(*wire.Resolved, *wire.Error) {}})
		synctest.Wait()
		close(syncing)
		b.wantStored(8, false)
		for pid := batchfmt.ProducerID(10); pid < 40; pid++ {
			b.visit(pid)
			synctest.Wait()
		}
		close(reading)
		synctest.Wait()
		if answers != 1 {
			t.Errorf("%d answers", answers)
		}
		b.close()
	})
}
