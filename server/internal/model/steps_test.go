package model

import (
	"maps"
	"os"
	"slices"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/planted"
	"github.com/quoin-io/quoin/wire"
)

// steps are what can happen, with how often.
var steps = []struct {
	name   string
	weight int
	do     func(*world)
}{
	{"burst", 40, (*world).stepBurst},
	{"open", 9, (*world).stepOpen},
	{"strange open", 4, (*world).stepStrangeOpen},
	{"close stream", 5, (*world).stepCloseStream},
	{"newcomer", 6, (*world).stepNewcomer},
	{"crowd of newcomers", 1, (*world).stepNewcomers},
	{"name", 4, (*world).stepName},
	{"inspect", 5, (*world).stepInspect},
	{"settle", 5, (*world).stepSettle},
	{"give up", 4, (*world).stepGiveUp},
	{"bump", 4, (*world).stepBump},
	{"close producer", 2, (*world).stepCloseProducer},
	{"cut all", 2, (*world).stepCut},
	{"cut one", 2, (*world).stepCutOne},
	{"drop acknowledgement", 3, (*world).stepDropAck},
	{"hold syncs", 5, (*world).stepHold},
	{"crash", 2, (*world).stepCrash},
	{"kill", 1, (*world).stepKill},
	{"restart", 2, (*world).stepRestart},
	{"failing append", 3, (*world).stepFailAppend},
	{"failing sync", 1, (*world).stepFailSync},
	{"full disk", 2, (*world).stepFullDisk},
	{"clock", 2, (*world).stepClock},
	{"uptime", 2, (*world).stepUptime},
	{"topic", 1, (*world).stepTopic},
}

// next does one step.
func (w *world) next() {
	total := 0
	for _, s := range steps {
		total += s.weight
	}
	n := w.rng.IntN(total)
	for _, s := range steps {
		if n -= s.weight; n < 0 {
			w.step++
			w.log("%s", s.name)
			w.seen.add("step", s.name)
			s.do(w)
			w.collect()
			w.readOn()
			w.explain()
			return
		}
	}
}

// maxHolders is how many holders are kept. The oldest ones leave for good, or nobody would
// come back whom the server has just forgotten.
const maxHolders = 16

func (w *world) anyHolder() *holder {
	if len(w.holders) == 0 {
		w.stepNewcomer()
	}
	return w.holders[w.rng.IntN(len(w.holders))]
}

func (w *world) anyStream() *stream {
	if len(w.streams) == 0 || w.rng.IntN(8) == 0 {
		w.stepOpen()
		w.collect()
		w.readOn()
	}
	if len(w.streams) == 0 {
		return nil
	}
	return w.streams[w.rng.IntN(len(w.streams))]
}

func (w *world) newID() (id [16]byte) {
	for i := range id {
		id[i] = byte(w.rng.Uint32())
	}
	return id
}

func (w *world) stepNewcomer() {
	h := &holder{instance: w.newID(), lanes: make(map[place]*lane)}
	w.init(h)
	if len(w.holders) > maxHolders {
		w.holders = slices.Delete(w.holders, 0, 1)
	}
}

// stepNewcomers lets many come for one batch each, so that others must leave.
func (w *world) stepNewcomers() {
	p := w.anyPlace()
	for range maxProducers + maxRetired/2 {
		w.stepNewcomer()
		h := w.holders[len(w.holders)-1]
		s := w.openLane(h, p, w.rng.IntN(2), nil)
		if s == nil {
			return
		}
		w.streams = w.streams[:len(w.streams)-1]
		if s.settle(); s.open {
			w.read(p, w.nextOf(p))
			s.send(w.seal(h, p, h.Epoch, 0, 1), -1)
			s.settle()
		}
		s.end()
		w.read(p, w.nextOf(p))
	}
}

// init asks for a producer id, sometimes twice, which gives the same.
func (w *world) init(h *holder) {
	m := &wire.InitProducer{Instance: h.instance, Name: h.name}
	reply, ok := w.ask(m).(*wire.ProducerInited)
	if !ok {
		w.t.Fatalf("init producer: %+v", reply)
	}
	if w.rng.IntN(4) == 0 {
		if again, ok := w.ask(m).(*wire.ProducerInited); !ok || *again != *reply {
			w.t.Fatalf("the same instance got %+v, then %+v", reply, again)
		}
	}
	if h.ProducerInited = *reply; h.issued == nil {
		h.issued = new(batchfmt.Epoch)
	}
	*h.issued = reply.Epoch
	w.holders = append(w.holders, h)
	w.log("  p%d/e%d name %q", h.ProducerID, h.Epoch, h.name)
}

