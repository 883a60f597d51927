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
}

const testDelivery = time.Minute

func newRig() *rig {
	r := &rig{core: New(), now: time.Unix(1_000_000, 0), done: make(map[*Batch]int)}
	r.core.jitter = func(d time.Duration) time.Duration { return d }
	return r
}

func (r *rig) drain() []Action {
	actions := append([]Action(nil), r.core.Actions()...)
	for _, a := range actions {
		r.log = append(r.log, describe(a))
		if a.Kind == Complete {
			r.done[a.Batch]++
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
		return fmt.Sprintf("open acked %d sent %d", acked, sent)
	case Send:
		return fmt.Sprintf("send %d-%d", a.Batch.Base, a.Batch.Last())
	case Complete:
		text := fmt.Sprintf("%d-%d %v", a.Batch.Base, a.Batch.Last(), a.Outcome.Fate)
		if a.Outcome.Fate == Stored {
			return fmt.Sprintf("%s at %d", text, a.Outcome.Result.BaseOffset)
		}
		return text + ": " + reason(a.Outcome.Cause)
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
	r.core.Enqueue(r.now, &Batch{Base: base, Count: records, Digest: batchfmt.Digest(base + 7), Deadline: r.now.Add(testDelivery)})
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
