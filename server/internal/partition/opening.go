package partition

import (
	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/wire"
)

// OpenRequest asks for a lane on behalf of a stream.
type OpenRequest struct {
	Grant *Grant
	Epoch batchfmt.Epoch // under which the producer seals
	Acked *wire.LanePoint
	Sent  *batchfmt.Seq
	Fresh bool
	// Reply is called once and must not block: with where the lane stands, or with a
	// refusal. Only after the former are batches of the lane taken.
	Reply func(*wire.LaneOpened, *wire.Error)
}

// parked is work that waits until the durable end has come far enough.
type parked struct {
	until batchfmt.Offset
	act   func(failure *wire.Error)
}

// OpenLane opens a lane. Older openings of it lose their right at once; what they have
// appended is made durable before the answer. The opening is what batches of the lane
// come with; CloseLane ends it.
func (p *Partition) OpenLane(r OpenRequest) *Opening {
	o := &Opening{grant: r.Grant}
	open := func() { p.afterLookUp(r.Grant.ID, func() { p.openLane(r, o) }) }
	if closed := p.do(open); closed != nil {
		r.Reply(nil, closed)
	}
	return o
}

// OpenPlain opens a lane of batches without a producer. Nothing is remembered of it: each
// batch that comes is appended, one that is sent again for a second time.
func (p *Partition) OpenPlain() (*Opening, *wire.LaneOpened) {
	return new(Opening), &wire.LaneOpened{
		LastSequence: -1, LastOffset: -1, LogStart: p.LogStart(), MaxBatchBytes: uint32(p.cfg.MaxBatchBytes.Load()),
	}
}

// CloseLane says that the opening's stream has ended, whether the lane was opened or not.
// quiet is called, in the owner or at once, when nothing that came with the opening can
// be appended or made durable any more.
func (p *Partition) CloseLane(o *Opening, quiet func()) {
	if o.grant == nil {
		quiet()
		return
	}
	pid := o.grant.ID
	closed := p.do(func() {
		p.afterLookUp(pid, func() {
			o.ended = true // it may still wait for room
			pending := p.owner.state.Lane(pid).PendingEnd()
			p.owner.state.Released(pid, o.number)
			p.park(pending, func(*wire.Error) { quiet() })
		})
	})
	if closed != nil {
		quiet()
	}
}

// Quiesce waits until nothing of a producer is between its decision and its sync. The
// caller has revoked the producer's grant before, so nothing new can come.
func (p *Partition) Quiesce(pid batchfmt.ProducerID) <-chan *wire.Error {
	done := make(chan *wire.Error, 1)
	closed := p.do(func() {
		p.afterLookUp(pid, func() {
			p.park(p.owner.state.Lane(pid).PendingEnd(), func(failure *wire.Error) { done <- failure })
		})
	})
	if closed != nil {
		done <- nil // a partition that is closed has nothing in flight
	}
	return done
}

func (p *Partition) openLane(r OpenRequest, opening *Opening) {
	o := &p.owner
	id := r.Grant.ID
	if opening.ended { // nobody would give the lane back
		r.Reply(nil, p.laneSubject(wire.Errorf(wire.CodeSuperseded, "the stream has ended"), id))
		return
	}
	if !opening.right().Holds || r.Epoch != opening.right().CurrentEpoch {
		// Before anything moves: who has no right must not take the lane from who has.
		v := producerstate.Open(opening.right(), nil, producerstate.OpenRequest{Epoch: r.Epoch}, p.evidence(id, producerstate.Finding{}))
		r.Reply(nil, p.laneSubject(openRefusal(v, r.Grant), id))
		return
	}
	if opening.asked == 0 {
		opening.asked = o.state.Ask()
	}
	if o.state.AtLimit(id) {
		p.room(id, func(refused *wire.Error) {
			if refused != nil {
				p.cfg.Counters.Producers.Refusals.Add(1)
				r.Reply(nil, refused)
				return
			}
			p.afterLookUp(id, func() { p.openLane(r, opening) })
		})
		return
	}
	if !o.state.OpenedAs(id, opening.asked) { // it had to wait for room
		r.Reply(nil, p.laneSubject(wire.Errorf(wire.CodeSuperseded, "a newer opening of the lane came first"), id))
		return
	}
	opening.number = opening.asked
	p.answerOpening(r, opening, producerstate.Finding{})
}

