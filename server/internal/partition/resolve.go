package partition

import (
	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/wire"
)

// A ResolveRequest asks what became of a batch.
type ResolveRequest struct {
	Batch producerstate.Identity
	// Settle makes "not stored" final: if the batch is not stored, a fence is written that
	// keeps every copy of it out. The caller has checked that the asker may do that.
	Settle bool
	// Reply is called once and must not block.
	Reply func(*wire.Resolved, *wire.Error)
}

// Resolve says what became of a batch, once all that the answer rests on is durable.
func (p *Partition) Resolve(r ResolveRequest) {
	closed := p.do(func() {
		p.afterLookUp(r.Batch.PID, func() { p.resolve(r, nil, producerstate.Finding{}) })
	})
	if closed != nil {
		r.Reply(nil, closed)
	}
}

// resolve asks again and again until nothing is missing. gone is the lane if it has left
// memory and was found.
func (p *Partition) resolve(r ResolveRequest, gone *recalled, f producerstate.Finding) {
	o := &p.owner
	id := r.Batch
	lane := o.state.Lane(id.PID)
	if !lane.Known() && gone != nil && gone.lane != nil {
		lane = gone.lane
	}
	v := producerstate.Resolve(lane, id, p.evidenceWith(id.PID, f, gone))
	if v.Kind == producerstate.ResolveStored && v.Offset >= 0 && p.log.Unreadable(v.Offset) {
		v.Unreadable = true
	}
	refuse := func(e *wire.Error) { r.Reply(nil, p.laneSubject(e, id.PID)) }
	again := func(failure *wire.Error) {
		if failure != nil {
			refuse(failure)
			return
		}
		p.afterLookUp(id.PID, func() { p.resolve(r, gone, f) })
	}
	switch {
	case v.Kind == producerstate.ResolveLoad:
		p.recall(id.PID, func(found *recalled, e *wire.Error) {
			if e != nil {
				refuse(e)
				return
			}
			p.resolve(r, found, f)
		})
	case v.Kind == producerstate.ResolveLookUp:
		p.lookUpFor(lane, id, func(f producerstate.Finding, e *wire.Error) {
			if e != nil {
				refuse(e)
				return
			}
			p.resolve(r, gone, f)
		})
	case v.Until > o.durable && (r.Settle || v.Kind != producerstate.ResolveInFlight || o.failure != nil):
		p.park(v.Until, again)
	case v.Kind == producerstate.ResolveNotYet && r.Settle:
		p.settleBatch(r, gone, f)
	case v.Kind == producerstate.ResolveNever && o.controls.appended > o.controls.durable:
		// It may rest on a fence that a crash would take away, and on no later one.
		m := p.resolved(lane, id, f, v)
		p.afterControls(func(failure *wire.Error) {
			if failure != nil {
				refuse(failure)
				return
			}
			r.Reply(m, nil)
		})
	default:
		r.Reply(p.resolved(lane, id, f, v), nil)
	}
}

// settleBatch writes the fence that makes "not stored" final. The lane must be in memory
// for it.
func (p *Partition) settleBatch(r ResolveRequest, gone *recalled, f producerstate.Finding) {
	o := &p.owner
	pid := r.Batch.PID
	refuse := func(e *wire.Error) { r.Reply(nil, p.laneSubject(e, pid)) }
	if o.state.AtLimit(pid) {
		p.room(pid, func(refused *wire.Error) {
			if refused != nil {
				refuse(refused)
				return
			}
			// Meanwhile the lane may have come back, gone on and left again: what was found
			// of it before says nothing any more.
			p.afterLookUp(pid, func() { p.resolve(r, nil, producerstate.Finding{}) })
		})
		return
	}
	if !o.state.Lane(pid).Known() && gone != nil && gone.lane != nil {
		if err := o.state.Restore(pid, gone.row); err != nil {
			refuse(wire.Errorf(wire.CodeInternal, "%v", err))
			return
		}
	}
	if v := producerstate.Resolve(o.state.Lane(pid), r.Batch, p.evidenceWith(pid, f, gone)); v.Kind != producerstate.ResolveNotYet {
		p.resolve(r, gone, f) // it came in while there was no room
		return
	}
	p.fence(r.Batch, func(failure *wire.Error) {
		if failure != nil {
			refuse(failure)
			return
		}
		p.resolve(r, nil, producerstate.Finding{})
	})
}

func (p *Partition) resolved(lane *producerstate.Lane, id producerstate.Identity, f producerstate.Finding, v producerstate.Resolution) *wire.Resolved {
	m := &wire.Resolved{
		Offset: v.Offset, Verified: v.Verified, Unreadable: v.Unreadable,
		LastSequence: max(lane.Last(), proven(id, f, v)), Epoch: lane.Epoch(), Detail: v.Reason,
	}
	switch v.Kind {
	case producerstate.ResolveStored:
		m.Outcome = wire.ResolveStored
	case producerstate.ResolveInFlight:
		m.Outcome = wire.ResolveInFlight
	case producerstate.ResolveNotYet:
		m.Outcome = wire.ResolveNotYet
	case producerstate.ResolveNever:
		m.Outcome = wire.ResolveNever
	default:
		m.Outcome = wire.ResolveUnknowable
	}
	return m
}

// proven is a sequence that the lane has come to by the answer itself, though nothing may be
// known of the lane. Whoever is told that it ends in front of a batch takes that for fenced,
// with all behind it.
func proven(id producerstate.Identity, f producerstate.Finding, v producerstate.Resolution) batchfmt.Seq {
	switch {
	case v.Kind == producerstate.ResolveStored:
		return id.Last
	case v.Kind == producerstate.ResolveNever && f.Found == producerstate.FoundBatch:
		return f.Last
	}
	return producerstate.NoSequence
}
