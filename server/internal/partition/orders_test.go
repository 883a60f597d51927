package partition

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// An order is one thing that a producer asks for.
type order struct {
	bytes int // that it may add to the log
	give  func()
}

// controlBytes is more than a control batch takes in the log.
const controlBytes = 300

// plan makes n orders of all kinds. They are judged as if they were carried out one by one.
func (w *world) plan(n int) []order {
	var orders []order
	for range n {
		pr := w.producers[w.r.IntN(len(w.producers))]
		if w.roomy() && !pr.here {
			orders = append(orders, w.opening(pr))
		}
		if pr.here {
			orders = append(orders, w.order(pr))
		} else {
			orders = append(orders, w.orderAway(pr))
		}
	}
	return orders
}

// sure is how many batches of the line are surely stored, or will be before the next order.
func (w *world) sure(pr *producer) int {
	if w.exact {
		return pr.next
	}
	return min(pr.next, pr.told)
}

// order is for a producer whose lane is open.
func (w *world) order(pr *producer) order {
	sure := w.sure(pr)
	switch kind := w.r.IntN(27); {
	case kind < 3 && sure > 0: // of the window
		return w.produce(pr, pr.line[sure-1-w.r.IntN(min(sure, 5))], wantAgain)
	case kind < 5 && sure > 0: // of any age
		return w.produce(pr, pr.line[w.r.IntN(sure)], wantAgain)
	case kind < 7 && sure > 0:
		return w.produce(pr, w.other(pr, sure), wantConflict)
	case kind < 8:
		return w.produce(pr, w.batch(pr, pr.next+1+w.r.IntN(2)), wantGap)
	case kind < 9:
		return w.produce(pr, w.batch(pr, pr.next), wantUnfit)
	case kind < 10:
		return w.opening(pr)
	case kind < 11 && pr.old != nil && !pr.leaves:
		return w.produce(pr, w.batch(pr, w.r.IntN(pr.next+1)), wantSuperseded)
	case kind < 13:
		if f, want, ok := w.deadOne(pr, sure); ok {
			return w.produce(pr, f, want)
		}
	case kind < 16:
		return w.resolve(pr, sure)
	case kind < 17:
		return w.leave(pr)
	case kind < 18:
		return w.endAndLeave(pr)
	}
	pr.next++
	return w.produce(pr, w.batch(pr, pr.next-1), wantNew)
}

// orderAway is for a producer that holds no lane here.
func (w *world) orderAway(pr *producer) order {
	sure := w.sure(pr)
	switch kind := w.r.IntN(24); {
	case kind < 12 && !pr.comes && w.room(pr):
		return w.opening(pr)
	case kind < 16:
		return w.resolve(pr, sure)
	case kind < 18 && pr.left != nil && sure > 0:
		return w.produce(pr, pr.line[w.r.IntN(sure)], wantLate)
	case kind < 20 && w.room(pr):
		return w.finish(pr)
	case kind < 22:
		return order{give: func() {
			w.uptime.Add(int64(time.Duration(w.r.IntN(40)) * time.Minute))
			w.p.RetireIdle()
		}}
	}
	return w.produce(nil, w.seal(nil, 0, 1), wantNew)
}

// room takes room for a lane, if there surely is some: what is busy cannot leave memory.
func (w *world) room(pr *producer) bool {
	if !w.roomy() && !w.busy[pr.id] && len(w.busy) >= w.cfg.Producers.MaxLanes {
		return false
	}
	w.busy[pr.id] = true
	return true
}

// deadOne is a batch that was settled, or that follows one: it is kept out for ever.
func (w *world) deadOne(pr *producer, sure int) (fate int, want want, ok bool) {
	if len(pr.dead) == 0 {
		return 0, 0, false
	}
	last := batchfmt.Seq(-1)
	if sure > 0 {
		last = w.mu.fates[pr.line[sure-1]].id.Last
	}
	fate = pr.dead[w.r.IntN(len(pr.dead))]
	switch id := w.mu.fates[fate].id; {
	case id.Base <= last:
		return fate, wantConflict, true
	case id.Base > last+1:
		return fate, wantGap, true
	default:
		return fate, wantFenced, id.Epoch < pr.fence
	}
}

