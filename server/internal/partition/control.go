package partition

import (
	"errors"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/planted"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/seglog"
	"github.com/quoin-io/quoin/wire"
)

// Control batches use no offset, so the durable end does not tell when one is durable. They
// are counted instead: what is appended when a sync begins is durable when it succeeds.
type controls struct {
	appended, syncing, durable uint64
	waiting                    []controlWait // in the order of their numbers
}

type controlWait struct {
	number uint64
	act    func(failure *wire.Error)
}

// syncBegins notes what the sync that begins now will cover at least.
func (c *controls) syncBegins() { c.syncing = c.appended }

// release lets those go on that waited for what is durable now.
func (c *controls) release() {
	for len(c.waiting) > 0 && c.waiting[0].number <= c.durable {
		act := c.waiting[0].act
		c.waiting = c.waiting[1:]
		act(nil)
	}
}

func (c *controls) fail(why *wire.Error) {
	waiting := c.waiting
	c.waiting = nil
	for _, w := range waiting {
		e := *why // each writes its subject into it
		w.act(&e)
	}
}

// appendControl writes a control batch for a lane and moves the lane with it. act is called
// when it is durable, or with why it is not: an error with the outcome "unknown" if it may
// be found by the next start all the same.
func (p *Partition) appendControl(pid batchfmt.ProducerID, c batchfmt.Control, act func(failure *wire.Error)) {
	o := &p.owner
	p.appendGroup()
	if o.failure != nil {
		act(wire.Errorf(wire.CodePartitionStopped, "%s", o.failure.Detail))
		return
	}
	lane := o.state.Lane(pid)
	c.Floor, c.Last, c.Position = lane.Floor(), lane.Last(), lane.Position()
	b, err := batchfmt.Parse(batchfmt.AppendControl(nil, pid, lane.Epoch(), c))
	if err != nil {
		act(wire.Errorf(wire.CodeInternal, "%v", err))
		return
	}
	o.lastTime = max(o.lastTime, p.cfg.Now().UnixMilli())
	b.Stamp(batchfmt.Stamp{BaseOffset: o.end, AppendTime: o.lastTime, Term: o.term, Durable: o.durable})
	o.state.Begin()
	o.state.Replay(b)
	if err := p.log.Append([]batchfmt.Batch{b}); err != nil {
		o.state.Rollback()
		p.cfg.Logger.Error("control batch not written", "topic", p.cfg.Topic, "partition", p.cfg.Number, "producer", pid, "error", err)
		p.countFailure(err)
		if errors.Is(err, seglog.ErrBroken) {
			p.fail(err)
			act(wire.Errorf(wire.CodeDurabilityUnknown, "%v", err))
			return
		}
		act(storageError(err))
		return
	}
	o.state.Commit()
	p.place([]batchfmt.Batch{b})
	o.unsaved += b.Size()
	o.controls.appended++
	o.controls.waiting = append(o.controls.waiting, controlWait{o.controls.appended, act})
	if planted.FenceNotAwaited {
		o.controls.durable = o.controls.appended
		o.controls.release()
	}
	p.startSync()
}

// afterControls runs act when all control batches are durable, or with why they are not.
func (p *Partition) afterControls(act func(failure *wire.Error)) {
	c := &p.owner.controls
	switch {
	case c.appended <= c.durable:
		act(nil)
	case p.owner.failure != nil:
		act(wire.Errorf(wire.CodeDurabilityUnknown, "%s", p.owner.failure.Detail))
	default:
		c.waiting = append(c.waiting, controlWait{c.appended, act})
	}
}

// CloseProducer notes in the log that a producer has ended its lane here, if it has one: a
// closed lane is the first to leave memory. The caller has revoked the producer's grants,
// so nothing new of it can come. done is called when that is durable, or with why not.
func (p *Partition) CloseProducer(pid batchfmt.ProducerID, done func(*wire.Error)) {
	closed := p.do(func() {
		p.afterLookUp(pid, func() {
			lane := p.owner.state.Lane(pid)
			if !lane.Known() || lane.Closed() {
				p.park(lane.PendingEnd(), func(failure *wire.Error) {
					if failure != nil {
						done(failure)
						return
					}
					p.afterControls(done)
				})
				return
			}
			p.appendControl(pid, batchfmt.Control{Kind: batchfmt.ControlClose, MinEpoch: lane.Epoch()}, done)
		})
	})
	if closed != nil {
		done(nil) // a partition that is closed has nothing to end
	}
}

// fence raises the lowest epoch that the lane takes above that of a batch which is not
// stored, so that no copy of it can be any more.
func (p *Partition) fence(id producerstate.Identity, act func(*wire.Error)) {
	if id.Epoch == batchfmt.Epoch(1<<32-1) {
		act(wire.Errorf(wire.CodeInvalidRequest, "no epoch is above that of the batch"))
		return
	}
	p.appendControl(id.PID, batchfmt.Control{Kind: batchfmt.ControlFence, MinEpoch: id.Epoch + 1}, act)
}