// stepName takes a name, from whoever has it.
func (w *world) stepName() {
	h := &holder{instance: w.newID(), name: string(rune('a' + w.rng.IntN(3))), lanes: make(map[place]*lane)}
	old := w.names[h.name]
	before := batchfmt.Epoch(0)
	if old != nil {
		old.fencing, before, h.issued = true, *old.issued, old.issued
	}
	w.init(h)
	w.names[h.name] = h
	w.ref.mu.Lock()
	w.ref.named[h.ProducerID] = true
	w.ref.mu.Unlock()
	if old == nil {
		return
	}
	if h.ProducerID != old.ProducerID || h.Epoch <= before {
		w.t.Fatalf("name %q went from p%d/e%d to p%d/e%d", h.name, old.ProducerID, before, h.ProducerID, h.Epoch)
	}
	old.fenced = true
	// What the zombie knows of its batches, a successor with an outbox knows too.
	for p, l := range old.lanes {
		h.lanes[p] = &lane{next: l.next, sent: l.sent, acked: l.acked, batches: slices.Clone(l.batches), movedOn: maps.Clone(l.movedOn)}
	}
}

func (w *world) stepOpen() {
	w.openLane(w.anyHolder(), w.anyPlace(), w.rng.IntN(2), nil)
}

// stepStrangeOpen opens a lane as a clone would, or one without memory, or with an epoch
// that is not the holder's.
func (w *world) stepStrangeOpen() {
	h := w.anyHolder()
	w.openLane(h, w.anyPlace(), w.rng.IntN(2), func(m *wire.OpenLane) {
		switch w.rng.IntN(5) {
		case 0:
			m.Acked, m.Sent = nil, nil
		case 1:
			m.Acked = nil
			if m.Sent != nil && *m.Sent > 0 {
				less := *m.Sent - 1 - batchfmt.Seq(w.rng.IntN(3))
				m.Sent = &less
			}
		case 2:
			m.Fresh = true
		case 3:
			m.Epoch += 3
		case 4:
			m.Epoch-- // of epoch 0: the highest that there is
		}
	})
}

func (w *world) stepCloseStream() {
	if s := w.anyStream(); s != nil {
		s.end()
		s.settle()
		w.log("  #%d of p%d ended", s.asked.number, s.h.ProducerID)
	}
}

func (w *world) stepBurst() {
	s := w.anyStream()
	if s == nil {
		return
	}
	if s.h.behind && w.rng.IntN(2) == 0 {
		w.bump(s.h)
	}
	w.burst(s)
}

// burst sends some frames on a stream, and copies of them on another one of the lane.
func (w *world) burst(s *stream) {
	frames := w.frames(s)
	if w.rng.IntN(4) == 0 {
		w.rng.Shuffle(len(frames), func(i, j int) { frames[i], frames[j] = frames[j], frames[i] })
	}
	other := w.otherOf(s)
	for _, b := range frames {
		copies := 1
		if w.rng.IntN(5) == 0 {
			copies = 2
		}
		for range copies {
			if to := s; other != nil && w.rng.IntN(2) == 0 && fits(other, b) {
				other.send(b, -1)
			} else if fits(to, b) {
				to.send(b, w.confirmed(to))
			}
		}
	}
}

// otherOf is another stream of the same lane, if there is one.
func (w *world) otherOf(s *stream) *stream {
	for _, o := range w.streams {
		if o != s && o.open && o.h.ProducerID == s.h.ProducerID && o.place == s.place && w.rng.IntN(2) == 0 {
			return o
		}
	}
	return nil
}

// fits reports whether the answer to b can be told from others: it names the base sequence
// alone.
func fits(s *stream, b sealed) bool {
	return !slices.ContainsFunc(s.waiting, func(a attempt) bool { return a.id.base == b.base && a.id != b.ident })
}

// confirmed is what the application was given every outcome of; now and then it is not said.
func (w *world) confirmed(s *stream) batchfmt.Seq {
	if l := s.h.lane(s.place); l.acked != nil && w.rng.IntN(3) > 0 {
		return l.acked.Sequence
	}
	return -1
}

