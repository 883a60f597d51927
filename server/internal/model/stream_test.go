package model

import (
	"bufio"
	"fmt"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/wire"
)

// A holder is an instance that was given a producer id.
type holder struct {
	wire.ProducerInited
	instance [16]byte
	name     string
	issued   *batchfmt.Epoch // of the id, by now: all who were given it share this
	fenced   bool            // another instance has the name
	fencing  bool            // or asks for it
	closed   bool
	behind   bool // a lane takes a higher epoch only
	lanes    map[place]*lane
}

// A lane is what a holder knows of its way into one partition.
type lane struct {
	next    batchfmt.Seq
	sent    batchfmt.Seq // highest that was handed to a network
	acked   *wire.LanePoint
	batches []sealed       // all that there ever were
	movedOn map[ident]bool // those whose records were sent again in other batches
}

// A sealed batch.
type sealed struct {
	ident
	bytes  []byte
	values []string
}

func (h *holder) lane(p place) *lane {
	l := h.lanes[p]
	if l == nil {
		l = &lane{sent: -1, movedOn: make(map[ident]bool)}
		h.lanes[p] = l
	}
	return l
}

// seal makes a batch of n records that nobody has seen before.
func (w *world) seal(h *holder, p place, epoch batchfmt.Epoch, base batchfmt.Seq, n int) sealed {
	values := make([]string, n)
	for i := range values {
		w.values++
		values[i] = fmt.Sprintf("r%d", w.values)
	}
	return w.sealValues(h, p, epoch, base, values)
}

func (w *world) sealValues(h *holder, p place, epoch batchfmt.Epoch, base batchfmt.Seq, values []string) sealed {
	id := h.ProducerInited
	id.Epoch = epoch
	b := sealed{bytes: rawclient.Batch(w.t, &id, base, values...), values: values}
	parsed, err := batchfmt.Parse(b.bytes)
	if err != nil {
		w.t.Fatal(err)
	}
	b.ident = identOf(parsed)
	l := h.lane(p)
	l.batches = append(l.batches, b)
	return b
}

// A stream is one opening of one lane.
type stream struct {
	w       *world
	conn    *rawclient.Client
	quic    *quic.Stream
	h       *holder
	place   place
	asked   asked
	answer  bool // to the opening, has come
	open    bool
	refusal *wire.Error // of the opening
	waiting []attempt
	frames  chan wire.Message // closed at the end of the stream
}

// answers is more than a server may owe to a stream.
const answers = 256

// openLane asks for a lane on a stream of its own. The answer is taken by settle.
func (w *world) openLane(h *holder, p place, conn int, edit func(*wire.OpenLane)) *stream {
	l := h.lane(p)
	m := &wire.OpenLane{Lane: 1, ProducerID: h.ProducerID, Key: h.Key, Epoch: h.Epoch, TopicID: p.topic, Partition: p.part, Acked: l.acked}
	if l.sent >= 0 {
		sent := l.sent
		m.Sent = &sent
	}
	if edit != nil {
		edit(m)
	}
	c := w.conn(conn)
	qs, err := openStream(c)
	if err != nil {
		return nil
	}
	w.ref.mu.Lock()
	t := w.ref.at(p).lane(h.ProducerID)
	t.asked++
	for _, o := range w.streams {
		t.unsure = t.unsure || !o.answer && o.h.ProducerID == h.ProducerID && o.place == p
	}
	q := asked{m: m, pid: h.ProducerID, number: t.asked, lower: t.last, fenced: h.fenced || h.closed && h.name == "", issued: *h.issued, closed: h.closed}
	w.ref.mu.Unlock()
	s := &stream{w: w, conn: c, quic: qs, h: h, place: p, asked: q, frames: make(chan wire.Message, answers)}
	w.readers.Go(s.read)
	w.streams = append(w.streams, s)
	if wire.Write(qs, m) != nil {
		s.end()
	}
	w.log("open p%d/e%d part %d #%d conn %d sent %d fresh %v", h.ProducerID, m.Epoch, p.part, q.number, conn, deref(m.Sent), m.Fresh)
	return s
}

// read takes what the server writes, as it comes: what arrives before a crash counts. It
// ends with the stream.
func (s *stream) read() {
	defer close(s.frames)
	in := bufio.NewReader(s.quic)
	for {
		m, err := wire.Read(in)
		if err != nil {
			return
		}
		s.frames <- m
	}
}

// end gives the stream up, and the lane with it.
func (s *stream) end() {
	s.open = false
	s.quic.CancelRead(0)
	s.quic.Close()
}

// send sends a frame with a batch.
func (s *stream) send(b sealed, confirmed batchfmt.Seq) {
	w := s.w
	w.ref.mu.Lock()
	h := w.ref.at(s.place)
	t := h.lane(b.pid)
	a := attempt{
		id: b.ident, lower: t.last, opening: s.asked.number, given: t.given, crowded: len(s.waiting) >= 5,
		fenced: s.h.fenced || s.h.closed && s.h.name == "", issued: *s.h.issued,
	}
	h.fact(b.ident).open++
	if b.epoch <= a.issued {
		t.fence = max(t.fence, b.epoch) // once it is stored
	}
	w.ref.mu.Unlock()
	l := s.h.lane(s.place)
	l.sent = max(l.sent, b.last)
	s.waiting = append(s.waiting, a)
	err := wire.Write(s.quic, &wire.Produce{Lane: 1, Durability: wire.Synced, ConfirmedThrough: confirmed, Batch: b.bytes})
	w.log("  #%d send %v%v", s.asked.number, b.ident, map[bool]string{true: " on a dead stream"}[err != nil])
}

