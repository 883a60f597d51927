package producerstate

import (
	"iter"
	"maps"
	"slices"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/planted"
)

const (
	// DefaultMaxLanes is the limit of a State whose Limits name none.
	DefaultMaxLanes = 4096
	// MostLanes is the highest limit that may be set: a snapshot of so many lanes still
	// fits into MaxSnapshotBytes.
	MostLanes = 1 << 20
)

// keptUndo is how many undo records an idle State keeps room for; a larger group gives
// its room back, so that one burst does not cost memory for ever.
const keptUndo = 96

// Limits bound a State. They bound who may come in, never what is true: lanes that the
// log proves are kept whatever the limit says.
type Limits struct {
	// MaxLanes is how many lanes are in memory before newcomers are refused, those that
	// are only opened included. 0 means DefaultMaxLanes; more than MostLanes is MostLanes.
	// A lane costs about 330 bytes.
	MaxLanes int
}

func (l Limits) withDefaults() Limits {
	if l.MaxLanes <= 0 {
		l.MaxLanes = DefaultMaxLanes
	}
	l.MaxLanes = min(l.MaxLanes, MostLanes)
	return l
}

// State is what one partition knows of its producers. It is owned by the partition's
// owner loop and is not safe for concurrent use.
type State struct {
	limits    Limits
	lanes     map[batchfmt.ProducerID]*Lane
	forgotten batchfmt.ProducerID // no id at or below it is new, see Forget
	lost      batchfmt.Offset     // something below it was lost, see Lost
	retired   uint64              // see SetRetired

	openings uint64 // the last opening number given, over all lanes
	uptime   uint32 // of the process, see Tick; seconds

	group    uint64 // number of the group, never 0
	grouping bool
	undo     []undoRecord
}

// undoRecord is a lane as it was before its group touched it first.
type undoRecord struct {
	pid    batchfmt.ProducerID
	lane   *Lane
	before history
}

// New returns the state of a partition that was never written.
func New(l Limits) *State {
	return &State{
		limits: l.withDefaults(),
		lanes:  make(map[batchfmt.ProducerID]*Lane),
		group:  1,
	}
}

// SetLimits changes the limits from now on. Lanes that are there stay.
func (s *State) SetLimits(l Limits) { s.limits = l.withDefaults() }

// Limits are those in force, defaults filled in.
func (s *State) Limits() Limits { return s.limits }

// Len is the number of lanes in memory, those that are only opened included.
func (s *State) Len() int { return len(s.lanes) }

// Lane is the lane of pid, or nil if it is not in memory. One that was opened and never
// written is there and is not Known.
func (s *State) Lane(pid batchfmt.ProducerID) *Lane { return s.lanes[pid] }

// All goes through the lanes in the order of their ids. The State must not change
// meanwhile.
func (s *State) All() iter.Seq2[batchfmt.ProducerID, *Lane] {
	return func(yield func(batchfmt.ProducerID, *Lane) bool) {
		for _, pid := range slices.Sorted(maps.Keys(s.lanes)) {
			if !yield(pid, s.lanes[pid]) {
				return
			}
		}
	}
}

// AtLimit reports whether pid would be a newcomer that there is no room for. A lane
// that is opened has its room already.
func (s *State) AtLimit(pid batchfmt.ProducerID) bool {
	return len(s.lanes) >= s.limits.MaxLanes && s.lanes[pid] == nil
}

// Forget says that producers with ids up to this one may have been here and be forgotten:
// an unknown lane of theirs is not new. It never goes back, and snapshots carry it on:
// otherwise the first snapshot after a loss would pass for a complete memory. Ids that
// are handed out later cannot have been here and are new as ever.
func (s *State) Forget(upTo batchfmt.ProducerID) { s.forgotten = max(s.forgotten, upTo) }

// Forgotten is what Forget said.
func (s *State) Forgotten() batchfmt.ProducerID { return s.forgotten }

// MayHaveForgotten reports whether an unknown lane of pid may have been here; see
// Evidence.Forgotten.
func (s *State) MayHaveForgotten(pid batchfmt.ProducerID) bool {
	return pid&^GatewaySpace <= s.forgotten
}

// Lossy reports whether Lost was ever called, by this owner or an earlier one.
func (s *State) Lossy() bool { return s.lost > 0 }

// Lost says that nothing is known of what stood at the offsets from from up to next, and
// that the state was rebuilt without it. A lane that goes on behind the hole tells by its
// sequences what it had in there. Any other lane may have ended in there: what follows
// its last sequence is unknown from now on, until a higher epoch begins anew. The caller
// says by Forget what lanes may have been in the hole alone. Lanes that were not in memory
// are judged when they come back.
func (s *State) Lost(from, next batchfmt.Offset) {
	s.lost = max(s.lost, next)
	for pid, l := range s.lanes {
		if l.known && l.lastOffset < next && from < next {
			s.touch(pid).marks |= markSuspect
			l.covered = false
		}
	}
}

// Cover says that the producer had this epoch when its lane was met for the first time since
// it is suspect. Whatever was lost has no higher one, as an epoch only rises: so a batch of a
// higher epoch was not there. A lane that nobody has covered hides batches of every epoch; a
// later call changes nothing.
func (s *State) Cover(pid batchfmt.ProducerID, epoch batchfmt.Epoch) {
	if l := s.lanes[pid]; l.Suspect() && !l.covered {
		l.covered, l.raised, l.cover = true, false, max(epoch, l.epoch)
	}
}

