package partition

import (
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// Whatever rests on a batch whose sync failed has an answer.
func TestConflictWithABatchWhoseSyncFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewFaulty(vfs.NewMem())
		b := openPartition(t, disk)
		b.openLane()
		disk.FailSync(1, syscall.EIO)
		b.give(0, "a")
		b.wantCode(wire.CodeDurabilityUnknown)
		b.give(0, "b")
		synctest.Wait()
		if len(b.sink) != 1 {
			t.Error("no answer")
		} else {
			b.wantCode(wire.CodeDurabilityUnknown)
		}
		b.p.Close(wire.Errorf(wire.CodeShutdown, ""))
	})
}

// an opening that waited for a sync, and then for a look-up that was not its own.
func TestOpeningBehindASyncAndALookUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewFaulty(vfs.NewMem())
		b := openPartition(t, disk)
		b.openLane()
		for i := range 8 {
			b.give(batchfmt.Seq(i), "v")
			b.wantStored(batchfmt.Offset(i), false)
		}
		syncing, reading := make(chan struct{}), make(chan struct{})
		var first sync.Once
		disk.Observe(func(op vfs.Op, name string) {
			switch {
			case op == vfs.OpSync && filepath.Ext(name) == ".seg":
				first.Do(func() { <-syncing })
			case op == vfs.OpRead:
				<-reading
			}
		})
		b.give(8, "v")
		synctest.Wait()
		sent := batchfmt.Seq(8)
		acked := &wire.LanePoint{Sequence: 0, Offset: 0, Digest: sealed(t, 7, 0, "v").Digest()}
		var refused *wire.Error
		b.lane = b.p.OpenLane(OpenRequest{Grant: b.grant, Sent: &sent, Acked: acked, Reply: func(_ *wire.LaneOpened, e *wire.Error) { refused = e }})
		b.give(1, "v") // looked up
		synctest.Wait()
		close(syncing)
		synctest.Wait()
		close(reading)
		b.wantStored(8, false)
		b.wantStored(1, true)
		synctest.Wait()
		if refused != nil {
			t.Errorf("opened with %v", refused)
		}
		b.close()
	})
}
