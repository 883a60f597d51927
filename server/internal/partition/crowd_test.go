package partition

import (
	"flag"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

var crowdSize = flag.Int("producers", 20_000, "how many short-lived producers come in TestShortLivedProducers")

// mostGrowth is how much memory all of them together may leave behind, in bytes: what the
// lanes that are kept take, the retired table's filters, and what a runtime never gives back.
const mostGrowth = 24 << 20

// one is a Sink for a single result.
type one chan wire.ProduceResult

func (o one) Result(r wire.ProduceResult) { o <- r }

// TestShortLivedProducers lets many producers come, write a record and vanish without a word,
// as functions in a cloud do, while a few go on writing. Memory stays, nobody is refused, and
// those who come back later are answered as if they had never been away.
func TestShortLivedProducers(t *testing.T) {
	run := campaign.Start(t)
	b := openPartition(t, vfs.OS, func(c *Config) {
		c.Dir = filepath.Join(t.TempDir(), "partition")
		c.Log.SegmentBytes, c.SnapshotBytes = 16<<20, 4<<20
	})
	const living, visitors = 8, 64
	var openings []*Opening
	for pid := batchfmt.ProducerID(1); pid <= living; pid++ {
		o, _, e := b.enter(pid, -1)
		if e != nil {
			t.Fatal(e)
		}
		openings = append(openings, o)
	}
	before := heap()
	var seq batchfmt.Seq
	for first := 0; first < *crowdSize; first += visitors {
		var wave sync.WaitGroup
		for i := first; i < min(first+visitors, *crowdSize); i++ {
			wave.Go(func() { visitOnce(t, b, batchfmt.ProducerID(1000+i)) })
		}
		wave.Wait()
		if t.Failed() {
			b.close()
			return
		}
		for _, o := range openings {
			if r := b.send(o, seq, seq-1); r.Code != wire.CodeOK || r.Duplicate {
				t.Fatalf("living producer %d, sequence %d: %v", o.ProducerID(), seq, r.Code)
			}
		}
		seq++
	}
	grown := int64(heap()) - int64(before)
	run.Count("producers", *crowdSize)
	run.Count("grown_bytes", int(grown))
	if most := int64(mostGrowth + 4**crowdSize); grown > most {
		t.Errorf("memory has grown by %d bytes, %d are the most", grown, most)
	}
	if n := b.lanes(); n > b.p.owner.state.Limits().MaxLanes {
		t.Errorf("%d lanes are in memory", n)
	}
	for i := 0; i < *crowdSize; i += max(1, *crowdSize/500) { // the oldest are on disk long since
		pid := batchfmt.ProducerID(1000 + i)
		o, m, e := b.enter(pid, 0)
		if e != nil || m.LastSequence != 0 {
			t.Fatalf("producer %d comes back to %+v, %v", pid, m, e)
		}
		if r := b.send(o, 0, -1); !r.Duplicate || r.BaseOffset != m.LastOffset {
			t.Fatalf("producer %d: %v at %d", pid, r.Code, r.BaseOffset)
		}
		b.leave(o)
	}
	if end, want := int64(b.p.HighWatermark()), int64(*crowdSize)+int64(living)*int64(seq); end != want {
		t.Errorf("%d records are stored, not %d", end, want)
	}
	b.close()
}

// visitOnce is one producer's whole life.
func visitOnce(t *testing.T, b *bench, pid batchfmt.ProducerID) {
	opened := make(chan *wire.Error, 1)
	o := b.p.OpenLane(OpenRequest{Grant: NewGrant(pid, 0), Reply: func(_ *wire.LaneOpened, e *wire.Error) { opened <- e }})
	if e := <-opened; e != nil {
		t.Errorf("producer %d: %v", pid, e)
		return
	}
	answer := make(one, 1)
	if e := b.p.Produce(Produce{Opening: o, Batch: sealed(t, pid, 0, "v"), Sink: answer, Confirmed: -1}); e != nil {
		t.Errorf("producer %d: %v", pid, e)
		return
	}
	if r := <-answer; r.Code != wire.CodeOK || r.Duplicate {
		t.Errorf("producer %d: %v %s", pid, r.Code, r.Detail)
	}
	quiet := make(chan struct{})
	b.p.CloseLane(o, func() { close(quiet) })
	<-quiet
}

// heap is how much memory is in use, in bytes.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
