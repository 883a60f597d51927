package model

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

func (w *world) stepCut() {
	if s := w.anyStream(); s != nil {
		w.burst(s)
	}
	w.s.CutConnection()
}

func (w *world) stepCutOne() {
	s := w.anyStream()
	if s == nil {
		return
	}
	w.burst(s)
	s.conn.Conn.CloseWithError(0, "")
}

func (w *world) stepDropAck() {
	if s := w.anyStream(); s != nil {
		w.s.DropAck(1 + w.rng.IntN(3))
		w.burst(s)
		s.settle()
	}
	w.s.DropAck(0)
}

// stepHold lets much happen that is not durable yet, and then the syncs end or the power
// goes off. What was answered meanwhile must be true all the same.
func (w *world) stepHold() {
	s := w.anyStream()
	if s == nil {
		return
	}
	hold := w.s.HoldSync
	if w.rng.IntN(2) == 0 { // those of the logs alone: what else is written gets on the disk before
		hold = func() (<-chan struct{}, func()) {
			return w.s.HoldDisk(func(op vfs.Op, name string) bool { return op == vfs.OpSync && strings.HasSuffix(name, ".seg") })
		}
	}
	_, release := hold()
	var settled []later
	if w.rng.IntN(2) == 0 {
		settled = append(settled, w.settleLater(s, w.seal(s.h, s.place, s.h.Epoch, s.h.lane(s.place).next, 1)))
	}
	for range w.rng.IntN(3) {
		w.burst(s)
		if again := s.lastSent(); again != nil && w.rng.IntN(2) == 0 {
			s.send(*again, -1)
		}
		if old := w.anyOf(s.h.lane(s.place)); old != nil && w.rng.IntN(2) == 0 {
			settled = append(settled, w.settleLater(s, *old))
		}
		if w.rng.IntN(4) == 0 {
			w.openLane(s.h, s.place, w.rng.IntN(2), nil)
		}
	}
	// Time for answers that come too early, of which a right server gives none.
	if c := w.conns[0]; !dead(c) {
		for i := uint64(0); i < 4 && c.Ping(i) == nil; i++ { // a step before may have it cut just now
		}
	}
	for _, s := range w.streams {
		s.arrived()
	}
	off := w.mem && w.rng.IntN(2) == 0
	if off {
		w.crash(release)
	}
	release()
	for _, l := range settled {
		l.answer()
	}
	if off {
		w.down()
		w.sendAgain(s, settled)
	}
}

// sendAgain sends batches that were settled before the power went off: if that was said,
// it holds.
func (w *world) sendAgain(s *stream, settled []later) {
	s = w.openLane(s.h, s.place, w.rng.IntN(2), nil)
	if s == nil {
		return
	}
	if s.settle(); s.open {
		w.readOn()
		for _, l := range settled {
			if fits(s, l.batch) {
				s.send(l.batch, -1)
			}
		}
	}
}

// lastSent is the batch that a stream was given last.
func (s *stream) lastSent() *sealed {
	if len(s.waiting) == 0 {
		return nil
	}
	return s.w.batchOf(s.h, s.place, s.waiting[len(s.waiting)-1].id)
}

// A later answer is that to a settle which waits for a sync.
type later struct {
	batch  sealed
	answer func() // takes it, if there is one
}

// settleLater asks for a settle and does not wait for the answer.
func (w *world) settleLater(s *stream, b sealed) later {
	h, p := s.h, s.place
	m := w.resolveRequest(h, p, b, true)
	c := w.conn(0)
	type answer struct {
		m   wire.Message
		err error
	}
	done := make(chan answer, 1)
	w.readers.Go(func() {
		m, err := request(c, m)
		done <- answer{m, err}
	})
	return later{b, func() {
		select {
		case a := <-done:
			if a.err == nil {
				w.answerOfResolve(h, p, b, a.m)
			}
		case <-time.After(rawclient.Patience):
			w.t.Fatalf("no answer to a settle of %v", b.ident)
		}
	}}
}

