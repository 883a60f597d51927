package outbox

import (
	"cmp"
	"slices"

	"github.com/quoin-io/quoin/batchfmt"
)

// ID names a batch in its outbox. An id is never given twice, and a batch keeps it over
// restarts. 0 is none.
type ID uint64

// State is what a batch without outcome may be used for.
type State uint8

const (
	// Pending is a batch that is to be sent.
	Pending State = iota + 1
	// Unknown is a batch of which the application was told that nobody knows its outcome. It
	// must never be sent again; the server is to be asked what became of it.
	Unknown
)

func (s State) String() string {
	switch s {
	case Pending:
		return "pending"
	case Unknown:
		return "unknown"
	}
	return "no state"
}

// A Batch is a batch without outcome.
type Batch struct {
	ID        ID
	Partition int32
	Base      batchfmt.Seq // sequence of the first record
	Last      batchfmt.Seq // and of the last one
	Epoch     batchfmt.Epoch
	Digest    batchfmt.Digest
	State     State
	// Damaged says that the bytes of a pending batch are lost: it cannot be sent, but with
	// its identity the server can be asked whether it has it.
	Damaged bool
	// Doubtful says that damage behind this pending batch may have hidden that it has an
	// outcome or was told to be unknown. Whoever must not risk to send such a batch calls
	// Outbox.Unknown for it and settles it: only the Open that finds the damage can tell.
	Doubtful bool
}

// A Point is the last record of a partition known to be stored.
type Point struct {
	Sequence batchfmt.Seq
	Offset   batchfmt.Offset // of the record with that sequence
	Digest   batchfmt.Digest // of the batch that holds it
}

// A Lane is what Open found of one partition.
type Lane struct {
	Partition int32
	// Next is the first sequence that is free: it follows what is known to be stored and
	// what is without outcome. Nothing from Next on was handed to the network, except what
	// was proved not stored; Next-1 is the highest that was, or -1.
	Next batchfmt.Seq
	// Through is the highest sequence known to be stored, -1 for none.
	Through batchfmt.Seq
	// Acked is the last record whose offset is known; nil for none.
	Acked *Point
	// Epoch is the highest that a batch was sealed with.
	Epoch batchfmt.Epoch
	// Batches are those without outcome, in the order in which they are to be stored.
	Batches []Batch
	// Uncertain says that damage may hide newer batches of the lane: Next may be too low.
	Uncertain bool
}

// Found is what Open found.
type Found struct {
	// Binding is that of the directory; its ProducerID is 0 if nobody knows it yet.
	Binding Binding
	// Lanes are the partitions that anything is known of, by number.
	Lanes []Lane
	// Uncertain says that damage may hide partitions that are not in Lanes.
	Uncertain bool
	// Damage is what could not be read, or nil. It is found by every Open until its segment
	// is removed, which Open never does but a later Sync may.
	Damage *DamageError
}

// Batches is how many batches are without outcome.
func (f *Found) Batches() int {
	n := 0
	for i := range f.Lanes {
		n += len(f.Lanes[i].Batches)
	}
	return n
}

// held is a batch in the ledger.
type held struct {
	entry    entry // as it was put
	state    State
	body     bool // the bytes are there
	doubtful bool
	lost     bool     // the bytes were damaged when it was moved
	step     int      // of the replay, when it was seen last
	seg      *segment // where it is; nil while it waits to be written
	at       int64
	stored   int64  // bytes that it takes there
	waiting  []byte // the bytes while it waits
	told     bool   // that it is unknown was put by this process
}

func (h *held) batch() Batch {
	e := &h.entry
	return Batch{ID: e.id, Partition: e.partition, Base: e.base, Last: e.last, Epoch: e.epoch, Digest: e.digest,
		State: h.state, Damaged: !h.body && h.state == Pending, Doubtful: h.doubtful}
}

