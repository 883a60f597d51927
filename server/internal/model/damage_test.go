package model

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// damage takes away the end of a partition's log while the server is down, and leaves its
// snapshot of the producers, which knows more than the log then. What was lost is told to
// be lost: it is neither stored again, nor called readable, nor are its offsets given to
// other records.
func (w *world) damage() {
	w.step++
	w.seen.add("step", "lost end of a log")
	p := place{w.topics[1].ID, 0}
	dir := filepath.Join(w.s.Data(), "topics", hex.EncodeToString(p.topic[:]), fmt.Sprint(p.part))
	old := w.t.TempDir()
	w.restartWith(func() { w.moveLog(dir, old, false) })
	w.kept = w.nextOf(p)
	w.log("what is stored in part %d from offset %d on will be lost", p.part, w.kept)
	for range 3 {
		w.burstAt(p)
	}
	w.restartWith(func() { w.moveLog(old, dir, true) })
	for _, h := range w.holders {
		w.askForLost(h, p)
	}
	for range 3 {
		w.burstAt(p)
	}
	w.explain()
}

// askForLost sends what a holder has had stored there again, and asks what became of it.
func (w *world) askForLost(h *holder, p place) {
	batches := h.lane(p).batches
	s := w.openLane(h, p, w.rng.IntN(2), func(m *wire.OpenLane) { m.Acked = nil })
	if s == nil {
		return
	}
	if s.settle(); s.open {
		w.read(p, w.nextOf(p))
		for _, b := range batches[max(0, len(batches)-12):] {
			if w.sound() {
				s.send(b, -1)
				s.settle()
				w.answerOfResolve(h, p, b, w.ask(w.resolveRequest(h, p, b, false)))
			}
		}
	}
	w.collect()
	w.read(p, w.nextOf(p))
}

// burstAt lets some holder write into a place.
func (w *world) burstAt(p place) {
	s := w.openLane(w.anyHolder(), p, w.rng.IntN(2), nil)
	if s == nil {
		return
	}
	if s.settle(); s.open {
		w.read(p, w.nextOf(p))
		w.burst(s)
	}
	w.collect()
	w.read(p, w.nextOf(p))
}

func (w *world) restartWith(between func()) {
	w.collect()
	w.leave()
	w.now.ending = true
	w.s.RestartWith(between)
	w.down()
}

// moveLog copies the files of a log, in the place of those that are there if it replaces
// them. What the reference knows beyond them is lost then.
func (w *world) moveLog(from, to string, replace bool) {
	for _, pattern := range []string{"*.seg", "*.idx"} {
		if replace {
			newer, err := filepath.Glob(filepath.Join(to, pattern))
			for _, name := range newer {
				err = errors.Join(err, os.Remove(name))
			}
			if err != nil {
				w.t.Fatal(err)
			}
		}
		files, err := filepath.Glob(filepath.Join(from, pattern))
		for _, name := range files {
			b, readErr := os.ReadFile(name)
			err = errors.Join(err, readErr, os.WriteFile(filepath.Join(to, filepath.Base(name)), b, 0o600))
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if replace {
		w.lose(place{w.topics[1].ID, 0})
	}
}

// lose tells the reference that the disk has lost the end of a log, which began where the
// reference was when it was copied.
func (w *world) lose(p place) {
	w.ref.mu.Lock()
	defer w.ref.mu.Unlock()
	h := w.ref.at(p)
	h.damaged = true
	for at, id := range h.ids {
		if f := h.fact(id); at >= w.kept {
			f.found, f.open = nowhere, 0
		}
	}
}

// mayMiss reports whether a reader may have to pass over the offsets from next to to.
func (w *world) mayMiss(p place, next, to batchfmt.Offset) bool {
	w.ref.mu.Lock()
	defer w.ref.mu.Unlock()
	h := w.ref.at(p)
	return h.damaged && next == w.kept && to > next && to <= h.next
}
