package partition

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// A row is durable after what it tells of. If the log ends before that, what is missing was
// acknowledged, as with a snapshot (TestLogThatEndsBeforeItsSnapshot): its offsets stay taken, and
// a retry must not be told that all is well.
func TestLogThatEndsBeforeARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		b := openPartition(t, fs, few)
		for pid := batchfmt.ProducerID(1); pid <= 8; pid++ {
			b.visit(pid)
		}
		b.p.Abandon() // no snapshot; rows of 1 to 4 are in the table
		f, err := fs.Open(filepath.Join(dir, fmt.Sprintf("%020d.seg", 0)))
		must(t, err)
		must(t, f.Truncate(int64(segmentHeader)))
		must(t, f.Close())
		b = openPartition(t, fs, few)
		defer b.close()
		answers := 0
		var m *wire.LaneOpened
		sent := batchfmt.Seq(0)
		o := b.p.OpenLane(OpenRequest{Grant: NewGrant(1, 0), Sent: &sent, Reply: func(opened *wire.LaneOpened, _ *wire.Error) {
			answers++
			m = opened
		}})
		synctest.Wait()
		if answers == 0 {
			t.Error("the opening waits for an offset that nobody is about to write")
		}
		if at := b.visit(51); at < 4 { // one that came after the loss
			t.Errorf("offset %d, which was acknowledged to producer 1, is given a second time", at)
		}
		synctest.Wait()
		if m != nil {
			if r := b.send(o, 0, -1); r.Code == wire.CodeOK {
				t.Errorf("the retry of a batch that is gone: %v, duplicate %v, verified %v, offset %d", r.Code, r.Duplicate, r.Verified, r.BaseOffset)
			}
		}
	})
}
