package partition

import (
	"errors"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/planted"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/retired"
	"github.com/quoin-io/quoin/server/internal/seglog"
	"github.com/quoin-io/quoin/wire"
)

// A lookUp is a search in files for what a lane did long ago. It runs outside of the owner;
// later batches of the lane are held, so that they keep their order.
type lookUp struct {
	work func() found // in a helper
	then func(found)  // in the owner
	held []command
}

// found is what a search came back with.
type found struct {
	pid     batchfmt.ProducerID
	finding producerstate.Finding // of a batch
	row     producerstate.Retired // of a lane that has left memory; its Row is nil if there is none
	err     error
}

// lookUp searches for the batch that holds the range of a retry.
func (p *Partition) lookUp(pr *Produce, id producerstate.Identity) {
	p.appendGroup() // what was decided on top of a group must not outlive it
	batch := *pr
	p.lookUpFor(p.owner.state.Lane(id.PID), id, func(f producerstate.Finding, e *wire.Error) {
		if e != nil {
			p.answer(&batch, id, refusal(e.Code, e.Detail))
			return
		}
		p.act(&batch, id, p.verdict(&batch, id, f))
	})
}

// load decides about a batch of a lane that is not in memory. Who has opened it is; so this
// comes from a stream that has ended: there is nothing to bring back for it, and the log is not
// asked for what only a stream with a right is told.
func (p *Partition) load(pr *Produce, id producerstate.Identity) {
	p.appendGroup()
	batch := *pr
	p.recall(id.PID, func(r *recalled, e *wire.Error) {
		if e != nil {
			p.answer(&batch, id, refusal(e.Code, e.Detail))
			return
		}
		lane := p.owner.state.Lane(id.PID)
		if !lane.Known() && r.lane != nil {
			lane = r.lane
		}
		ev := p.evidenceWith(id.PID, producerstate.Finding{}, r)
		p.act(&batch, id, p.asReadable(producerstate.Decide(batch.Opening.right(), lane, id, ev)))
	})
}

// lookUpFor searches for the stored batch that holds the range of id, which the lane has
// passed. What an unknown lane has passed nobody can say: there only proof counts.
func (p *Partition) lookUpFor(lane *producerstate.Lane, id producerstate.Identity, then func(producerstate.Finding, *wire.Error)) {
	count := &p.cfg.Counters.LookUps
	find := p.findBatch
	if !lane.Known() {
		find = p.findProven
	}
	started := p.search(id.PID, func() found {
		f, err := find(id)
		return found{finding: f, err: err}
	}, func(f found) {
		if f.err != nil {
			if !p.ending.Load() {
				count.Failed.Add(1)
			}
			then(producerstate.Finding{}, p.lookUpFailed(f.err))
			return
		}
		switch f.finding.Found {
		case producerstate.FoundBatch:
			count.Found.Add(1)
		case producerstate.FoundRemoved:
			count.Removed.Add(1)
		case producerstate.FoundDamaged:
			count.Damaged.Add(1)
		default:
			count.Nothing.Add(1)
		}
		then(f.finding, nil)
	})
	if !started {
		then(producerstate.Finding{}, p.notSearched())
	}
}

// A recalled lane is what is known of one that is not in memory.
type recalled struct {
	lane      *producerstate.Lane // nil if it was not found
	row       producerstate.Retired
	forgotten bool // it was not found, and may have been here
	doubtful  bool // likewise, because of damage
}

// recall looks for a lane that is not in memory in the retired table.
func (p *Partition) recall(pid batchfmt.ProducerID, then func(*recalled, *wire.Error)) {
	get := func() found {
		row, ok, err := p.retired.Get(pid)
		if !ok || err != nil {
			return found{err: err}
		}
		return found{row: producerstate.Retired{Row: row.Value, Stale: row.Stale}}
	}
	arrived := func(f found) {
		r, e := p.recalled(pid, f)
		then(r, e)
	}
	if !p.retired.MayHave(pid) {
		arrived(found{}) // as almost always with a new one
		return
	}
	if !p.search(pid, get, arrived) {
		then(nil, p.notSearched())
	}
}

func (p *Partition) recalled(pid batchfmt.ProducerID, f found) (*recalled, *wire.Error) {
	state := p.owner.state
	switch {
	case errors.Is(f.err, retired.ErrDamaged):
		p.cfg.Logger.Error("a retired producer cannot be read", "topic", p.cfg.Topic, "partition", p.cfg.Number, "producer", pid, "error", f.err)
		return &recalled{forgotten: true, doubtful: true}, nil
	case f.err != nil && !planted.UnreadAsNew:
		return nil, p.lookUpFailed(f.err)
	case f.row.Row == nil:
		return &recalled{forgotten: state.MayHaveForgotten(pid) || p.retired.MayHaveForgotten(pid) && !planted.ForgottenIsNew}, nil
	}
	lane, err := state.Recall(pid, f.row)
	if err != nil {
		p.cfg.Logger.Error("a retired producer makes no sense", "topic", p.cfg.Topic, "partition", p.cfg.Number, "error", err)
		return &recalled{forgotten: true, doubtful: true}, nil
	}
	return &recalled{lane: lane, row: f.row}, nil
}

// notSearched is the answer when a look-up could not begin.
func (p *Partition) notSearched() *wire.Error {
	if p.owner.ended {
		return p.lookUpFailed(errEnding)
	}
	p.cfg.Counters.LookUps.Throttled.Add(1)
	return wire.Errorf(wire.CodeThrottled, "too many look-ups in this partition")
}

