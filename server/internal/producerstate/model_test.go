package producerstate

import (
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"pgregory.net/rapid"
)

// world is a partition with everything that a State forgets: the whole log, also what
// retention removed. It judges batches by looking through that log, and drives a State
// by the verdicts of Decide alone.
type world struct {
	t     *rapid.T
	state *State

	log      []batchfmt.Batch // all there ever was; [0,kept) is what retention removed
	durable  int              // batches of log that are synced
	kept     int
	snapshot []byte // the newest, nil if none
	snapAt   int    // batches of log that it counts

	epochs   map[batchfmt.ProducerID]batchfmt.Epoch // of the catalog; of the client at the gateway
	openings map[batchfmt.ProducerID]uint64
	sent     []batchfmt.Batch // all that was ever sealed, for retries
}

var worldPIDs = []batchfmt.ProducerID{1, 2, gatewayPID}

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, state: New(Limits{}),
		epochs:   map[batchfmt.ProducerID]batchfmt.Epoch{},
		openings: map[batchfmt.ProducerID]uint64{},
	}
	w.reopen()
	return w
}

// reopen opens the native lanes after a start.
func (w *world) reopen() {
	for _, pid := range worldPIDs {
		if !InGatewaySpace(pid) {
			w.openings[pid] = w.state.Opened(pid)
		}
	}
}

func (w *world) end() batchfmt.Offset { return endOf(w.log) }

func endOf(log []batchfmt.Batch) batchfmt.Offset {
	if len(log) == 0 {
		return 0
	}
	return log[len(log)-1].NextOffset()
}

// lane is what the log says of pid: the batches of the current numbering and the lane
// epoch, found by reading everything.
func (w *world) lane(pid batchfmt.ProducerID) (batches []batchfmt.Batch, epoch batchfmt.Epoch, known bool) {
	for _, b := range w.log {
		if b.ProducerID() != pid {
			continue
		}
		known = true
		e := b.Epoch()
		if b.IsControl() {
			c, err := b.Control()
			if err != nil {
				w.t.Fatal(err)
			}
			e = c.MinEpoch
		} else {
			if InGatewaySpace(pid) && e > epoch {
				batches = nil
			}
			batches = append(batches, b)
		}
		epoch = max(epoch, e)
	}
	return batches, epoch, known
}

// judge is the reference: the kind that Decide must come to at last.
func (w *world) judge(b batchfmt.Batch) (Kind, batchfmt.Offset) {
	batches, epoch, known := w.lane(b.ProducerID())
	onGateway := InGatewaySpace(b.ProducerID())
	switch {
	case onGateway && known && b.Epoch() < epoch:
		return Fenced, UnknownOffset
	case onGateway && b.Epoch() > epoch && b.BaseSequence() == 0:
		return Accept, UnknownOffset
	case onGateway && known && b.Epoch() > epoch:
		return Gap, UnknownOffset
	}
	expected := batchfmt.Seq(0)
	for _, o := range batches {
		expected = o.LastSequence() + 1
		if b.BaseSequence() > o.LastSequence() || o.BaseSequence() > b.LastSequence() {
			continue
		}
		return w.judgeTouched(o, b)
	}
	switch {
	case !known && b.BaseSequence() > 0 && onGateway && w.end() > 0:
		return Accept, UnknownOffset // without history
	case !known && b.BaseSequence() > 0:
		return Gap, UnknownOffset
	case b.BaseSequence() < expected: // only where the gateway took a lane in its middle
		return w.judgeBelow(batches[0], b)
	case b.BaseSequence() > expected:
		return Gap, UnknownOffset
	case b.Epoch() < epoch:
		return Fenced, UnknownOffset
	}
	return Accept, UnknownOffset
}

// judgeTouched: o of the log shares a sequence with b. It is the first that does.
func (w *world) judgeTouched(o, b batchfmt.Batch) (Kind, batchfmt.Offset) {
	batches, _, _ := w.lane(b.ProducerID())
	last := batches[len(batches)-1].LastSequence()
	same := IdentityOf(o) == IdentityOf(b)
	behind := len(batches) > WindowSize && b.LastSequence() < batches[len(batches)-WindowSize].BaseSequence()
	removed := o.BaseOffset() < w.start() && behind && b.BaseSequence() >= batches[0].BaseSequence() && b.LastSequence() <= last
	switch {
	case removed:
		return Duplicate, UnknownOffset
	case same && o.BaseOffset() >= endOf(w.log[:w.durable]):
		return Attach, o.BaseOffset()
	case same:
		return Duplicate, o.BaseOffset()
	}
	return Conflict, UnknownOffset
}

// judgeBelow: b starts below the first batch of a lane that has a floor.
func (w *world) judgeBelow(first, b batchfmt.Batch) (Kind, batchfmt.Offset) {
	if b.LastSequence() < first.BaseSequence() {
		return UnknownOutcome, UnknownOffset
	}
	return Conflict, UnknownOffset
}

func (w *world) start() batchfmt.Offset { return endOf(w.log[:w.kept]) }