// answerOpening asks how to answer, again and again until nothing is missing.
func (p *Partition) answerOpening(r OpenRequest, opening *Opening, f producerstate.Finding) {
	o := &p.owner
	id := r.Grant.ID
	req := producerstate.OpenRequest{Epoch: r.Epoch, Sent: r.Sent, Fresh: r.Fresh}
	if r.Acked != nil {
		req.Acked = &producerstate.Acked{Seq: r.Acked.Sequence, Offset: r.Acked.Offset, Digest: r.Acked.Digest}
	}
	o.state.Cover(id, opening.right().CurrentEpoch)
	v := producerstate.Open(opening.right(), o.state.Lane(id), req, p.evidence(id, f))
	refuse := func(e *wire.Error) {
		o.state.Released(id, opening.number)
		r.Reply(nil, p.laneSubject(e, id))
	}
	switch v.Kind {
	case producerstate.Opened:
		r.Reply(&wire.LaneOpened{
			LastSequence: v.Last, LastOffset: v.LastOffset, LastDigest: v.Digest,
			LogStart: p.LogStart(), MaxBatchBytes: uint32(p.cfg.MaxBatchBytes.Load()), Position: v.Position,
		}, nil)
	case producerstate.OpenWait:
		p.park(v.Until, func(failure *wire.Error) {
			if failure != nil {
				refuse(failure)
				return
			}
			// Meanwhile a batch of the lane may have begun a look-up.
			p.afterLookUp(id, func() { p.answerOpening(r, opening, f) })
		})
	case producerstate.OpenLookUp:
		at := producerstate.Identity{PID: id, Base: v.LookUp, Last: v.LookUp}
		p.lookUpFor(o.state.Lane(id), at, func(f producerstate.Finding, e *wire.Error) {
			if e != nil {
				refuse(e)
				return
			}
			p.answerOpening(r, opening, f)
		})
	case producerstate.OpenLoad:
		p.recall(id, func(found *recalled, e *wire.Error) {
			if e == nil && found.lane != nil {
				if err := o.state.Restore(id, found.row); err != nil {
					e = wire.Errorf(wire.CodeInternal, "%v", err)
				}
			}
			if e != nil {
				refuse(e)
				return
			}
			if o.state.Lane(id) == nil { // it has left since the stream ended, and then the table
				refuse(wire.Errorf(wire.CodeSuperseded, "the stream has ended"))
				return
			}
			o.state.Missed(id, found.forgotten)
			p.answerOpening(r, opening, f)
		})
	default:
		refuse(openRefusal(v, r.Grant))
	}
}

func openRefusal(v producerstate.OpenVerdict, g *Grant) *wire.Error {
	code := wire.CodeInternal
	expected := int64(-1)
	switch v.Kind {
	case producerstate.OpenInvalidEpoch:
		code, expected = wire.CodeInvalidProducerEpoch, int64(v.Epoch)
	case producerstate.OpenDataLoss:
		code, expected = wire.CodeDataLoss, int64(v.Expected)
	case producerstate.OpenCloned:
		code, expected = wire.CodeProducerCloned, int64(v.Expected)
	case producerstate.OpenUnknownProducer:
		code = wire.CodeUnknownProducerID
	}
	detail := v.String()
	if why := g.Fencer(); code == wire.CodeInvalidProducerEpoch && why != "" {
		detail = why
	}
	e := wire.Errorf(code, "%s", detail)
	e.Expected, e.Sequence = expected, int64(v.Last)
	return e
}

func (p *Partition) laneSubject(e *wire.Error, id batchfmt.ProducerID) *wire.Error {
	e.ProducerID = id
	return p.subject(e)
}

// park runs act when the durable end has reached until, or with why it never will.
func (p *Partition) park(until batchfmt.Offset, act func(*wire.Error)) {
	o := &p.owner
	switch {
	case until <= o.durable:
		act(nil)
	case o.failure != nil:
		act(p.subject(wire.Errorf(wire.CodeDurabilityUnknown, "%s", o.failure.Detail)))
	default:
		o.parked = append(o.parked, parked{until: until, act: act})
		p.startSync()
	}
}

func (p *Partition) unpark() {
	waiting := p.owner.parked
	p.owner.parked = nil
	for _, w := range waiting {
		p.park(w.until, w.act)
	}
}

func (p *Partition) failParked(why *wire.Error) {
	waiting := p.owner.parked
	p.owner.parked = nil
	for _, w := range waiting {
		e := *why // each writes its subject into it
		w.act(&e)
	}
}
