package partition

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing/synctest"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// An order is one thing that a producer asks for.
type order struct {
	bytes int // that it may add to the log
	give  func()
}

// plan makes n orders of all kinds. They are judged as if they were carried out one by one.
func (w *world) plan(n int) []order {
	var orders []order
	for range n {
		pr := w.producers[w.r.IntN(len(w.producers))]
		if pr.lane == nil && !pr.opening {
			orders = append(orders, w.opening(pr))
		}
		orders = append(orders, w.order(pr))
	}
	return orders
}

func (w *world) order(pr *producer) order {
	kind := w.r.IntN(20)
	sure := pr.next // so many of the line are surely stored, or will be before this order
	if !w.exact {
		sure = min(sure, pr.told)
	}
	switch {
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
	case kind < 11 && pr.old != nil:
		return w.produce(pr, w.batch(pr, w.r.IntN(pr.next+1)), wantSuperseded)
	}
	pr.next++
	return w.produce(pr, w.batch(pr, pr.next-1), wantNew)
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
		opening := pr.lane
		if want == wantSuperseded {
			opening = pr.old
		}
		b, err := batchfmt.Parse(bytes.Clone(w.mu.fates[fate].sealed))
		must(w.t, err)
		w.mu.Lock()
		w.mu.fates[fate].doubt++
		w.mu.asked++
		a := attempt{w: w, fate: fate, process: w.mu.process, want: want}
		w.mu.Unlock()
		p := Produce{Opening: opening, Batch: b, Sink: a, Confirmed: b.BaseSequence() - 1}
		if want == wantUnfit {
			p.Unfit = wire.Errorf(wire.CodeUnsupportedRecords, "unfit")
		}
		if e := w.p.Produce(p); e != nil {
			w.t.Fatalf("seed %d: produce: %v", w.seed, e)
		}
	}
	return o
}

// opening opens the lane anew, with what the producer knows, or as one that knows nothing.
func (w *world) opening(pr *producer) order {
	pr.opening = true
	return order{give: func() {
		w.mu.Lock()
		w.mu.asked++
		process := w.mu.process
		r := OpenRequest{Grant: pr.grant, Fresh: true}
		if told := w.toldOf(pr); len(told) > 0 && w.r.IntN(3) > 0 {
			f := w.mu.fates[told[w.r.IntN(len(told))]]
			sent := w.mu.fates[pr.line[len(pr.line)-1]].id.Last
			end := f.offset + batchfmt.Offset(f.id.Last-f.id.Base)
			r.Fresh, r.Sent, r.Acked = false, &sent, &wire.LanePoint{Sequence: f.id.Last, Offset: end, Digest: f.id.Digest}
		}
		w.mu.Unlock()
		r.Reply = func(m *wire.LaneOpened, e *wire.Error) { w.opened(pr, process, m, e) }
		if o := w.p.OpenLane(r); pr.lane == nil {
			pr.lane = o
		} else {
			pr.old, pr.lane = pr.lane, o
		}
		pr.opening = false
	}}
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
func (w *world) opened(pr *producer, process int, m *wire.LaneOpened, e *wire.Error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if process != w.mu.process || w.mu.dead {
		return
	}
	w.mu.answered++
	if e != nil {
		if w.exact || e.Code != wire.CodeDurabilityUnknown && e.Code != wire.CodeLookUpFailed {
			w.mu.wrong = append(w.mu.wrong, "a lane was not opened: "+e.Error())
		}
		return
	}
	known := m.LastSequence < 0
	for _, i := range pr.line {
		f := &w.mu.fates[i]
		switch {
		case f.id.Last == m.LastSequence:
			offset := m.LastOffset - batchfmt.Offset(f.id.Last-f.id.Base)
			known = f.id.Digest == m.LastDigest && (f.offset < 0 || f.offset == offset)
			f.offset = offset
		case f.id.Last > m.LastSequence && f.offset >= 0:
			w.wrong(f, wire.ProduceResult{}, "an opening says that the lane ends below it")
		}
	}
	if !known {
		w.mu.wrong = append(w.mu.wrong, "an opening tells of a batch that is not known")
	}
}

// give lets everything that was planned be decided as one group, or as it comes.
func (w *world) give(orders []order, together bool) {
	gate := make(chan struct{})
	if together {
		w.p.do(func() { <-gate })
		synctest.Wait()
	}
	for _, o := range orders {
		o.give()
	}
	close(gate)
}

// burst gives some orders and waits until all is done.
func (w *world) burst() {
	w.t.Helper()
	w.recount()
	w.give(w.plan(1+w.r.IntN(6)), w.r.IntN(3) > 0)
	w.rest()
	w.settled()
}

// settled expects that everything has its answer.
func (w *world) settled() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.asked != w.mu.answered {
		w.t.Fatalf("seed %d: %d answers to %d requests", w.seed, w.mu.answered, w.mu.asked)
	}
}