func (w *world) right(pid batchfmt.ProducerID) Right {
	if InGatewaySpace(pid) {
		return Right{Gateway: true}
	}
	return Right{Holds: true, Opening: w.openings[pid], CurrentEpoch: w.epochs[pid]}
}

// find is the look-up, as the log's producer index would answer it.
func (w *world) find(id Identity) Finding {
	for i := len(w.log) - 1; i >= 0; i-- {
		b := w.log[i]
		if b.ProducerID() != id.PID || b.IsControl() || b.BaseSequence() > id.Base || b.LastSequence() < id.Base {
			continue
		}
		if i < w.kept {
			return Finding{Found: FoundRemoved}
		}
		return Finding{FoundBatch, b.BaseOffset(), b.BaseSequence(), b.LastSequence(), b.Digest()}
	}
	return Finding{Found: FoundNothing}
}

// send decides b, checks the verdict against the reference and obeys it.
func (w *world) send(b batchfmt.Batch) Verdict {
	id := IdentityOf(b)
	ev := Evidence{Durable: endOf(w.log[:w.durable]), LogEnd: w.end()}
	kind, offset := w.judge(b)
	v := Decide(w.right(id.PID), w.state.Lane(id.PID), id, ev)
	for range 2 {
		switch v.Kind {
		case Load:
			ev.Loaded = true
		case LookUp:
			ev.LookedUp = w.find(id)
		}
		if !v.Ends() {
			v = Decide(w.right(id.PID), w.state.Lane(id.PID), id, ev)
		}
	}
	if v.Kind != kind {
		w.t.Fatalf("%+v: %v (row %d), the log says %v", id, v, v.Row, kind)
	}
	if (v.Kind == Duplicate || v.Kind == Attach) && v.Offset != offset {
		w.t.Fatalf("%+v: %v, the original is at %d", id, v, offset)
	}
	if v.Kind == Accept {
		w.append(b)
	}
	return v
}

// append writes b to the log, after a look of its own for anything that P2 and P3
// forbid: a sequence taken twice or a hole.
func (w *world) append(b batchfmt.Batch) {
	batches, epoch, _ := w.lane(b.ProducerID())
	renumbers := InGatewaySpace(b.ProducerID()) && b.Epoch() > epoch
	if n := len(batches); n > 0 && !renumbers && batches[n-1].LastSequence()+1 != b.BaseSequence() {
		w.t.Fatalf("[%d..%d] was accepted behind %d", b.BaseSequence(), b.LastSequence(), batches[n-1].LastSequence())
	}
	b = w.copy(b)
	b.Stamp(batchfmt.Stamp{BaseOffset: w.end()})
	w.log = append(w.log, b)
	w.state.Apply(IdentityOf(b), b.BaseOffset(), b.Position())
}

// copy gives bytes of its own to a batch that is stamped: every retry is other memory.
func (w *world) copy(b batchfmt.Batch) batchfmt.Batch {
	c, err := batchfmt.Parse(append([]byte(nil), b.Bytes()...))
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) seal(pid batchfmt.ProducerID, epoch batchfmt.Epoch, base batchfmt.Seq, n int) batchfmt.Batch {
	var builder batchfmt.Builder
	value := []byte{rapid.Byte().Draw(w.t, "value")}
	for range n {
		if err := builder.Add(&batchfmt.Record{Value: value}); err != nil {
			w.t.Fatal(err)
		}
	}
	s := batchfmt.Seal{ProducerID: pid, Epoch: epoch, BaseSequence: base}
	if rapid.Bool().Draw(w.t, "with position") {
		s.Position = value
	}
	bytes, err := builder.Seal(nil, s)
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := batchfmt.Parse(bytes)
	if err != nil {
		w.t.Fatal(err)
	}
	w.sent = append(w.sent, b)
	return b
}

func (w *world) drawPID() batchfmt.ProducerID {
	return rapid.SampledFrom(worldPIDs).Draw(w.t, "pid")
}

// The actions.

func (w *world) sendNext(*rapid.T) {
	pid := w.drawPID()
	n := rapid.IntRange(1, 4).Draw(w.t, "records")
	base := w.state.Lane(pid).Last() + 1
	if InGatewaySpace(pid) && w.state.Lane(pid).Epoch() < w.epochs[pid] {
		base = 0
	}
	w.send(w.seal(pid, w.epochs[pid], base, n))
}

func (w *world) retry(*rapid.T) {
	if len(w.sent) > 0 {
		w.send(rapid.SampledFrom(w.sent).Draw(w.t, "retried"))
	}
}

func (w *world) sendAnything(*rapid.T) {
	pid := w.drawPID()
	base := rapid.Int64Range(0, int64(w.state.Lane(pid).Last())+3).Draw(w.t, "base")
	epoch := rapid.Uint32Range(0, uint32(w.epochs[pid])).Draw(w.t, "epoch")
	w.send(w.seal(pid, batchfmt.Epoch(epoch), batchfmt.Seq(base), rapid.IntRange(1, 6).Draw(w.t, "records")))
}

func (w *world) bumpEpoch(*rapid.T) { w.epochs[w.drawPID()]++ }

