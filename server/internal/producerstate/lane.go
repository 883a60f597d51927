package producerstate

import (
	"iter"
	"math"

	"github.com/quoin-io/quoin/batchfmt"
)

const (
	// WindowSize is how many batches a lane remembers exactly: the most that an SDK
	// or a Kafka client has in flight on one lane.
	WindowSize = 5

	// UnknownOffset stands where an offset is not known.
	UnknownOffset batchfmt.Offset = -1

	// maxSequence is beyond the last sequence of any batch.
	maxSequence batchfmt.Seq = math.MaxInt64

	// NoSequence is the last sequence of a lane that has none.
	NoSequence batchfmt.Seq = -1
)

// Lane is one producer in this partition. It belongs to its State: read it in the
// owner loop and do not keep it over a Rollback or a Released. All methods take a nil
// Lane for one that nobody knows.
//
// A lane that was opened and never written is a placeholder: it is not Known, and it is
// there because its newest opening must be known before its first batch is decided.
//
// It has no pointer and 296 bytes, so 4,096 lanes cost some 1.3 MiB, map included.
type Lane struct {
	history

	// What follows belongs to this process: no log and no Rollback knows of it.

	opening   uint64       // the newest opening; 0 if none since the start
	confirmed batchfmt.Seq // up to here every outcome was given to the application
	group     uint64       // the group that saved the lane last, see State.touch
	open      bool         // the newest opening has a stream
	looked    bool         // see State.Missed
	doubtful  bool         // likewise
	covered   bool         // see State.Cover
	raised    bool         // since then a fence has raised the epoch, and no batch
	cover     batchfmt.Epoch
	used      uint32 // when it was used last, by State.Tick; seconds
}

// history is the part of a lane that follows from the log's bytes alone. It is
// comparable: unused slots are zero.
type history struct {
	floor      batchfmt.Seq    // first sequence of the current numbering
	last       batchfmt.Seq    // L: last sequence appended, pending ones included
	lastOffset batchfmt.Offset // of the record with sequence last, or UnknownOffset
	window     [WindowSize]entry
	epoch      batchfmt.Epoch // highest accepted, or a fence's minimum if that is higher
	known      bool           // false: a placeholder
	marks      marks
	depth      uint8 // entries of window in use, oldest first
	position   uint8 // 0: none; else 1 + its length
	pos        [batchfmt.MaxPositionBytes]byte
}

// marks are flags of a lane, as they stand in a snapshot.
type marks uint8

const (
	markClosed  marks = 1 << iota // the producer said that it is done
	markSuspect                   // batches behind last may have been lost, see State.Lost
	markAll     = markClosed | markSuspect
)

// entry is one batch of the window.
type entry struct {
	base, last batchfmt.Seq
	offset     batchfmt.Offset // base offset
	digest     batchfmt.Digest
}

// sameRange is safe on nil, as the other questions to an entry are.
func (e *entry) sameRange(id Identity) bool {
	return e != nil && e.base == id.Base && e.last == id.Last
}

// is reports whether the entry is the batch itself. The digest covers the producer id
// and the epoch, so they need not be compared.
func (e *entry) is(id Identity) bool { return e.sameRange(id) && e.digest == id.Digest }

func (e *entry) touches(id Identity) bool { return id.Base <= e.last && e.base <= id.Last }

func (e *entry) pending(ev Evidence) bool { return e.offset >= ev.Durable }

// lastOffset is the offset of the entry's last record.
func (e *entry) lastOffset() batchfmt.Offset { return e.offset + batchfmt.Offset(e.last-e.base) }

// next is the offset behind the entry.
func (e *entry) next() batchfmt.Offset { return e.lastOffset() + 1 }

// Known reports whether the lane has a history, be it only a fence.
func (l *Lane) Known() bool { return l != nil && l.known }

// Epoch is the lane epoch: the highest that was accepted, or the minimum that a fence
// set, whichever is higher.
func (l *Lane) Epoch() batchfmt.Epoch {
	if !l.Known() {
		return 0
	}
	return l.epoch
}

// Floor is the first sequence of the current numbering; 0 for an unknown lane.
func (l *Lane) Floor() batchfmt.Seq {
	if !l.Known() {
		return 0
	}
	return l.floor
}

// Last is the last sequence appended, pending ones included, or NoSequence.
func (l *Lane) Last() batchfmt.Seq {
	if !l.Known() {
		return NoSequence
	}
	return l.last
}

// LastOffset is the offset of the record with sequence Last, or UnknownOffset.
func (l *Lane) LastOffset() batchfmt.Offset {
	if !l.Known() {
		return UnknownOffset
	}
	return l.lastOffset
}

// Position is what the last batch that carried a position carried; nil if none did. An
// empty position is one. It aliases the lane and changes with the next Apply.
func (l *Lane) Position() []byte {
	if !l.Known() || l.position == 0 {
		return nil
	}
	return l.pos[:l.position-1]
}

