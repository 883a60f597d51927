package producerindex

import "github.com/quoin-io/quoin/batchfmt"

// RunBytes is how far behind the begin of its first batch the last batch of a run may begin.
const RunBytes = 256 << 10

// Batch is what the index needs to know of a batch. Position is where it begins in the
// segment, in bytes.
type Batch struct {
	PID      batchfmt.ProducerID
	Epoch    batchfmt.Epoch
	Base     batchfmt.Seq // of the first record
	Last     batchfmt.Seq // of the last record
	Offset   batchfmt.Offset
	Position int64
	Version  batchfmt.Version // 0 of what no reader is given
}

// hasPlace reports whether b is a batch of a lane. Plain batches are not, nor are control
// batches, which have no records.
func (b Batch) hasPlace() bool {
	return b.PID != batchfmt.NoProducer && b.Base >= 0 && b.Last >= b.Base
}

// Run is a run: the sequences [First, Last], in batches of which the first begins at
// FirstOffset and the last one at LastOffset.
type Run struct {
	PID         batchfmt.ProducerID
	Epoch       batchfmt.Epoch
	First, Last batchfmt.Seq
	FirstOffset batchfmt.Offset
	LastOffset  batchfmt.Offset
}

// Holds reports whether seq is in the run.
func (r Run) Holds(seq batchfmt.Seq) bool { return r.First <= seq && seq <= r.Last }
