package partition

import (
	"errors"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/counters"
	"github.com/quoin-io/quoin/server/internal/planted"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/seglog"
	"github.com/quoin-io/quoin/wire"
)

// logEvery is the least time between two lines about the same trouble.
const logEvery = time.Second

// owner is the state of the owner's goroutine.
type owner struct {
	state    *producerstate.State
	term     batchfmt.Term
	end      batchfmt.Offset // of the log, what is not durable included
	durable  batchfmt.Offset
	lastTime int64       // append time of the last batch, Unix milliseconds
	failure  *wire.Error // set when the partition takes no writes any more

	group   group
	waiters []waiter // in the order of their appends, but for attached ones
	syncing bool
	since   time.Time   // of the oldest append that no sync has begun for; zero if there is none
	late    *time.Timer // goes off when the sync of that one is due, if nobody waits for it
	taken   []command   // the queue's items, one buffer reused for all groups

	lookUps   map[batchfmt.ProducerID]*lookUp // those that run or wait
	toSearch  []batchfmt.ProducerID           // those that wait, in their order
	searching int                             // how many run
	ended     bool                            // nothing is looked up any more

	wantRoom []newcomer
	retiring bool // lanes are on their way to the retired table
	levels   struct{ lanes, retired counters.Part }

	parked []parked // what waits for the durable end

	controls controls

	refusedBatches int           // by failed appends that were not logged yet
	refusalDue     time.Duration // uptime from which they may be logged again

	unsaved  int // bytes of batches since the last snapshot was taken
	snapshot *pendingSnapshot
	saving   bool // a snapshot is being written
}

// A group is what goes down in one append, with all answers that depend on it.
type group struct {
	batches []batchfmt.Batch
	bytes   int
	next    batchfmt.Offset // behind the last batch
	entries []entry         // everything decided since the first batch of the group
}

// An entry is one decided batch of a group.
type entry struct {
	produce Produce
	result  wire.ProduceResult
	until   batchfmt.Offset // the durable end that the answer waits for; 0 for none
	control uint64          // the control batch that it waits for; 0 for none
	decided time.Time
}

// A waiter is an answer that waits for the sync.
type waiter struct {
	sink    Sink
	result  wire.ProduceResult
	until   batchfmt.Offset
	control uint64
	written time.Time
}

// run is the owner's goroutine. It starts in Open and ends by end, which waits for it.
func (p *Partition) run() {
	defer close(p.done)
	p.owner.late = time.NewTimer(maxUnsynced)
	p.owner.late.Stop()
	for {
		p.owner.levels.lanes.Set(p.owner.state.Len())
		select {
		case <-p.wake:
			p.work()
		case d := <-p.synced:
			p.onSynced(d)
		case <-p.owner.late.C:
			p.startSync()
		case d := <-p.found:
			p.onFound(d)
		case mode := <-p.stop:
			p.shutDown(mode)
			return
		}
	}
}

// work takes all that has queued and appends it in groups.
func (p *Partition) work() {
	o := &p.owner
	o.state.Tick(p.cfg.Uptime())
	p.queue.Lock()
	o.taken, p.queue.items, p.queue.bytes = p.queue.items, o.taken[:0], 0
	p.queue.Unlock()
	for i := range o.taken {
		c := &o.taken[i]
		if c.act != nil {
			p.appendGroup() // it must see a state that stands
			c.act()
			continue
		}
		p.decide(&c.produce)
		if o.group.bytes >= groupBytes {
			p.appendGroup()
		}
	}
	clear(o.taken) // the buffers are not ours any more
	p.appendGroup()
}

// decide asks about one batch and acts on the verdict, up to the append.
func (p *Partition) decide(pr *Produce) {
	o := &p.owner
	id := producerstate.IdentityOf(pr.Batch)
	if id.PID == batchfmt.NoProducer {
		id.Base = pr.number()
		p.accept(pr, id) // there is nothing to compare it with
		return
	}
	if l := o.lookUps[id.PID]; l != nil {
		l.held = append(l.held, command{produce: *pr}) // it waits for the one before it
		return
	}
	if planted.LimitsFirst && int64(pr.Batch.Size()) > p.cfg.MaxBatchBytes.Load() {
		p.answer(pr, id, refusal(wire.CodeMessageTooLarge, ""))
		return
	}
	if planted.ClockExpiry && p.cfg.Now().UnixMilli()-o.lastTime > (24*time.Hour).Milliseconds() {
		o.state = producerstate.New(p.cfg.Producers)
	}
	o.state.Confirm(id.PID, pr.Confirmed)
	p.act(pr, id, p.verdict(pr, id, producerstate.Finding{}))
}

