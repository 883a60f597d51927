package partition

import (
	"errors"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/seglog"
	"github.com/quoin-io/quoin/wire"
)

// A lookUp is a search in the log for what a lane stored long ago. It runs outside of the
// owner; later batches of the lane are held, so that they keep their order.
type lookUp struct {
	then func(producerstate.Finding, error) // in the owner
	held []command
}

type lookUpDone struct {
	pid     batchfmt.ProducerID
	finding producerstate.Finding
	err     error
}

// lookUp searches for the batch that holds the range of a retry.
func (p *Partition) lookUp(pr *Produce, id producerstate.Identity) {
	p.appendGroup() // what was decided on top of a group must not outlive it
	batch := *pr
	started := p.search(id.PID, id.Base, id.Last, func(f producerstate.Finding, err error) {
		if err != nil {
			p.answer(&batch, id, p.lookUpFailed(err))
			return
		}
		p.act(&batch, id, p.verdict(&batch, id, f))
	})
	if !started {
		p.answer(pr, id, refusal(wire.CodeThrottled, "too many look-ups in this partition"))
	}
}

// lookUpFailed is the answer for a batch that is stored somewhere, by all that is known,
// and could not be found because of err.
func (p *Partition) lookUpFailed(err error) wire.ProduceResult {
	if p.ending.Load() {
		return refusal(p.queue.closed.Code, p.queue.closed.Detail)
	}
	return refusal(wire.CodeLookUpFailed, err.Error())
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

// search starts a look-up for a lane that has none. It reports false when too many run.
func (p *Partition) search(pid batchfmt.ProducerID, base, last batchfmt.Seq, then func(producerstate.Finding, error)) bool {
	o := &p.owner
	if len(o.lookUps) >= maxLookUps || o.lookUps[pid] != nil {
		return false
	}
	o.lookUps[pid] = &lookUp{then: then}
	p.helpers.Add(1)
	go func() { // ends with the search; end waits for it
		defer p.helpers.Done()
		f, err := p.findBatch(pid, base, last)
		p.found <- lookUpDone{pid: pid, finding: f, err: err} // room for each that may run
	}()
	return true
}

// onFound goes on with the batch that was looked up and those that were held behind it.
func (p *Partition) onFound(d lookUpDone) {
	o := &p.owner
	l := o.lookUps[d.pid]
	delete(o.lookUps, d.pid)
	l.then(d.finding, d.err)
	for i := range l.held {
		c := &l.held[i]
		if c.act == nil {
			p.decide(&c.produce)
			continue
		}
		p.appendGroup()
		p.afterLookUp(d.pid, c.act) // a batch of held may have started another one
	}
	p.appendGroup()
}

// dropLookUps answers what waits for look-ups that nobody will hear of any more.
func (p *Partition) dropLookUps() {
	for pid, l := range p.owner.lookUps {
		delete(p.owner.lookUps, pid)
		l.then(producerstate.Finding{}, errEnding)
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

// findBatch looks for the stored batch that holds sequence base of a lane, or any part
// of [base..last]. It reads headers only, newest segment first.
func (p *Partition) findBatch(pid batchfmt.ProducerID, base, last batchfmt.Seq) (producerstate.Finding, error) {
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
		return producerstate.Finding{
			Found: producerstate.FoundBatch, BaseOffset: b.BaseOffset(),
			Base: b.BaseSequence(), Last: b.LastSequence(), Digest: b.Digest(),
		}, nil
	case p.log.Start() > 0:
		return producerstate.Finding{Found: producerstate.FoundRemoved}, nil
	}
	return producerstate.Finding{Found: producerstate.FoundNothing}, nil
}