// Apply moves the state with an append: the batch that Decide accepted now stands at
// baseOffset. It creates the lane if need be and never decides anything. position is
// copied; nil leaves the lane's as it is.
func (s *State) Apply(id Identity, baseOffset batchfmt.Offset, position []byte) {
	if !id.valid() || baseOffset < 0 {
		return
	}
	h := s.touch(id.PID)
	switch {
	case !h.known:
		h.start(id.Base)
	case InGatewaySpace(id.PID) && id.Epoch > h.epoch:
		h.start(id.Base) // a Kafka client's new incarnation numbers anew
	}
	h.push(id.Epoch, entry{base: id.Base, last: id.Last, offset: baseOffset, digest: id.Digest})
	h.setPosition(position)
}

// Confirm notes up to which sequence the application of pid was given every outcome. It
// is advisory: it never falls, never passes the lane's last sequence, and no decision
// reads it.
func (s *State) Confirm(pid batchfmt.ProducerID, through batchfmt.Seq) {
	if l := s.lanes[pid]; l.Known() {
		l.confirmed = max(l.confirmed, min(through, l.last))
	}
}

// SetRetired notes the generation that the table of retired lanes has, in which those are
// that are not in memory any more. It only goes up. Snapshots carry it, so that a table that
// has lost its newest part since is not taken for a whole one.
func (s *State) SetRetired(generation uint64) { s.retired = max(s.retired, generation) }

// Retired is what SetRetired said.
func (s *State) Retired() uint64 { return s.retired }

// Missed says of a lane that was looked for wherever lanes are kept that it was not there;
// doubtful says that this may be so only because of damage. It counts while the lane is
// open and unknown.
func (s *State) Missed(pid batchfmt.ProducerID, doubtful bool) {
	if l := s.lanes[pid]; l != nil && !l.known {
		l.looked, l.doubtful = true, doubtful
	}
}

// Opened gives the lane of pid a new opening, which takes the right to write from every
// older one. The number is never given twice by this State, for whichever lane. It is 0,
// which is no right, if there is no room for pid: ask AtLimit before.
//
// The stream must give it back with Released when it ends. Until then a lane that was
// never written takes up room.
func (s *State) Opened(pid batchfmt.ProducerID) uint64 {
	if number := s.Ask(); s.OpenedAs(pid, number) {
		return number
	}
	return 0
}

// Ask gives the number of an opening that may have to wait before it is OpenedAs: what is
// asked for later has a higher one.
func (s *State) Ask() uint64 {
	s.openings++
	return s.openings
}

// OpenedAs is Opened with a number from Ask. It reports false if there is no room, or if an
// opening of the lane that was asked for later has come first.
func (s *State) OpenedAs(pid batchfmt.ProducerID, number uint64) bool {
	if pid == batchfmt.NoProducer || s.AtLimit(pid) || s.lanes[pid].Opening() > number {
		return false
	}
	l := s.lane(pid)
	l.opening, l.open, l.used = number, true, s.uptime
	return true
}

// Released says that the stream with this opening has ended. A lane that was never
// written leaves with its newest opening; any other lane stays, and the opening stays
// its newest. Releasing an older opening, or releasing twice, does nothing.
func (s *State) Released(pid batchfmt.ProducerID, opening uint64) {
	l := s.lanes[pid]
	if l == nil || l.opening != opening {
		return
	}
	l.open, l.used = false, s.uptime
	s.dropEmpty(pid, l)
}

// Begin starts a group: what Apply and Replay change from now on can be taken back as
// one. Groups do not nest; to begin one within another is a bug of the caller and
// panics.
func (s *State) Begin() {
	if s.grouping {
		panic("producerstate: Begin within a group")
	}
	s.group++
	s.grouping = true
}

// Commit ends the group; its write succeeded. Without a group it does nothing.
func (s *State) Commit() { s.endGroup() }

// Rollback ends the group and makes every lane what it was at Begin; lanes that the
// group created are gone. Openings and confirmations belong to the process and not to
// the write, so they stay. Without a group it does nothing.
func (s *State) Rollback() {
	for i := range s.undo {
		u := &s.undo[i]
		u.lane.history = u.before
		u.lane.confirmed = min(u.lane.confirmed, u.lane.Last())
		s.dropEmpty(u.pid, u.lane)
	}
	s.endGroup()
}

func (s *State) endGroup() {
	s.grouping = false
	if cap(s.undo) > keptUndo {
		s.undo = nil
	}
	s.undo = s.undo[:0]
}

// touch returns the history of pid's lane for a change, after saving it for Rollback
// the first time that a group comes by.
func (s *State) touch(pid batchfmt.ProducerID) *history {
	l := s.lane(pid)
	l.used = s.uptime
	if s.grouping && l.group != s.group {
		s.undo = append(s.undo, undoRecord{pid: pid, lane: l, before: l.history})
		l.group = s.group
	}
	return &l.history
}

// lane returns pid's lane, a placeholder if it was not there.
func (s *State) lane(pid batchfmt.ProducerID) *Lane {
	l := s.lanes[pid]
	if l == nil {
		l = &Lane{confirmed: NoSequence, used: s.uptime}
		s.lanes[pid] = l
	}
	return l
}

// dropEmpty removes a placeholder that no stream holds.
func (s *State) dropEmpty(pid batchfmt.ProducerID, l *Lane) {
	if !l.known && !l.open && !planted.SlotLeak {
		delete(s.lanes, pid)
	}
}

// Equal reports whether two states say the same about every producer. Openings,
// confirmations and lanes that were only opened do not count: they do not come from
// the log.
func Equal(a, b *State) bool {
	return a.forgotten == b.forgotten && a.lost == b.lost && a.covers(b) && b.covers(a)
}

// covers reports whether every known lane of b is the same in s.
func (s *State) covers(b *State) bool {
	for pid, l := range b.lanes {
		if o := s.lanes[pid]; l.known && (!o.Known() || o.history != l.history) {
			return false
		}
	}
	return true
}