func (p *Partition) verdict(pr *Produce, id producerstate.Identity, f producerstate.Finding) producerstate.Verdict {
	o := &p.owner
	if planted.DedupOff {
		return producerstate.Verdict{Kind: producerstate.Accept}
	}
	o.state.Cover(id.PID, pr.Opening.right().CurrentEpoch)
	return p.asReadable(producerstate.Decide(pr.Opening.right(), o.state.Lane(id.PID), id, p.evidence(id.PID, f)))
}

// asReadable takes back that a batch is stored where the log has lost it since: the lane
// remembers it, but nobody can read it.
func (p *Partition) asReadable(v producerstate.Verdict) producerstate.Verdict {
	if v.Offset < 0 || !p.log.Unreadable(v.Offset) || planted.LostIsStored {
		return v
	}
	switch v.Kind {
	case producerstate.Duplicate:
		return producerstate.Verdict{Kind: producerstate.Damaged, Row: v.Row, Offset: v.Offset}
	case producerstate.Fenced:
		v.Fate, v.Offset = producerstate.FateUnknown, producerstate.UnknownOffset
	}
	return v
}

// evidence is what there is to know besides the lane.
func (p *Partition) evidence(pid batchfmt.ProducerID, f producerstate.Finding) producerstate.Evidence {
	o := &p.owner
	looked, doubtful := o.state.Lane(pid).Looked()
	return producerstate.Evidence{
		Durable: o.durable, Loaded: looked, Forgotten: doubtful || o.state.MayHaveForgotten(pid), Lossy: o.state.Lossy(), LogEnd: o.end, LookedUp: f,
	}
}

// evidenceWith adds what was found of a lane that is not in memory.
func (p *Partition) evidenceWith(pid batchfmt.ProducerID, f producerstate.Finding, gone *recalled) producerstate.Evidence {
	ev := p.evidence(pid, f)
	if gone != nil {
		ev.Loaded, ev.Forgotten = true, gone.forgotten
	}
	return ev
}

func (p *Partition) act(pr *Produce, id producerstate.Identity, v producerstate.Verdict) {
	p.note(id, v)
	switch v.Kind {
	case producerstate.Accept:
		p.accept(pr, id)
	case producerstate.LookUp:
		p.lookUp(pr, id)
	case producerstate.Load:
		p.load(pr, id)
	case producerstate.Attach:
		if p.owner.failure != nil {
			p.answer(pr, id, refusal(wire.CodeDurabilityUnknown, "the batch was appended, and then the sync failed"))
			return
		}
		r := stored(id, v.Offset)
		r.Duplicate, r.Verified = true, true
		if planted.EarlyDuplicate {
			p.answer(pr, id, r)
			return
		}
		p.enter(entry{produce: *pr, result: r, until: v.Offset + batchfmt.Offset(id.Last-id.Base) + 1})
	case producerstate.Duplicate:
		r := stored(id, v.Offset)
		r.Duplicate, r.Verified = true, v.Verified
		p.answer(pr, id, r)
	default:
		p.countConflict(v)
		r := refused(v)
		r.BaseSequence = id.Base
		if v.Kind == producerstate.Fenced && v.Row == 1 {
			if pr.Opening.grant.Holds() {
				// The instance is not fenced, only this opening of its lane is over.
				r.Code, r.Expected = wire.CodeSuperseded, -1
			} else if why := pr.Opening.grant.Fencer(); why != "" {
				r.Detail = why
			}
		}
		e := entry{produce: *pr, result: r}
		if (v.Kind == producerstate.Conflict || r.NotStored) && !planted.EarlyConflict {
			// It says that something stands in the way for ever: that must be durable.
			e.until, e.control = p.frontier(), p.owner.controls.appended
		}
		p.enter(e)
	}
}

// note keeps the decision for people who ask why.
func (p *Partition) note(id producerstate.Identity, v producerstate.Verdict) {
	if v.Kind == producerstate.Accept {
		v.Offset = p.frontier() // where it goes, unless it is refused for another reason
	}
	p.decisions.add(decision{at: p.cfg.Now().UnixMilli(), id: id, verdict: v})
}

// countConflict counts what is wrong with a batch whose sequences hold another one.
func (p *Partition) countConflict(v producerstate.Verdict) {
	c := &p.cfg.Counters.Conflicts
	switch {
	case v.Kind != producerstate.Conflict:
	case v.SameRange:
		c.Digest.Add(1)
	case v.Offset != producerstate.UnknownOffset:
		c.Range.Add(1)
	default:
		c.Overlap.Add(1)
	}
}

// frontier is the end of what was decided so far, durable or not.
func (p *Partition) frontier() batchfmt.Offset {
	if g := &p.owner.group; len(g.batches) > 0 {
		return g.next
	}
	return p.owner.end
}