// crash turns the power off.
func (w *world) crash(release func()) {
	w.now.ending = true
	keep := vfs.KeepRandom(w.rng)
	kind := "some of what was not synced is left"
	if w.rng.IntN(2) == 0 {
		keep, kind = nil, "nothing is left that was not synced"
	}
	w.log("  power off: %s", kind)
	w.seen.add("power off", kind)
	w.s.CrashKeeping(keep, release)
}

func (w *world) stepCrash() {
	if !w.mem {
		w.stepKill()
		return
	}
	if s := w.anyStream(); s != nil && w.rng.IntN(2) == 0 {
		w.burst(s)
	}
	w.crash(nil)
	w.down()
}

func (w *world) stepKill() {
	if s := w.anyStream(); s != nil && w.rng.IntN(2) == 0 {
		w.burst(s)
	}
	w.now.ending = true
	w.s.Kill()
	w.down()
}

func (w *world) stepRestart() {
	// With the power going off in the middle, nobody may be there who could be answered by a
	// server whose disk has stopped.
	interrupted := w.mem && w.crowd == nil && w.rng.IntN(3) == 0
	if s := w.anyStream(); s != nil && !interrupted && w.rng.IntN(2) == 0 {
		w.burst(s)
	} else {
		w.collect()
		w.leave()
	}
	w.now.ending = true
	if interrupted {
		w.seen.add("power off", "in the middle of a stop")
		calls, seen := int32(w.rng.IntN(30)), new(atomic.Int32)
		w.log("  power off after %d calls of the stop", calls)
		w.s.CrashInStop(func(vfs.Op, string) bool { return seen.Add(1) > calls }, vfs.KeepRandom(w.rng))
	} else {
		w.s.Restart()
	}
	w.down()
}

func (w *world) stepFailAppend() {
	s := w.anyStream()
	if s == nil {
		return
	}
	w.now.faults = true
	if w.rng.IntN(2) == 0 {
		w.s.FailAppend()
	} else {
		w.s.TearAppend(w.rng.IntN(400))
	}
	w.burst(s)
	s.settle()
	if w.rng.IntN(2) == 0 {
		w.burst(s)
	}
}

func (w *world) stepFailSync() {
	s := w.anyStream()
	if s == nil {
		return
	}
	w.now.stopped, w.now.faults = true, true
	w.s.FailSync()
	w.burst(s)
	s.settle()
	w.burst(s)
	s.settle()
	if w.mem && w.rng.IntN(2) == 0 {
		w.crash(nil)
	} else {
		w.leave()
		w.now.ending = true
		w.s.Restart()
	}
	w.down()
}

func (w *world) stepFullDisk() {
	w.now.full = true
	w.s.FillDisk()
	for range 1 + w.rng.IntN(3) {
		if s := w.anyStream(); s != nil {
			w.burst(s)
			s.settle()
		}
	}
	w.s.FreeDisk()
}

func (w *world) stepClock() {
	d := time.Duration(w.rng.IntN(100)-50) * time.Hour
	w.log("  %v", d)
	w.s.AdvanceClock(d)
}

// stepUptime makes everybody idle whom no stream holds.
func (w *world) stepUptime() {
	if w.rng.IntN(2) == 0 {
		for _, s := range w.streams {
			s.end()
			s.settle()
		}
		w.streams = nil
	}
	w.s.AdvanceUptime(2 * idle)
}

// stepTopic deletes the second topic while its lanes are in use, and makes it anew.
func (w *world) stepTopic() {
	old := w.topics[1]
	w.ref.mu.Lock()
	for n := range old.Partitions {
		p := place{old.ID, int32(n)}
		w.ref.at(p).gone = true
		w.past = append(w.past, p)
	}
	w.ref.mu.Unlock()
	if s := w.anyStream(); s != nil {
		w.burst(s)
	}
	if m, ok := w.ask(&wire.DeleteTopic{Name: old.Name}).(*wire.TopicDeleted); !ok || m.ID != old.ID {
		w.t.Fatalf("topic was not deleted: %+v", m)
	}
	for _, s := range w.streams {
		if s.settle(); s.open && s.place.topic == old.ID && w.rng.IntN(2) == 0 {
			w.burst(s)
		}
	}
	w.topics[1] = w.mustCreate(old.Name, 1)
	if w.topics[1].ID == old.ID {
		w.t.Fatal("the new topic has the id of the old one")
	}
}