// fence is what a settle does: a control batch, and the holder's epoch follows.
func (w *world) fence(*rapid.T) {
	pid := rapid.SampledFrom(worldPIDs[:2]).Draw(w.t, "pid")
	w.epochs[pid]++
	l := w.state.Lane(pid)
	w.control(pid, batchfmt.Control{
		Kind: batchfmt.ControlFence, MinEpoch: w.epochs[pid],
		Floor: l.Floor(), Last: l.Last(), Position: l.Position(),
	})
}

func (w *world) close(*rapid.T) {
	pid := rapid.SampledFrom(worldPIDs[:2]).Draw(w.t, "pid")
	l := w.state.Lane(pid)
	w.control(pid, batchfmt.Control{Kind: batchfmt.ControlClose, MinEpoch: l.Epoch(), Floor: l.Floor(), Last: l.Last()})
}

func (w *world) control(pid batchfmt.ProducerID, c batchfmt.Control) {
	b, err := batchfmt.Parse(batchfmt.AppendControl(nil, pid, w.epochs[pid], c))
	if err != nil {
		w.t.Fatal(err)
	}
	b.Stamp(batchfmt.Stamp{BaseOffset: w.end()})
	w.log = append(w.log, b)
	w.state.Replay(b)
}

// failedGroup is a group whose write failed: nothing of it may be left.
func (w *world) failedGroup(t *rapid.T) {
	before, _, err := ParseSnapshot(AppendSnapshot(nil, w.state, testPartition, w.end()), &testPartition)
	if err != nil {
		w.t.Fatal(err)
	}
	log := len(w.log)
	w.state.Begin()
	for range rapid.IntRange(1, 8).Draw(w.t, "batches") {
		w.sendNext(t)
	}
	w.state.Rollback()
	w.log = w.log[:log]
	if !Equal(w.state, before) {
		w.t.Fatal("the rollback left something behind")
	}
}

func (w *world) group(t *rapid.T) {
	w.state.Begin()
	for range rapid.IntRange(1, 8).Draw(w.t, "batches") {
		w.sendNext(t)
	}
	w.state.Commit()
}

func (w *world) sync(*rapid.T) { w.durable = len(w.log) }

func (w *world) takeSnapshot(*rapid.T) {
	w.durable = len(w.log)
	w.snapshot, w.snapAt = AppendSnapshot(nil, w.state, testPartition, w.end()), len(w.log)
}

// retain removes a prefix that the snapshot covers.
func (w *world) retain(*rapid.T) {
	if w.snapshot != nil {
		w.kept = rapid.IntRange(w.kept, w.snapAt).Draw(w.t, "removed")
	}
}

// restart loses a part of what is not durable and comes back from the snapshot, with a
// replay that may begin before its end, or from the whole log.
func (w *world) restart(*rapid.T) {
	w.log = w.log[:rapid.IntRange(w.durable, len(w.log)).Draw(w.t, "survives")]
	w.durable = len(w.log)
	full := New(Limits{})
	for _, b := range w.log {
		full.Replay(b)
	}
	w.state = New(Limits{})
	from := 0
	if w.snapshot != nil {
		state, end, err := ParseSnapshot(w.snapshot, &testPartition)
		if err != nil || end != endOf(w.log[:w.snapAt]) {
			w.t.Fatalf("snapshot up to %d: %v", end, err)
		}
		w.state = state
		from = rapid.IntRange(w.kept, w.snapAt).Draw(w.t, "replay from")
	}
	for _, b := range w.log[from:] {
		w.state.Replay(b)
	}
	if !Equal(w.state, full) {
		w.t.Fatal("snapshot and replay differ from a replay of everything")
	}
	w.reopen()
}

// check compares what the lanes say of themselves with the log.
func (w *world) check(*rapid.T) {
	for _, pid := range worldPIDs {
		batches, epoch, known := w.lane(pid)
		l := w.state.Lane(pid)
		if l.Known() != known || l.Epoch() != epoch {
			w.t.Fatalf("producer %d: known %v in epoch %d, the log says %v and %d", pid, l.Known(), l.Epoch(), known, epoch)
		}
		if n := len(batches); n > 0 && (l.Last() != batches[n-1].LastSequence() || l.LastOffset() != batches[n-1].NextOffset()-1) {
			w.t.Fatalf("producer %d: last is %d at %d", pid, l.Last(), l.LastOffset())
		}
	}
}

// TestAgainstAReferenceThatForgetsNothing: whatever is sent, repeated, undone, synced,
// lost and restarted, Decide comes to what a look through the whole log says.
func TestAgainstAReferenceThatForgetsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		t.Repeat(map[string]func(*rapid.T){
			"":             w.check,
			"next":         w.sendNext,
			"retry":        w.retry,
			"anything":     w.sendAnything,
			"bump":         w.bumpEpoch,
			"fence":        w.fence,
			"close":        w.close,
			"failed group": w.failedGroup,
			"group":        w.group,
			"sync":         w.sync,
			"snapshot":     w.takeSnapshot,
			"retention":    w.retain,
			"restart":      w.restart,
			"forgotten":    w.asForgotten,
		})
	})
}
