package partition

import (
	"path/filepath"
	"strings"
	"testing/synctest"

	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

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
	w.part()
	w.give(w.plan(1+w.r.IntN(6)), w.r.IntN(3) > 0)
	w.rest()
	w.settled()
}

// part lets some producers go and others come.
func (w *world) part() {
	w.t.Helper()
	w.begin()
	if w.roomy() {
		return
	}
	var orders []order
	for _, pr := range w.producers {
		if pr.here && w.r.IntN(5) == 0 {
			orders = append(orders, w.leave(pr))
		}
	}
	w.await(orders)
	orders = nil
	for range w.r.IntN(3) {
		if pr := w.producers[w.r.IntN(len(w.producers))]; !pr.here && !pr.comes && w.room(pr) {
			orders = append(orders, w.opening(pr))
		}
	}
	w.await(orders)
}

// await gives orders and waits until all is done.
func (w *world) await(orders []order) {
	w.t.Helper()
	if len(orders) > 0 {
		w.give(orders, false)
		w.rest()
		w.begin()
	}
}

// idle lets lanes leave memory that nobody has used for long. Those that stay are held.
func (w *world) idle() {
	w.t.Helper()
	w.uptime.Add(int64(2 * w.cfg.IdleAfter))
	w.p.RetireIdle()
	w.rest()
	for pid, l := range w.p.owner.state.All() {
		if w.exact && l.Known() && !l.Open() {
			w.t.Fatalf("seed %d: nobody has used lane %d for long, and it is in memory", w.seed, pid)
		}
	}
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
	w.part()
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

// holdRows holds a call of the retired table while orders are decided: rows are on their way
// to it or back, and lanes are used meanwhile.
func (w *world) holdRows() {
	w.t.Helper()
	w.part()
	skip, reading := w.r.IntN(8), w.r.IntN(3) == 0
	release := w.hold(func(op vfs.Op, name string) bool {
		if strings.HasPrefix(filepath.Base(name), "retired") && (changes(op) || reading) {
			skip--
		}
		return skip < 0
	})
	for range 1 + w.r.IntN(3) {
		w.give(w.plan(1+w.r.IntN(4)), w.r.IntN(2) == 0)
		w.rest()
	}
	w.keep("the end of a call of the retired table that takes long")
	w.stopHolding()
	close(release)
	w.rest()
	w.settled()
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
	switch n := w.r.IntN(28); {
	case n < 8:
		w.burst()
	case n < 15:
		w.overlap()
	case n < 17:
		w.holdSnapshot()
	case n < 21:
		w.holdRows()
	case n < 22:
		w.idle()
	case n < 24:
		must(w.t, w.stop())
		w.mustStart()
	default:
		w.part()
		w.dieIn(1 + w.r.IntN(25))
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