// other is a batch that is not of the line and touches what surely is stored of it: one
// that was sent before, or a new one.
func (w *world) other(pr *producer, sure int) int {
	last := w.mu.fates[pr.line[sure-1]].id.Last
	if n := len(pr.others); n > 0 && w.r.IntN(3) == 0 {
		if f := pr.others[w.r.IntN(n)]; w.mu.fates[f].id.Base <= last {
			return f
		}
	}
	of := w.r.IntN(sure)
	if w.r.IntN(2) == 0 {
		of = sure - 1 // it may not be durable yet
	}
	id := w.mu.fates[pr.line[of]].id
	f := w.seal(pr, id.Base+batchfmt.Seq(w.r.IntN(int(id.Last-id.Base)+1)), 1+w.r.IntN(4))
	pr.others = append(pr.others, f)
	return f
}

func (w *world) produce(pr *producer, fate int, want want) order {
	o := order{bytes: len(w.mu.fates[fate].sealed)}
	o.give = func() {
		opening := w.plain
		switch {
		case pr == nil:
		case want == wantSuperseded:
			opening = pr.old
		case want == wantLate:
			opening = pr.left
		default:
			opening = pr.lane
		}
		b, err := batchfmt.Parse(bytes.Clone(w.mu.fates[fate].sealed))
		must(w.t, err)
		w.mu.Lock()
		w.mu.fates[fate].doubt++
		w.mu.asked++
		a := attempt{w: w, fate: fate, process: w.mu.process, want: want, told: w.mu.fates[fate].offset >= 0}
		w.mu.Unlock()
		p := Produce{Opening: opening, Batch: b, Sink: a, Confirmed: b.BaseSequence() - 1}
		if pr == nil {
			p.Confirmed = b.BaseSequence() // its number
		}
		if want == wantUnfit {
			p.Unfit = wire.Errorf(wire.CodeUnsupportedRecords, "unfit")
		}
		if e := w.p.Produce(p); e != nil {
			w.t.Fatalf("seed %d: produce: %v", w.seed, e)
		}
	}
	return o
}

// opening opens the lane anew, with what the producer knows, or as one that knows nothing. If
// it may have to wait for room, batches come only when it was answered.
func (w *world) opening(pr *producer) order {
	pr.here, pr.comes = pr.here || w.roomy(), true
	return order{give: func() {
		w.mu.Lock()
		w.mu.asked++
		process := w.mu.process
		r := OpenRequest{Grant: pr.grant, Epoch: pr.grant.Current(), Fresh: true}
		if told := w.toldOf(pr); len(told) > 0 && w.r.IntN(3) > 0 {
			f := w.mu.fates[told[w.r.IntN(len(told))]]
			sent := w.mu.fates[pr.line[len(pr.line)-1]].id.Last
			end := f.offset + batchfmt.Offset(f.id.Last-f.id.Base)
			r.Fresh, r.Sent, r.Acked = false, &sent, &wire.LanePoint{Sequence: f.id.Last, Offset: end, Digest: f.id.Digest}
		}
		w.mu.Unlock()
		var o *Opening
		r.Reply = func(m *wire.LaneOpened, e *wire.Error) {
			w.opened(pr, process, m, e, func() bool { return w.mu.over[o] })
		}
		o = w.p.OpenLane(r)
		w.giveBack(pr.old)
		pr.old, pr.lane = pr.lane, o
	}}
}

// leave ends the stream of a lane. It may leave memory from now on.
func (w *world) leave(pr *producer) order {
	pr.here, pr.leaves = false, true
	return order{give: func() {
		done := w.asks("a stream's end")
		w.giveBack(pr.old)
		w.p.CloseLane(pr.lane, func() { done(nil) })
		pr.left, pr.old, pr.lane = pr.lane, nil, nil
	}}
}