// laneState is what is known of a lane besides its batches.
type laneState struct {
	through batchfmt.Seq
	acked   *Point
	epoch   batchfmt.Epoch
}

func (l *laneState) entry(partition int32) entry {
	e := entry{kind: kindLane, partition: partition, base: l.through, last: -1, offset: -1, epoch: l.epoch}
	if l.acked != nil {
		e.last, e.offset, e.digest = l.acked.Sequence, l.acked.Offset, l.acked.Digest
	}
	return e
}

// ledger is what the entries say, in memory: the same for those that are read and those
// that are put.
type ledger struct {
	live  map[ID]*held
	lanes map[int32]*laneState
	bytes int64 // of the entries of all that is live
}

func newLedger() ledger {
	return ledger{live: map[ID]*held{}, lanes: map[int32]*laneState{}}
}

func (l *ledger) lane(partition int32) *laneState {
	s := l.lanes[partition]
	if s == nil {
		s = &laneState{through: -1}
		l.lanes[partition] = s
	}
	return s
}

// apply takes an entry in. What it brings or moves is returned as has, what it ends as ended.
func (l *ledger) apply(e *entry, body bool) (has, ended *held) {
	switch e.kind {
	case kindBatch, kindTrace:
		if has = l.live[e.id]; has != nil {
			return has, nil
		}
		ended = l.end(e.replaced)
		return l.add(e, max(e.state, Pending), body), ended
	case kindUnknown:
		if h := l.live[e.id]; h != nil {
			h.state = Unknown
			return nil, nil
		}
		return l.add(e, Unknown, false), nil // its entry is damaged, or the mark is the older copy
	case kindStored:
		l.stored(e)
		return nil, l.end(e.id)
	case kindNotStored:
		return nil, l.end(e.id)
	case kindLane:
		s := l.lane(e.partition)
		*s = laneState{through: e.base, epoch: e.epoch}
		if e.last >= 0 {
			s.acked = &Point{Sequence: e.last, Offset: e.offset, Digest: e.digest}
		}
	}
	return nil, nil
}

func (l *ledger) add(e *entry, state State, body bool) *held {
	s := l.lane(e.partition)
	s.epoch = max(s.epoch, e.epoch)
	h := &held{entry: *e, state: state, body: body, stored: e.size()}
	l.live[e.id] = h
	l.bytes += e.size()
	return h
}

func (l *ledger) end(id ID) *held {
	h := l.live[id]
	if h != nil {
		delete(l.live, id)
		l.bytes -= h.entry.size()
	}
	return h
}

func (l *ledger) stored(e *entry) {
	s := l.lane(e.partition)
	s.through = max(s.through, e.last)
	if e.offset >= 0 && (s.acked == nil || s.acked.Sequence < e.last) {
		s.acked = &Point{Sequence: e.last, Offset: e.offset, Digest: e.digest}
	}
}

// found lists the lanes.
func (l *ledger) found() []Lane {
	index := map[int32]*Lane{}
	byLane := map[int32][]*held{}
	for _, h := range l.live {
		byLane[h.entry.partition] = append(byLane[h.entry.partition], h)
	}
	var lanes []Lane
	for partition, s := range l.lanes {
		lanes = append(lanes, Lane{Partition: partition, Next: s.through + 1, Through: s.through, Acked: s.acked, Epoch: s.epoch})
	}
	slices.SortFunc(lanes, func(a, b Lane) int { return cmp.Compare(a.Partition, b.Partition) })
	for i := range lanes {
		index[lanes[i].Partition] = &lanes[i]
	}
	for partition, batches := range byLane {
		slices.SortFunc(batches, func(a, b *held) int { return cmp.Compare(a.entry.place, b.entry.place) })
		lane := index[partition]
		for _, h := range batches {
			lane.Batches = append(lane.Batches, h.batch())
			lane.Next = max(lane.Next, h.entry.last+1)
		}
	}
	return lanes
}
