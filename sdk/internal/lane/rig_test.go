package lane

import (
	"errors"
	"fmt"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// A rig plays the caller of a core: it has a clock that moves when it is told to, and
// writes down every action.
type rig struct {
	core *Core
	now  time.Time
	log  []string
	done map[*Batch]int // outcomes given

	asked *Batch // what Settle was asked for last
	epoch batchfmt.Epoch
}

const (
	testDelivery = time.Minute
	testGrace    = 5 * time.Second
)

var errClosed = errors.New("closed")

func newRig() *rig {
	r := &rig{core: New(), now: time.Unix(1_000_000, 0), done: make(map[*Batch]int)}
	r.core.jitter = func(d time.Duration) time.Duration { return d }
	r.core.SetGrace(testGrace)
	return r
}

func (r *rig) drain() []Action {
	actions := append([]Action(nil), r.core.Actions()...)
	for _, a := range actions {
		r.log = append(r.log, describe(a))
		switch a.Kind {
		case Complete:
			r.done[a.Batch]++
		case Settle:
			r.asked = a.Batch
		case Reseal:
			a.Batch.Epoch, a.Batch.Digest = r.epoch, a.Batch.Digest+1000
		}
	}
	return actions
}

func describe(a Action) string {
	switch a.Kind {
	case Open:
		acked, sent := batchfmt.Seq(-1), batchfmt.Seq(-1)
		if a.Acked != nil {
			acked = a.Acked.Sequence
		}
		if a.Sent != nil {
			sent = *a.Sent
		}
		if a.Fresh {
			return "open fresh"
		}
		return fmt.Sprintf("open acked %d sent %d", acked, sent)
	case Send:
		return fmt.Sprintf("send %d-%d", a.Batch.Base, a.Batch.Last())
	case Complete:
		text := fmt.Sprintf("%d-%d %v", a.Batch.Base, a.Batch.Last(), a.Outcome.Fate)
		if a.Outcome.Fate == Stored {
			return fmt.Sprintf("%s at %d", text, a.Outcome.Result.BaseOffset)
		}
		return text + ": " + reason(a.Outcome.Cause)
	case Settle:
		return fmt.Sprintf("settle %d-%d", a.Batch.Base, a.Batch.Last())
	case Report:
		return fmt.Sprintf("report %d-%d %v", a.Batch.Base, a.Batch.Last(), a.Found.Outcome)
	case Raise:
		return fmt.Sprintf("raise to %d", a.Epoch)
	case Reseal:
		return fmt.Sprintf("reseal %d-%d", a.Batch.Base, a.Batch.Last())
	}
	return "fail: " + reason(a.Err)
}

func reason(err error) string {
	var refusal *wire.Error
	if errors.As(err, &refusal) {
		return refusal.Code.String()
	}
	return err.Error()
}

func (r *rig) connect() {
	r.core.Connected(r.now)
	r.drain()
}

func (r *rig) opened(last batchfmt.Seq) {
	r.core.Opened(r.now, &wire.LaneOpened{LastSequence: last})
	r.drain()
}

func (r *rig) refused(code wire.Code) {
	r.core.Refused(r.now, wire.Errorf(code, ""))
	r.drain()
}

func (r *rig) enqueue(records int) {
	base := r.core.Next()
	r.core.Enqueue(r.now, &Batch{Base: base, Count: records, Epoch: r.epoch, Digest: batchfmt.Digest(base + 7), Deadline: r.now.Add(testDelivery)})
	r.drain()
}

// tell says of the nth batch without an outcome that its outcome was told to be unknown.
func (r *rig) tell(n int) {
	r.core.Tell(r.now, r.core.queue[n])
	r.drain()
}

// settled answers the last Settle; last is where the lane ends.
func (r *rig) settled(o wire.ResolveOutcome, offset batchfmt.Offset, last batchfmt.Seq) {
	r.core.Settled(r.now, r.asked, &wire.Resolved{Outcome: o, Offset: offset, LastSequence: last, Epoch: r.epoch + 1})
	r.drain()
}

func (r *rig) never(last batchfmt.Seq) { r.settled(wire.ResolveNever, -1, last) }

func (r *rig) raised() {
	r.epoch++
	r.core.Raised(r.now, r.epoch)
	r.drain()
}

func (r *rig) close(within time.Duration) {
	r.core.Close(r.now, errClosed, r.now.Add(within))
	r.drain()
}

func (r *rig) enqueueAll(batches, records int) {
	for range batches {
		r.enqueue(records)
	}
}

func (r *rig) ok(base batchfmt.Seq, offset batchfmt.Offset) {
	r.core.Result(r.now, &wire.ProduceResult{BaseSequence: base, BaseOffset: offset})
	r.drain()
}

func (r *rig) duplicate(base batchfmt.Seq, offset batchfmt.Offset) {
	r.core.Result(r.now, &wire.ProduceResult{BaseSequence: base, BaseOffset: offset, Duplicate: true, Verified: true})
	r.drain()
}

func (r *rig) err(base batchfmt.Seq, code wire.Code) {
	r.core.Result(r.now, &wire.ProduceResult{BaseSequence: base, Code: code, BaseOffset: -1, Expected: -1})
	r.drain()
}

// errAt is an error that says where the batch is stored.
func (r *rig) errAt(base batchfmt.Seq, code wire.Code, offset batchfmt.Offset) {
	r.core.Result(r.now, &wire.ProduceResult{BaseSequence: base, Code: code, BaseOffset: offset, Expected: -1})
	r.drain()
}

// fencedOff is the refusal of a batch that a fence has passed.
func (r *rig) fencedOff(base batchfmt.Seq) {
	r.core.Result(r.now, &wire.ProduceResult{BaseSequence: base, Code: wire.CodeInvalidProducerEpoch, BaseOffset: -1, Expected: int64(r.epoch) + 1, NotStored: true})
	r.drain()
}

func (r *rig) disconnect() {
	r.core.Disconnected(r.now)
	r.drain()
}

// wait moves the clock, stopping at every moment that the core asked for.
func (r *rig) wait(d time.Duration) {
	end := r.now.Add(d)
	for {
		next := r.core.NextTick()
		if next.IsZero() || next.After(end) {
			break
		}
		if next.After(r.now) {
			r.now = next
		}
		r.core.Tick(r.now)
		r.drain()
		if again := r.core.NextTick(); !again.IsZero() && !again.After(r.now) {
			panic(fmt.Sprintf("the core wants a tick at a time that is over, after %q", r.log))
		}
	}
	r.now = end
	r.core.Tick(r.now)
	r.drain()
}

// ready is a lane that is open and has sent nothing.
func (r *rig) ready() {
	r.connect()
	r.opened(-1)
	r.log = nil
}