// endAndLeave ends the stream of a lane and says that the producer is done, before the lane can
// leave memory: the log must say so from then on.
func (w *world) endAndLeave(pr *producer) order {
	leave := w.leave(pr)
	return order{bytes: controlBytes, give: func() {
		w.mu.Lock()
		last := batchfmt.Seq(-1)
		for _, f := range w.toldOf(pr) {
			last = max(last, w.mu.fates[f].id.Last)
		}
		w.mu.Unlock()
		ended := w.asks("a producer's end")
		gate := make(chan struct{})
		w.p.do(func() { <-gate })
		leave.give()
		w.p.CloseProducer(pr.id, func(e *wire.Error) {
			ended(e)
			w.mu.Lock()
			defer w.mu.Unlock()
			// Of a lane that has nothing, or was not opened after all, nothing need be noted.
			if e == nil && !w.mu.dead && last >= 0 && !pr.refused {
				w.mu.ended[pr.id] = max(w.mu.ended[pr.id], last)
				w.mu.did["ends"]++
			}
		})
		close(gate)
	}}
}

// finish says of a lane that nobody holds that the producer is done. It may have left memory,
// and it may come back all the same.
func (w *world) finish(pr *producer) order {
	return order{bytes: controlBytes, give: func() { w.p.CloseProducer(pr.id, w.asks("a producer's end")) }}
}

// asks counts a request. What it returns takes the answer.
func (w *world) asks(what string) func(*wire.Error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.asked++
	process := w.mu.process
	return func(e *wire.Error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if process != w.mu.process || w.mu.dead {
			return
		}
		w.mu.answered++
		if e == nil {
			return
		}
		w.mu.codes[e.Code]++
		if w.exact || !slices.Contains(refusals, e.Code) {
			w.mu.wrong = append(w.mu.wrong, fmt.Sprintf("%s is answered with %v", what, e))
		}
	}
}

// resolve asks what became of a batch: of one that is stored or on its way, of one that
// another batch holds the place of, of one that was settled, or of one that was never
// appended. To settle the last one raises the producer's epoch.
func (w *world) resolve(pr *producer, sure int) order {
	o := order{bytes: controlBytes}
	q := question{pr: pr, settle: w.r.IntN(2) == 0}
	kind := w.r.IntN(9)
	if q.settle && (pr.comes || !w.room(pr)) { // an opening that waits names the epoch of before
		q.settle = false
	}
	switch {
	case kind < 2 && sure > 0:
		q.fate, q.want = pr.line[w.r.IntN(sure)], []wire.ResolveOutcome{wire.ResolveStored}
	case kind < 4 && pr.next > 0:
		q.fate, q.want = pr.line[pr.next-1], []wire.ResolveOutcome{wire.ResolveStored}
	case kind < 5 && sure > 0:
		q.fate, q.want = w.other(pr, sure), []wire.ResolveOutcome{wire.ResolveNever}
	case kind < 6:
		if f, want, ok := w.deadOne(pr, sure); ok && want != wantGap {
			q.fate, q.want = f, []wire.ResolveOutcome{wire.ResolveNever}
			break
		}
		fallthrough
	default:
		q.fate, q.want = w.batch(pr, pr.next+w.r.IntN(2)), []wire.ResolveOutcome{wire.ResolveNotYet}
		if q.settle {
			q.want = []wire.ResolveOutcome{wire.ResolveNever}
			pr.grant.Raise(w.mu.fates[q.fate].id.Epoch + 1)
			pr.dead = append(pr.dead, pr.line[pr.next:]...)
			pr.line = pr.line[:pr.next:pr.next]
		}
	}
	if !q.settle && q.want[0] == wire.ResolveStored {
		q.want = append(q.want, wire.ResolveInFlight)
	}
	o.give = func() {
		w.mu.Lock()
		w.mu.asked++
		q.process = w.mu.process
		id := w.mu.fates[q.fate].id
		w.mu.Unlock()
		w.p.Resolve(ResolveRequest{Batch: id, Settle: q.settle, Reply: func(m *wire.Resolved, e *wire.Error) { w.resolved(q, m, e) }})
	}
	return o
}