// recount goes by what is known; only with faults it differs from what was planned.
func (w *world) recount() {
	if w.exact {
		return
	}
	for _, pr := range w.producers {
		w.count(pr)
		pr.told = pr.next
	}
}

func bytesOf(orders []order) int64 {
	n := 0
	for _, o := range orders {
		n += o.bytes
	}
	return int64(n)
}

// overlap holds the sync of some orders while others are decided: what is not durable must
// not be told, whoever asks. The sync ends before the others are written, or after that.
func (w *world) overlap() {
	w.t.Helper()
	first, second := w.plan(1+w.r.IntN(4)), w.plan(1+w.r.IntN(5))
	segments := w.p.log.Segments()
	if segments[len(segments)-1].Bytes+bytesOf(first)+bytesOf(second) > w.cfg.Log.SegmentBytes {
		// The owner would wait for the sync that is held, when it begins a segment.
		w.give(append(first, second...), false)
		w.rest()
		w.settled()
		return
	}
	sync := w.hold(inSegment(vfs.OpSync))
	w.give(first, true)
	w.rest()
	if w.r.IntN(2) == 0 {
		write := w.hold(inSegment(vfs.OpWrite))
		w.give(second, true)
		w.rest()
		close(sync) // it does not cover what is about to be written
		w.rest()
		sync = w.hold(inSegment(vfs.OpSync))
		close(write)
	} else {
		w.give(second, w.r.IntN(2) == 0)
	}
	w.rest()
	w.read()
	w.keep("the end of a sync that takes long")
	w.stopHolding()
	close(sync)
	w.rest()
	w.settled()
}

func inSegment(kind vfs.Op) func(op vfs.Op, name string) bool {
	return func(op vfs.Op, name string) bool { return op == kind && strings.HasSuffix(name, ".seg") }
}

// keep captures the disk as it is now, if every call is watched.
func (w *world) keep(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.watched {
		w.capture(what)
	}
}

// holdSnapshot holds the writing of a snapshot at one of its calls while orders are
// decided that are not in it.
func (w *world) holdSnapshot() {
	w.t.Helper()
	skip := w.r.IntN(6)
	release := w.hold(func(op vfs.Op, name string) bool {
		if strings.HasPrefix(filepath.Base(name), snapshotPrefix) && changes(op) {
			skip--
		}
		return skip < 0
	})
	for range 1 + w.r.IntN(3) {
		w.burst()
	}
	w.stopHolding()
	close(release)
	w.rest()
}

// hold makes the next call that matches wait until what it returns is closed.
func (w *world) hold(match func(op vfs.Op, name string) bool) (release chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	release = make(chan struct{})
	w.mu.held = append(w.mu.held, release)
	w.mu.hold = func(op vfs.Op, name string) <-chan struct{} {
		if !match(op, name) {
			return nil
		}
		w.mu.hold = nil
		return release
	}
	return release
}

// stopHolding lets calls through that have not come yet.
func (w *world) stopHolding() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.hold = nil
}

// read reads what readers may see: it is told from then on.
func (w *world) read() {
	w.t.Helper()
	for _, b := range w.readAll(w.p, "the partition at work") {
		if f := w.fateOf(b); f != nil {
			w.mu.Lock()
			if f.offset >= 0 && f.offset != b.BaseOffset() {
				w.wrong(f, wire.ProduceResult{}, "it was read at another offset")
			}
			f.offset = b.BaseOffset()
			w.mu.Unlock()
		}
	}
}

// step does one thing of the workload; no fault strikes.
func (w *world) step() {
	w.t.Helper()
	switch n := w.r.IntN(24); {
	case n < 8:
		w.burst()
	case n < 16:
		w.overlap()
	case n < 18:
		w.holdSnapshot()
	case n < 20:
		must(w.t, w.stop())
		w.mustStart()
	default:
		w.dieIn(1 + w.r.IntN(12))
		w.give(w.plan(1+w.r.IntN(8)), w.r.IntN(2) == 0)
		w.rest()
		w.kill(w.r.IntN(2) == 0)
		if w.r.IntN(2) == 0 {
			w.dieIn(1 + w.r.IntN(12))
			w.start()
			w.kill(w.r.IntN(2) == 0)
		}
		w.mustStart()
	}
}

func (w *world) dieIn(calls int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.dieIn = calls
}