// accept lets a new batch into the group, after the checks that only new batches meet.
func (p *Partition) accept(pr *Produce, id producerstate.Identity) {
	o := &p.owner
	limit := p.cfg.MaxBatchBytes.Load()
	switch {
	case o.failure != nil:
		p.answer(pr, id, refusal(wire.CodePartitionStopped, o.failure.Detail))
		return
	case pr.Unfit != nil:
		p.answer(pr, id, refusal(pr.Unfit.Code, pr.Unfit.Detail))
		return
	case int64(pr.Batch.Size()) > limit:
		r := refusal(wire.CodeMessageTooLarge, "")
		r.Expected = limit
		p.answer(pr, id, r)
		return
	}
	g := &o.group
	if len(g.batches) == 0 {
		o.state.Begin()
		g.next = o.end
	}
	o.lastTime = max(o.lastTime, p.cfg.Now().UnixMilli())
	pr.Batch.Stamp(batchfmt.Stamp{BaseOffset: g.next, AppendTime: o.lastTime, Term: o.term, Durable: o.durable})
	o.state.Apply(id, g.next, pr.Batch.Position())
	r := stored(id, g.next)
	r.AppendTime = o.lastTime
	if id.PID == batchfmt.NoProducer {
		r.PersistedThrough = -1
	}
	g.next = pr.Batch.NextOffset()
	g.batches = append(g.batches, pr.Batch)
	g.bytes += pr.Batch.Size()
	p.enter(entry{produce: *pr, result: r, until: g.next})
}

// answer gives an answer that needs no sync: at once, or with the group if it was decided
// on top of one that is not yet written.
func (p *Partition) answer(pr *Produce, id producerstate.Identity, r wire.ProduceResult) {
	r.BaseSequence = id.Base
	p.enter(entry{produce: *pr, result: r})
}

func (p *Partition) enter(e entry) {
	g := &p.owner.group
	e.decided = time.Now()
	if len(g.batches) == 0 {
		p.settle(&e, e.decided)
		p.startSync() // it may wait for an append that nobody has waited for so far
		return
	}
	g.entries = append(g.entries, e)
}

// settle gives the answer, or lets it wait for the sync; the batch's memory is free. Who asked
// for no more than a write is told of it at once. A refusal that rests on something stored
// waits in any case, as it is for ever.
func (p *Partition) settle(e *entry, written time.Time) {
	e.produce.Buffer.Release()
	e.result.Timings.Queue = e.decided.Sub(e.produce.Arrived)
	e.result.Timings.Append = written.Sub(e.decided)
	if p.owner.stands(e.until, e.control) || planted.EarlyAck {
		p.give(e.produce.Sink, e.result)
		return
	}
	if why := p.owner.failure; why != nil { // no sync will come any more
		r := refusal(wire.CodeDurabilityUnknown, why.Detail)
		r.BaseSequence = e.result.BaseSequence
		p.give(e.produce.Sink, r)
		return
	}
	if e.produce.Durability == wire.Written && e.result.Code == wire.CodeOK {
		p.give(e.produce.Sink, p.owner.provisional(e))
		return
	}
	p.owner.waiters = append(p.owner.waiters, waiter{
		sink: e.produce.Sink, result: e.result, until: e.until, control: e.control, written: written,
	})
}

// provisional is the result of a batch that is written and not durable. It claims no more for
// the batches before it, whatever their senders asked for.
func (o *owner) provisional(e *entry) wire.ProduceResult {
	r := e.result
	r.Provisional = !planted.WrittenAsSynced
	if !planted.WrittenPersists {
		r.PersistedThrough = o.durableThrough(e.produce.Opening.ProducerID())
	}
	return r
}

// durableThrough is the last sequence of a lane that is known to be durable, -1 if none is. A
// lane that has more batches under way than the window holds does not know.
func (o *owner) durableThrough(pid batchfmt.ProducerID) batchfmt.Seq {
	last := producerstate.NoSequence
	for b := range o.state.Lane(pid).Window() {
		if b.BaseOffset < o.durable {
			last = b.Last
		}
	}
	return last
}

// stands reports whether what an answer rests on is durable.
func (o *owner) stands(until batchfmt.Offset, control uint64) bool {
	return until <= o.durable && control <= o.controls.durable
}

// give hands out a result. No result takes another way.
func (p *Partition) give(to Sink, r wire.ProduceResult) {
	p.cfg.Counters.Batches.Answer(r.Code, r.Duplicate)
	if r.Provisional {
		p.cfg.Counters.Batches.Provisional.Add(1)
	}
	to.Result(r)
}