// Closed reports whether the producer said that it is done.
func (l *Lane) Closed() bool { return l.Known() && l.marks&markClosed != 0 }

// Suspect reports whether damage may hide what followed the lane's last batch.
func (l *Lane) Suspect() bool { return l.Known() && l.marks&markSuspect != 0 }

// Window gives the last batches, oldest first, each as a Finding.
func (l *Lane) Window() iter.Seq[Finding] {
	return func(yield func(Finding) bool) {
		if !l.Known() {
			return
		}
		for _, e := range l.window[:l.depth] {
			if !yield(Finding{Found: FoundBatch, BaseOffset: e.offset, Base: e.base, Last: e.last, Digest: e.digest}) {
				return
			}
		}
	}
}

// Opening is the newest opening of the lane; 0 if there was none since the start.
func (l *Lane) Opening() uint64 {
	if l == nil {
		return 0
	}
	return l.opening
}

// Open reports whether the stream of the newest opening is still there.
func (l *Lane) Open() bool { return l != nil && l.open }

// Looked reports whether what is in memory is all that there is to know: the lane has a
// history, or it is open and was looked for. Doubtful says that damage may hide it.
func (l *Lane) Looked() (looked, doubtful bool) {
	return l != nil && (l.known || l.looked), l != nil && !l.known && l.doubtful
}

// Confirmed is up to which sequence the application was given every outcome, or
// NoSequence. It is advisory.
func (l *Lane) Confirmed() batchfmt.Seq {
	if !l.Known() {
		return NoSequence
	}
	return l.confirmed
}

// PendingEnd is the durable end that the log must reach before nothing of the lane is
// pending; 0 if nothing needs to be waited for.
func (l *Lane) PendingEnd() batchfmt.Offset {
	if !l.Known() || l.depth == 0 {
		return 0
	}
	return l.newest().next()
}

// past is the history of a known lane, else nil.
func (l *Lane) past() *history {
	if !l.Known() {
		return nil
	}
	return &l.history
}

// newest may be called when depth is not 0.
func (h *history) newest() *entry { return &h.window[h.depth-1] }

// touched is the oldest entry of the window that shares a sequence with id, or nil.
func (h *history) touched(id Identity) *entry {
	if h == nil || id.Base > h.last {
		return nil
	}
	for i := range h.window[:h.depth] {
		if h.window[i].touches(id) {
			return &h.window[i]
		}
	}
	return nil
}

// holding is the entry of the window that holds the sequence, or nil.
func (h *history) holding(seq batchfmt.Seq) *entry {
	return h.touched(Identity{Base: seq, Last: seq})
}

// The four places where a range can stand that touches no entry; all false on nil.

// straddles: neither wholly in the past nor wholly in the future, or over the floor.
func (h *history) straddles(id Identity) bool {
	return h != nil && (id.Base <= h.last && h.last < id.Last || id.Base < h.floor && h.floor <= id.Last)
}

// covers: a lane has no hole, so all of it is stored.
func (h *history) covers(id Identity) bool {
	return h != nil && h.floor <= id.Base && id.Last <= h.last
}

// older: of a numbering before the current one.
func (h *history) older(id Identity) bool { return h != nil && id.Last < h.floor }

// hidden: behind a lane that may have gone on where the log is lost, in an epoch that may
// have been there. False on nil.
func (l *Lane) hidden(id Identity) bool {
	return l.Suspect() && id.Base > l.last && (!l.covered || id.Epoch <= l.cover || !l.raised && id.Epoch <= l.epoch)
}

// follows: the next range. Base is not negative, so the subtraction cannot overflow.
func (h *history) follows(id Identity) bool { return h != nil && id.Base-1 == h.last }

// push moves the history on with a batch that was appended. It never decides: a range
// that leaves a hole or overlaps is taken as the log has it.
func (h *history) push(epoch batchfmt.Epoch, e entry) {
	if h.depth == WindowSize {
		copy(h.window[:], h.window[1:])
		h.depth--
	}
	h.window[h.depth] = e
	h.depth++
	h.last, h.lastOffset = e.last, e.lastOffset()
	h.marks &^= markClosed
	if epoch > h.epoch {
		h.marks &^= markSuspect // it begins behind whatever was lost
		h.epoch = epoch
	}
}

// start begins a new numbering at floor and forgets the window of the one before.
func (h *history) start(floor batchfmt.Seq) {
	h.floor, h.last, h.lastOffset = floor, floor-1, UnknownOffset
	h.window, h.depth = [WindowSize]entry{}, 0
	h.known = true
}

// setPosition keeps p. Nil is none and changes nothing; neither does one over the limit,
// which no parsed batch can carry.
func (h *history) setPosition(p []byte) {
	if p == nil || len(p) > len(h.pos) {
		return
	}
	h.pos = [batchfmt.MaxPositionBytes]byte{}
	copy(h.pos[:], p)
	h.position = uint8(1 + len(p))
}