// A question is one about the fate of a batch.
type question struct {
	pr      *producer
	fate    int
	settle  bool
	process int
	want    []wire.ResolveOutcome // those that are right when no fault strikes
}

// resolved is the answer to a question: what it says is told from then on.
func (w *world) resolved(q question, m *wire.Resolved, e *wire.Error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q.process != w.mu.process || w.mu.dead {
		return
	}
	w.mu.answered++
	f := &w.mu.fates[q.fate]
	wrong := func(why string) {
		w.mu.wrong = append(w.mu.wrong, fmt.Sprintf("the question about %+v, settle %v, is answered with %+v, %v: %s", f.id, q.settle, m, e, why))
	}
	if e != nil {
		w.mu.codes[e.Code]++
		if w.exact || !slices.Contains(refusals, e.Code) {
			wrong("it was to be answered")
		}
		return
	}
	unknowable := m.Outcome == wire.ResolveUnknowable
	if unknowable && !w.mayNotKnow(w.p, f.id.PID, wire.CodeUnknownOutcome) || w.exact && !unknowable && !slices.Contains(q.want, m.Outcome) {
		wrong("that is not so")
	}
	switch {
	case m.Outcome == wire.ResolveStored:
		if f.never || f.barred || f.offset >= 0 && f.offset != m.Offset {
			wrong("that was said otherwise")
		}
		f.offset = m.Offset
	case unknowable:
	case f.offset >= 0:
		wrong("it is stored")
	case m.Outcome == wire.ResolveNever:
		f.barred = true
		if m.LastSequence < f.id.Base {
			q.pr.fence = max(q.pr.fence, f.id.Epoch+1)
			w.mu.did["fences"]++
		}
	case q.settle:
		wrong("that settles nothing")
	}
}

func (w *world) toldOf(pr *producer) []int {
	var told []int
	for _, f := range pr.line {
		if w.mu.fates[f].offset >= 0 {
			told = append(told, f)
		}
	}
	return told
}

// opened is the reply to an opening: where the lane stands is told from then on.
func (w *world) opened(pr *producer, process int, m *wire.LaneOpened, e *wire.Error, over func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if process != w.mu.process || w.mu.dead {
		return
	}
	w.mu.answered++
	if e != nil && e.Code == wire.CodeSuperseded && over() {
		return // its stream had ended while it waited for room
	}
	if e != nil {
		w.mu.codes[e.Code]++
		pr.refused = true
		pr.lost = e.Code == wire.CodeUnknownProducerID
		if pr.lost {
			w.mu.did["forgotten lanes"]++
		}
		ok := w.mayNotKnow(w.p, pr.id, e.Code) || !w.exact && slices.Contains(refusals, e.Code)
		if !ok {
			w.mu.wrong = append(w.mu.wrong, fmt.Sprintf("lane %d was not opened: %v", pr.id, e))
		}
		return
	}
	pr.refused = false
	known := m.LastSequence < 0 || w.forgets && m.LastDigest == 0
	for i := range w.mu.fates {
		f := &w.mu.fates[i]
		switch {
		case f.id.PID != pr.id:
		case f.id.Last == m.LastSequence && f.id.Digest == m.LastDigest:
			offset := m.LastOffset - batchfmt.Offset(f.id.Last-f.id.Base)
			known = f.offset < 0 || f.offset == offset
			f.offset = offset
		case f.id.Last > m.LastSequence && f.offset >= 0:
			w.wrong(f, wire.ProduceResult{}, "an opening says that the lane ends below it")
		}
	}
	if !known {
		w.mu.wrong = append(w.mu.wrong, fmt.Sprintf("an opening of %d tells of a batch that is not known: %+v", pr.id, m))
	}
}

// refusals are what a request that is no batch may be refused with while faults strike.
var refusals = []wire.Code{
	wire.CodeDurabilityUnknown, wire.CodeLookUpFailed, wire.CodeStorageError, wire.CodeDiskFull,
	wire.CodePartitionStopped, wire.CodeProducerLimitReached,
}