// lookUpFailed is the answer when something is stored somewhere, by all that is known, and
// could not be found because of err.
func (p *Partition) lookUpFailed(err error) *wire.Error {
	if p.ending.Load() {
		e := *p.queue.closed
		return &e
	}
	return wire.Errorf(wire.CodeLookUpFailed, "%v", err)
}

// afterLookUp runs act when no look-up of the lane is under way: what was sent before it
// is decided then.
func (p *Partition) afterLookUp(pid batchfmt.ProducerID, act func()) {
	if l := p.owner.lookUps[pid]; l != nil {
		l.held = append(l.held, command{act: act})
		return
	}
	act()
}

// search looks something up for a lane that has no look-up under way, as soon as one of the
// few that may run at once is free. It reports false when too many wait.
func (p *Partition) search(pid batchfmt.ProducerID, work func() found, then func(found)) bool {
	o := &p.owner
	if o.ended || len(o.lookUps) >= maxLookUps || o.lookUps[pid] != nil {
		return false
	}
	o.lookUps[pid] = &lookUp{work: work, then: then}
	o.toSearch = append(o.toSearch, pid)
	p.startSearches()
	return true
}

func (p *Partition) startSearches() {
	o := &p.owner
	for o.searching < maxSearches && len(o.toSearch) > 0 {
		pid := o.toSearch[0]
		o.toSearch = o.toSearch[1:]
		o.searching++
		work := o.lookUps[pid].work
		p.helpers.Add(1)
		go func() { // ends with the search; end waits for it
			defer p.helpers.Done()
			f := work()
			f.pid = pid
			p.found <- f // room for each that may run
		}()
	}
}

// onFound goes on with the batch that was looked up and those that were held behind it.
func (p *Partition) onFound(f found) {
	o := &p.owner
	l := o.lookUps[f.pid]
	delete(o.lookUps, f.pid)
	o.searching--
	p.startSearches()
	l.then(f)
	for i := range l.held {
		c := &l.held[i]
		if c.act == nil {
			p.decide(&c.produce)
			continue
		}
		p.appendGroup()
		p.afterLookUp(f.pid, c.act) // a batch of held may have started another one
	}
	p.appendGroup()
}

// dropLookUps answers what waits for look-ups that nobody will hear of any more.
func (p *Partition) dropLookUps() {
	p.owner.toSearch, p.owner.ended = nil, true
	for pid, l := range p.owner.lookUps {
		delete(p.owner.lookUps, pid)
		l.then(found{pid: pid, err: errEnding})
		for i := range l.held {
			if c := &l.held[i]; c.act != nil {
				c.act()
			} else {
				p.refuse(&c.produce, p.queue.closed)
			}
		}
	}
}

var errEnding = errors.New("the partition is closing")

// findBatch looks for the stored batch that holds the first sequence of id, or any part of
// its range, in a lane that has passed it. The producer indexes lead to it; what they do not
// know is searched for in the log itself, which also tells whether it may stand in a damaged
// place. The digest of id is not looked at.
func (p *Partition) findBatch(id producerstate.Identity) (producerstate.Finding, error) {
	pid, base, last := id.PID, id.Base, id.Last
	offset, found, err := p.findPlace(pid, base)
	switch {
	case p.ending.Load():
		return producerstate.Finding{}, errEnding
	case err != nil || !found:
		// The log itself has the last word; an index that cannot be read is no answer.
		return p.searchLog(pid, base, last)
	}
	b, err := p.log.BatchAt(offset)
	var corrupt *seglog.CorruptError
	switch {
	case errors.As(err, &corrupt):
		return producerstate.Finding{Found: producerstate.FoundDamaged, BaseOffset: offset}, nil
	case err != nil:
		return producerstate.Finding{}, err
	case b.ProducerID() != pid || b.LastSequence() < base || b.BaseSequence() > base:
		return p.searchLog(pid, base, last) // another batch than its header was a moment ago
	}
	return foundBatch(b), nil
}

func foundBatch(b batchfmt.Batch) producerstate.Finding {
	return producerstate.Finding{
		Found: producerstate.FoundBatch, BaseOffset: b.BaseOffset(),
		Base: b.BaseSequence(), Last: b.LastSequence(), Digest: b.Digest(),
	}
}

// searchLog is findBatch without an index. It reads headers only, newest segment first.
func (p *Partition) searchLog(pid batchfmt.ProducerID, base, last batchfmt.Seq) (producerstate.Finding, error) {
	b, found, err := p.log.FindBack(func(b batchfmt.Batch) (match, stop bool) {
		if p.ending.Load() {
			return false, true
		}
		if b.ProducerID() != pid || b.IsControl() {
			return false, false
		}
		match = b.BaseSequence() <= last && base <= b.LastSequence()
		// A lane is in order: in front of a batch that begins below, nothing can match.
		return match, b.BaseSequence() <= base
	})
	var corrupt *seglog.CorruptError
	switch {
	case p.ending.Load():
		return producerstate.Finding{}, errEnding
	case errors.As(err, &corrupt):
		return producerstate.Finding{Found: producerstate.FoundDamaged, BaseOffset: corrupt.Offset}, nil
	case err != nil:
		return producerstate.Finding{}, err
	case found:
		return foundBatch(b), nil
	case p.log.Start() > 0:
		return producerstate.Finding{Found: producerstate.FoundRemoved}, nil
	}
	return producerstate.Finding{Found: producerstate.FoundNothing}, nil
}
