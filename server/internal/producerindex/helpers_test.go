package producerindex

import (
	"errors"
	"slices"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

const (
	testDir = "/"
	native  = batchfmt.ProducerID(7)
	gateway = producerstate.GatewaySpace | 7
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}

// log makes batches that stand one behind the other.
type log struct {
	base    batchfmt.Offset
	next    batchfmt.Offset
	pos     int64
	batches []Batch
}

func newLog(base batchfmt.Offset) *log { return &log{base: base, next: base, pos: 32} }

// batch appends a batch of size bytes with the sequences [from, to].
func (l *log) batch(pid batchfmt.ProducerID, epoch batchfmt.Epoch, from, to batchfmt.Seq, size int64) {
	version := batchfmt.Version2
	if pid == batchfmt.NoProducer {
		version = batchfmt.Version1
	}
	l.batches = append(l.batches, Batch{PID: pid, Epoch: epoch, Base: from, Last: to, Offset: l.next, Position: l.pos, Version: version})
	l.next += batchfmt.Offset(max(to-from+1, 0))
	l.pos += size
}

func (l *log) segment() Segment { return Segment{Base: l.base, Check: 0xc4ec, Next: l.next} }

func (l *log) builder() *Builder {
	var b Builder
	for _, x := range l.batches {
		b.Add(x)
	}
	return &b
}

// written is the index of the log, in a file of the disk that is returned.
func (l *log) written(t testing.TB) (*vfs.Mem, *Index) {
	t.Helper()
	mem := vfs.NewMem()
	stats, err := l.builder().Write(mem, testDir, l.segment())
	must(t, err)
	must(t, mem.SyncDir(testDir))
	x, err := Open(mem, testDir, l.segment())
	must(t, err)
	must(t, x.Verify())
	if x.Runs() != stats.Rows {
		t.Fatalf("%d runs, written %d", x.Runs(), stats.Rows)
	}
	return mem, x
}

// allRuns gives all runs of the builder, in the order of the log within a lane.
func allRuns(b *Builder, pid batchfmt.ProducerID) []Run {
	newest, older, ok := b.look(pid)
	if !ok {
		return nil
	}
	return slices.Collect(laneRuns(newest, older))
}