// frames makes up to six batches for a lane: most are the next ones, but not all.
func (w *world) frames(s *stream) (frames []sealed) {
	h, p := s.h, s.place
	l := h.lane(p)
	next := l.next
	for range 1 + w.rng.IntN(6) {
		n := 1 + w.rng.IntN(3)
		old := w.anyOf(l)
		switch k := w.rng.IntN(16); {
		case k < 8 || old == nil && k < 14:
			b := w.seal(h, p, h.Epoch, next, n)
			next = b.last + 1
			if w.rng.IntN(12) > 0 { // else it is lost on the way
				frames = append(frames, b)
			}
		case k < 12:
			frames = append(frames, *old)
		case k < 14: // another batch in the place of an old one, or over its end
			shift := batchfmt.Seq(w.rng.IntN(3) - 1)
			frames = append(frames, w.seal(h, p, h.Epoch, max(0, old.base+shift), n))
		case k < 15:
			frames = append(frames, w.seal(h, p, h.Epoch, next+1+batchfmt.Seq(w.rng.IntN(3)), n))
		default:
			frames = append(frames, w.seal(h, p, *h.issued+1+batchfmt.Epoch(w.rng.IntN(2)), next, n))
		}
	}
	return frames
}

// anyOf is a batch that was sealed before: each second time one that may be the next one,
// because it was lost, refused or fenced.
func (w *world) anyOf(l *lane) *sealed {
	if len(l.batches) == 0 {
		return nil
	}
	pick := func() *sealed { return &l.batches[len(l.batches)-1-w.rng.IntN(min(len(l.batches), 24))] }
	b := pick()
	if w.rng.IntN(2) == 0 {
		for range 6 {
			if b.base == l.next {
				break
			}
			b = pick()
		}
	}
	return b
}

func (w *world) stepInspect() { w.resolve(false) }

func (w *world) stepSettle() {
	h, epoch := w.resolve(true)
	// The producer goes on under a new epoch; now and then it is told so too late.
	if h.Epoch == epoch && w.rng.IntN(3) > 0 && !h.closed && !h.fenced {
		w.bump(h)
	}
}

// resolve asks what became of a batch: one that was sent, or one that is lost for good.
func (w *world) resolve(settle bool) (*holder, batchfmt.Epoch) {
	h, p := w.anyHolder(), w.anyPlace()
	if s := w.anyStream(); s != nil && w.rng.IntN(4) > 0 {
		h, p = s.h, s.place
	}
	l := h.lane(p)
	old := w.anyOf(l)
	if old == nil || w.rng.IntN(3) == 0 {
		b := w.seal(h, p, h.Epoch, l.next, 1+w.rng.IntN(2))
		old = &b
	}
	b := *old
	m := w.resolveRequest(h, p, b, settle)
	w.answerOfResolve(h, p, b, w.ask(m))
	return h, b.epoch
}

func (w *world) resolveRequest(h *holder, p place, b sealed, settle bool) *wire.Resolve {
	w.log("  resolve part %d %v settle %v", p.part, b.ident, settle)
	if settle {
		w.ref.mu.Lock()
		t := w.ref.at(p).lane(b.pid)
		t.fence = max(t.fence, b.epoch+1)
		w.ref.mu.Unlock()
	}
	return &wire.Resolve{ProducerID: b.pid, Key: h.Key, Epoch: b.epoch, TopicID: p.topic, Partition: p.part,
		Base: b.base, Last: b.last, Digest: b.digest, Settle: settle}
}

func (w *world) answerOfResolve(h *holder, p place, b sealed, reply wire.Message) wire.ResolveOutcome {
	w.ref.mu.Lock()
	defer w.ref.mu.Unlock()
	switch m := reply.(type) {
	case *wire.Resolved:
		w.log("  resolved %v: %v at %d (%s)", b.ident, m.Outcome, m.Offset, m.Detail)
		w.seen.add("resolve", m.Outcome.String())
		w.ref.resolved(p, b.ident, m)
		return m.Outcome
	case *wire.Error:
		w.log("  not resolved %v: %v", b.ident, m)
		w.seen.add("resolve", m.Code.String())
		now := w.situation(nil)
		// An epoch that the asker was never given is not his to settle.
		notHis := b.epoch > *h.issued || h.fenced && b.epoch > h.Epoch
		if m.Code == wire.CodeInvalidProducerEpoch && notHis || m.Code == wire.CodeProducerLimitReached {
			break
		}
		if wrong := now.trouble(m.Code); wrong != "" {
			w.ref.fail("resolve %v: %v: %s", b.ident, m, wrong)
		}
	}
	return 0
}

