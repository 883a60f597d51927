package partition

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// Two that wait for one sync that fails get one and the same error, in which each writes its
// producer id: the first is told about the second, and its goroutine reads while the owner writes.
func TestErrorsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewFaulty(vfs.NewMem())
		b := openPartition(t, disk)
		gate := make(chan struct{})
		disk.Observe(func(op vfs.Op, _ string) {
			if op == vfs.OpSync {
				<-gate
			}
		})
		var got [2]*wire.Error
		for i, pid := range []batchfmt.ProducerID{11, 12} {
			o, _, e := b.enter(pid, -1)
			if e != nil {
				t.Fatal(e)
			}
			batch := sealed(t, pid, 0, "v")
			if e := b.p.Produce(Produce{Opening: o, Batch: batch, Sink: b.sink, Confirmed: -1}); e != nil {
				t.Fatal(e)
			}
			b.p.Resolve(ResolveRequest{Batch: producerstate.IdentityOf(batch), Settle: true,
				Reply: func(_ *wire.Resolved, e *wire.Error) { got[i] = e }})
		}
		synctest.Wait()
		disk.FailSync(1, errors.New("no"))
		close(gate)
		synctest.Wait()
		b.p.Close(wire.Errorf(wire.CodeShutdown, ""))
		for i, e := range got {
			if e == nil || e.ProducerID != batchfmt.ProducerID(11+i) {
				t.Errorf("about producer %d: %+v", 11+i, e)
			}
		}
		if got[0] == got[1] {
			t.Error("it is the same error")
		}
	})
}