// appendGroup writes the group, or undoes it.
func (p *Partition) appendGroup() {
	o := &p.owner
	g := &o.group
	if len(g.batches) == 0 {
		return
	}
	err := p.log.Append(g.batches)
	if err != nil {
		p.undoGroup(err)
	} else {
		o.state.Commit()
		p.place(g.batches)
		p.cfg.Counters.Appended.Records.Add(uint64(g.next - o.end))
		p.cfg.Counters.Appended.Bytes.Add(uint64(g.bytes))
		o.end = g.next
		o.unsaved += g.bytes
		written := time.Now()
		if o.since.IsZero() {
			o.since = written
		}
		for i := range g.entries {
			p.settle(&g.entries[i], written)
		}
		p.startSync()
	}
	clear(g.batches)
	clear(g.entries)
	g.batches, g.entries, g.bytes = g.batches[:0], g.entries[:0], 0
}

// undoGroup takes back the group and everything that was decided on top of it: all get
// the same answer, which says that nothing happened.
func (p *Partition) undoGroup(err error) {
	o := &p.owner
	if planted.EarlyState {
		o.state.Commit()
	}
	o.state.Rollback()
	p.countFailure(err)
	failure := storageError(err)
	broken := errors.Is(err, seglog.ErrBroken)
	if broken {
		// The undo failed too: a part of the group may be found by the next start.
		failure = wire.Errorf(wire.CodeDurabilityUnknown, "%v", err)
	}
	o.refusedBatches += len(o.group.batches)
	if now := p.cfg.Uptime(); broken || now >= o.refusalDue { // a full disk refuses as often as clients try
		p.cfg.Logger.Error("append failed", "undone", !broken, "topic", p.cfg.Topic, "partition", p.cfg.Number,
			"batches", o.refusedBatches, "error", err)
		o.refusedBatches, o.refusalDue = 0, now+logEvery
	}
	for i := range o.group.entries {
		e := &o.group.entries[i]
		r := refusal(failure.Code, failure.Detail)
		r.BaseSequence = e.result.BaseSequence
		e.produce.Buffer.Release()
		p.give(e.produce.Sink, r)
	}
	if broken {
		p.fail(err)
	}
}

// countFailure counts a failed append.
func (p *Partition) countFailure(err error) {
	c := &p.cfg.Counters.Appended.Failures
	switch {
	case errors.Is(err, seglog.ErrBroken):
		c.Broken.Add(1)
	case storageError(err).Code == wire.CodeDiskFull:
		c.DiskFull.Add(1)
	default:
		c.IO.Add(1)
	}
}

// fail stops the partition: only a restart, which reads what the disk has, can tell what
// is true.
func (p *Partition) fail(err error) {
	o := &p.owner
	if o.failure != nil {
		return
	}
	o.failure = p.subject(wire.Errorf(wire.CodePartitionStopped, "%v", err))
	p.failed.Store(true)
	p.cfg.Logger.Error("partition stopped, restart the server", "topic", p.cfg.Topic, "partition", p.cfg.Number, "error", err)
	for i := range o.waiters {
		w := &o.waiters[i]
		r := refusal(wire.CodeDurabilityUnknown, err.Error())
		r.BaseSequence = w.result.BaseSequence
		p.give(w.sink, r)
	}
	o.waiters = nil
	o.controls.fail(wire.Errorf(wire.CodeDurabilityUnknown, "%v", err))
	p.failParked(wire.Errorf(wire.CodeDurabilityUnknown, "%v", err))
}

// stored is the result of a batch that stands at base.
func stored(id producerstate.Identity, base batchfmt.Offset) wire.ProduceResult {
	return wire.ProduceResult{
		BaseSequence: id.Base, Code: wire.CodeOK, BaseOffset: base, Expected: -1, PersistedThrough: id.Last,
	}
}

func refusal(code wire.Code, detail string) wire.ProduceResult {
	return wire.ProduceResult{Code: code, Detail: detail, BaseOffset: -1, Expected: -1, PersistedThrough: -1}
}

// refused turns a verdict that appends nothing into its result.
func refused(v producerstate.Verdict) wire.ProduceResult {
	r := refusal(wire.CodeInternal, v.String())
	switch v.Kind {
	case producerstate.Gap:
		r.Code, r.Expected = wire.CodeOutOfOrder, int64(v.Expected)
	case producerstate.Conflict:
		r.Code = wire.CodeSequenceConflict
	case producerstate.Fenced:
		r.Code, r.Expected = wire.CodeInvalidProducerEpoch, int64(v.Epoch)
		switch v.Fate {
		case producerstate.FateStored:
			r.BaseOffset = v.Offset
		case producerstate.FateNever:
			r.NotStored = true
		}
	case producerstate.Damaged:
		r.Code, r.BaseOffset = wire.CodeBatchUnreadable, v.Offset
	case producerstate.Invalid:
		r.Code = wire.CodeCorruptBatch
	case producerstate.UnknownOutcome:
		r.Code = wire.CodeUnknownOutcome
	case producerstate.UnknownProducer:
		r.Code = wire.CodeUnknownProducerID
	}
	return r
}