// bugSendsUnknownAgain is one of the client here, not of the server: it sends records again
// of which it has told the application that it does not know, without having settled them.
const bugSendsUnknownAgain = "sends-unknown-again"

// stepGiveUp loses the answers to a burst, settles what became of it, and sends the records
// of what is not stored once more, in new batches under a new epoch.
func (w *world) stepGiveUp() {
	s := w.anyStream()
	if s == nil {
		return
	}
	h, p := s.h, s.place
	w.burst(s)
	var open []sealed
	for _, a := range s.waiting {
		b := w.batchOf(h, p, a.id)
		if b != nil && !h.lane(p).movedOn[b.ident] && a.id.epoch <= *h.issued && !slices.ContainsFunc(open, func(o sealed) bool { return o.ident == b.ident }) {
			open = append(open, *b)
		}
	}
	s.conn.Conn.CloseWithError(0, "")
	w.collect()
	var again [][]string
	for _, b := range open {
		outcome := wire.ResolveNever
		if os.Getenv(planted.EnvBug) != bugSendsUnknownAgain {
			outcome = w.answerOfResolve(h, p, b, w.ask(w.resolveRequest(h, p, b, true)))
		}
		if outcome == wire.ResolveNever {
			h.lane(p).movedOn[b.ident] = true
			again = append(again, b.values)
		}
	}
	if h.fenced || h.closed || len(again) == 0 {
		return
	}
	w.bump(h)
	s = w.openLane(h, p, w.rng.IntN(2), nil)
	if s == nil {
		return
	}
	if s.settle(); !s.open {
		return
	}
	w.readOn()
	next := h.lane(p).next
	for _, values := range again {
		b := w.sealValues(h, p, h.Epoch, next, values)
		s.send(b, -1)
		next = b.last + 1
	}
}

// batchOf finds a batch of a holder.
func (w *world) batchOf(h *holder, p place, id ident) *sealed {
	l := h.lane(p)
	if i := slices.IndexFunc(l.batches, func(b sealed) bool { return b.ident == id }); i >= 0 {
		return &l.batches[i]
	}
	return nil
}

func (w *world) stepBump() { w.bump(w.anyHolder()) }

func (w *world) bump(h *holder) {
	m := &wire.BumpEpoch{ProducerID: h.ProducerID, Key: h.Key, Request: w.newID()}
	reply := w.ask(m)
	if w.rng.IntN(3) == 0 {
		again := w.ask(m)
		a, _ := reply.(*wire.EpochBumped)
		b, _ := again.(*wire.EpochBumped)
		if (a == nil) != (b == nil) || a != nil && *a != *b {
			w.t.Fatalf("the same request was answered %+v, then %+v", reply, again)
		}
	}
	switch m := reply.(type) {
	case *wire.EpochBumped:
		w.seen.add("bump", "raised")
		w.ref.mu.Lock()
		defer w.ref.mu.Unlock()
		if m.Epoch != *h.issued+1 || h.fenced || h.closed && h.name == "" {
			w.ref.fail("p%d was raised from %d to epoch %d, fenced %v, closed %v", h.ProducerID, *h.issued, m.Epoch, h.fenced, h.closed)
		}
		h.Epoch, *h.issued, h.behind = m.Epoch, m.Epoch, false
		w.log("  p%d is at epoch %d", h.ProducerID, m.Epoch)
	case *wire.Error:
		w.seen.add("bump", m.Code.String())
		if !(m.Code == wire.CodeInvalidProducerEpoch && h.fenced) && !(m.Code == wire.CodeUnknownProducerID && h.closed) {
			w.t.Fatalf("p%d fenced %v closed %v was not raised: %v", h.ProducerID, h.fenced, h.closed, m)
		}
	}
}

func (w *world) stepCloseProducer() {
	h := w.anyHolder()
	h.fencing = h.fencing || h.name == ""
	switch m := w.ask(&wire.CloseProducer{ProducerID: h.ProducerID, Key: h.Key}).(type) {
	case *wire.ProducerClosed:
		h.closed = true
		w.seen.add("close", "closed")
		w.log("  p%d closed", h.ProducerID)
	case *wire.Error:
		w.seen.add("close", m.Code.String())
		if m.Code != wire.CodeInvalidProducerEpoch || !h.fenced {
			w.t.Fatalf("p%d fenced %v was not closed: %v", h.ProducerID, h.fenced, m)
		}
	}
}