// settle takes answers until none is owed any more, or the stream is at its end.
func (s *stream) settle() {
	late := time.NewTimer(rawclient.Patience)
	defer late.Stop()
	for !s.answer || len(s.waiting) > 0 {
		select {
		case m, ok := <-s.frames:
			if !ok {
				s.lost()
				return
			}
			s.take(m)
		case <-late.C:
			s.w.t.Fatalf("no answer to %d frames of p%d: %v", len(s.waiting), s.h.ProducerID, s.waiting)
		}
	}
}

// arrived takes the answers that are there.
func (s *stream) arrived() {
	for {
		select {
		case m, ok := <-s.frames:
			if !ok {
				s.lost()
				return
			}
			s.take(m)
		default:
			return
		}
	}
}

// lost notes that no more answers come. An opening without one may come to pass later.
func (s *stream) lost() {
	if !s.answer {
		s.w.ref.mu.Lock()
		s.w.ref.at(s.place).lane(s.h.ProducerID).unsure = true
		s.w.ref.mu.Unlock()
	}
	s.answer, s.open, s.waiting = true, false, nil
}

func (s *stream) take(m wire.Message) {
	switch m := m.(type) {
	case *wire.LaneOpened:
		s.opened(m)
	case *wire.LaneRefused:
		s.refused(&m.Err)
	case *wire.Error:
		s.refused(m)
	case *wire.ProduceResults:
		for i := range m.Results {
			s.result(&m.Results[i])
		}
	default:
		s.w.t.Fatalf("unexpected %v", m.Kind())
	}
}

func (s *stream) opened(m *wire.LaneOpened) {
	w := s.w
	s.answer, s.open = true, true
	w.log("  #%d opened p%d at %d", s.asked.number, s.h.ProducerID, m.LastSequence)
	w.seen.add("open", "opened")
	w.ref.mu.Lock()
	t := w.ref.at(s.place).lane(s.h.ProducerID)
	t.given = max(t.given, s.asked.number)
	w.ref.opened(s.place, s.asked, m)
	w.ref.mu.Unlock()
	s.h.lane(s.place).next = m.LastSequence + 1
}

func (s *stream) refused(e *wire.Error) {
	w := s.w
	s.answer, s.refusal = true, e
	w.log("  #%d not opened: %v", s.asked.number, e)
	w.seen.add("open", e.Code.String())
	w.ref.mu.Lock()
	w.ref.refused(s.place, s.asked, e, w.situation(s))
	w.ref.mu.Unlock()
}

func (s *stream) result(m *wire.ProduceResult) {
	w := s.w
	i := s.attemptOf(m)
	if i < 0 {
		w.t.Fatalf("an answer to what was not sent: %+v", m)
	}
	a := s.waiting[i]
	s.waiting = append(s.waiting[:i:i], s.waiting[i+1:]...)
	kind := m.Code.String()
	if m.Duplicate {
		kind = "DUPLICATE"
	}
	if m.NotStored {
		kind += ", never stored"
	} else if m.Code != wire.CodeOK && m.BaseOffset >= 0 {
		kind += ", stored"
	}
	w.seen.add("produce", kind)
	w.log("  #%d %v: %s, offset %d, expected %d", s.asked.number, a.id, kind, m.BaseOffset, m.Expected)
	w.ref.mu.Lock()
	w.ref.answered(s.place, a, m, w.situation(s))
	w.ref.mu.Unlock()
	l := s.h.lane(s.place)
	switch m.Code {
	case wire.CodeOK:
		if a.id.last >= l.next {
			l.next = a.id.last + 1
		}
		if l.acked == nil || l.acked.Sequence < a.id.last {
			l.acked = &wire.LanePoint{Sequence: a.id.last, Offset: m.BaseOffset + batchfmt.Offset(a.id.last-a.id.base), Digest: a.id.digest}
		}
	case wire.CodeInvalidProducerEpoch:
		s.h.behind = !a.fenced && m.NotStored
	case wire.CodeOutOfOrder:
		l.next = batchfmt.Seq(m.Expected)
	}
}

// attemptOf finds the frame that an answer is for. Copies are alike, but for those that were
// too many.
func (s *stream) attemptOf(m *wire.ProduceResult) int {
	found := -1
	for i, a := range s.waiting {
		if a.id.base == m.BaseSequence && (found < 0 || m.Code == wire.CodeTooManyInFlight) {
			found = i
		}
	}
	return found
}

// situation is what may explain an answer on a stream. The caller has the reference's lock.
func (w *world) situation(s *stream) situation {
	now := w.now
	if s != nil {
		now.fenced = s.h.fenced || s.h.fencing || s.h.closed && s.h.name == ""
		now.issued = *s.h.issued
		asked := 0
		for _, t := range w.ref.at(s.place).lanes {
			if t.asked > 0 {
				asked++
			}
		}
		now.holders = asked + w.crowd.lanes()
	}
	return now
}

// collect takes all answers that are owed.
func (w *world) collect() {
	kept := w.streams[:0]
	for _, s := range w.streams {
		s.settle()
		if s.open {
			kept = append(kept, s)
		} else {
			s.end()
		}
	}
	clear(w.streams[len(kept):])
	w.streams = kept
}
