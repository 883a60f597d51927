package producerindex

import (
	"sync"
	"unsafe"

	"github.com/quoin-io/quoin/batchfmt"
)

// Builder is the index of a segment in memory. It is safe for concurrent use; the zero value
// is empty and ready.
//
// A producer id takes about 90 bytes, 200 if it has more than one run, and each further run
// about 8 where lanes are regular, 20 where they are not.
type Builder struct {
	// mu is held for a few loads and stores only: never while runs are gone through, and never
	// over I/O.
	mu struct {
		sync.Mutex
		lanes map[batchfmt.ProducerID]*lane
		slab  []lane // of which lanes are taken, so that they stand together
		// recent is the lane of the last batch: many segments have one producer at a time.
		recent    *lane
		recentPID batchfmt.ProducerID
		runs      int
		batches   int64
		chunks    int64 // bytes of all of them
		versions  Versions
	}
}

// lane is the newest run of a producer id, which may go on, and those before it.
type lane struct {
	first, last batchfmt.Seq
	offset      batchfmt.Offset // of the first batch
	lastOffset  batchfmt.Offset
	begin       int64 // position of the first batch
	epoch       batchfmt.Epoch
	closed      *chunk // the newest of those with the runs before it, or nil
}

func (l *lane) run(pid batchfmt.ProducerID) Run {
	return Run{PID: pid, Epoch: l.epoch, First: l.first, Last: l.last, FirstOffset: l.offset, LastOffset: l.lastOffset}
}

const (
	slabLanes = 64 // a segment with one producer shall not cost more than a few KiB
	// mapBytes is about what an entry of the map takes.
	mapBytes = 25
)

// Add adds a batch that was appended to the log. Batches come in the order of the log. Of one
// without a producer, or without records, only the version is noted.
func (b *Builder) Add(x Batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.versions |= VersionBit(x.Version)
	if !x.hasPlace() {
		return
	}
	b.mu.batches++
	l := b.mu.recent
	if l == nil || b.mu.recentPID != x.PID {
		l = b.mu.lanes[x.PID]
	}
	switch {
	case l == nil:
		l = b.newLane(x.PID)
		b.begin(l, x)
	case l.goesOn(x):
		l.last, l.lastOffset = x.Last, x.Offset
	default:
		b.close(l)
		b.begin(l, x)
	}
	b.mu.recent, b.mu.recentPID = l, x.PID
}

// goesOn reports whether x belongs to the newest run of its lane.
func (l *lane) goesOn(x Batch) bool {
	behind := x.Position - l.begin
	return x.Epoch == l.epoch && x.Base-1 == l.last && behind >= 0 && behind <= RunBytes
}

func (b *Builder) newLane(pid batchfmt.ProducerID) *lane {
	if len(b.mu.slab) == 0 {
		b.mu.slab = make([]lane, slabLanes)
	}
	l := &b.mu.slab[0]
	b.mu.slab = b.mu.slab[1:]
	if b.mu.lanes == nil {
		b.mu.lanes = make(map[batchfmt.ProducerID]*lane)
	}
	b.mu.lanes[pid] = l
	return l
}

// begin begins a run of l.
func (b *Builder) begin(l *lane, x Batch) {
	l.first, l.last, l.epoch = x.Base, x.Last, x.Epoch
	l.offset, l.lastOffset, l.begin = x.Offset, x.Offset, x.Position
	b.mu.runs++
}

// close moves the newest run of l to those before it.
func (b *Builder) close(l *lane) {
	var grown int64
	l.closed, grown = l.closed.append(l.run(0))
	b.mu.chunks += grown
}

// Find returns the newest run of pid that holds seq. Where the lane has many newer ones it
// takes about 10 ns for each; nobody has to wait for it.
func (b *Builder) Find(pid batchfmt.ProducerID, seq batchfmt.Seq) (Run, bool) {
	r, older, ok := b.look(pid)
	if !ok || r.Holds(seq) {
		return r, ok
	}
	r, ok = older.find(seq)
	if ok {
		r.PID = pid
	}
	return r, ok
}

// Newest returns the newest run of pid, which ends with its last batch.
func (b *Builder) Newest(pid batchfmt.ProducerID) (Run, bool) {
	r, _, ok := b.look(pid)
	return r, ok
}

// look returns the newest run of pid, and those before it.
func (b *Builder) look(pid batchfmt.ProducerID) (newest Run, older chunk, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.mu.lanes[pid]
	if l == nil {
		return Run{}, chunk{}, false
	}
	return l.run(pid), l.closed.snapshot(), true
}

// Runs is the number of runs, and so of rows that Write will write.
func (b *Builder) Runs() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.runs
}

// Batches is the number of batches that have a place in a run.
func (b *Builder) Batches() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.batches
}

// Versions are those of all batches that were added.
func (b *Builder) Versions() Versions {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.versions
}

// Bytes is about the memory that the index takes.
func (b *Builder) Bytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	lanes := int64(len(b.mu.lanes) + len(b.mu.slab))
	return lanes*int64(unsafe.Sizeof(lane{})) + int64(len(b.mu.lanes))*mapBytes + b.mu.chunks
}
