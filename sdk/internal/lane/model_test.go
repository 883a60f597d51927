package lane

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// A frame is a batch as it was sent: sealing the batch anew does not change it.
type frame struct {
	batch  *Batch
	base   batchfmt.Seq
	last   batchfmt.Seq
	epoch  batchfmt.Epoch
	digest batchfmt.Digest
}

func frameOf(b *Batch) frame { return frame{b, b.Base, b.Last(), b.Epoch, b.Digest} }

func (f frame) refusal(code wire.Code) wire.ProduceResult {
	return wire.ProduceResult{BaseSequence: f.base, Code: code, BaseOffset: -1, Expected: -1}
}

// modelServer is one partition with one producer, after the rules that a server keeps:
// it appends what follows, answers what it has with the original offset, refuses gaps
// and conflicts, and what a fence has shut out.
type modelServer struct {
	log    []frame // stored, in order; a lost attempt may have got here
	starts []batchfmt.Offset
	end    batchfmt.Offset
	last   batchfmt.Seq
	lowest batchfmt.Epoch // that is taken for something new
	epoch  batchfmt.Epoch // of the producer
}

// find is where the log holds f, or something that touches it.
func (m *modelServer) find(f frame) (at int, same bool) {
	for i, old := range m.log {
		if old.base <= f.last && f.base <= old.last {
			return i, old == f
		}
	}
	return -1, false
}

func (m *modelServer) produce(f frame) wire.ProduceResult {
	r := f.refusal(wire.CodeOK)
	switch at, same := m.find(f); {
	case same:
		r.BaseOffset, r.Duplicate, r.Verified = m.starts[at], true, true
		return r
	case at >= 0:
		r.Code = wire.CodeSequenceConflict
		return r
	case f.base != m.last+1:
		r.Code, r.Expected = wire.CodeOutOfOrder, int64(m.last)+1
		return r
	case f.epoch < m.lowest:
		r.Code, r.NotStored, r.Expected = wire.CodeInvalidProducerEpoch, true, int64(m.lowest)
		return r
	}
	r.BaseOffset = m.end
	m.log = append(m.log, f)
	m.starts = append(m.starts, m.end)
	m.end += batchfmt.Offset(f.last - f.base + 1)
	m.last, m.lowest = f.last, max(m.lowest, f.epoch)
	return r
}

// superseded is the answer to a batch of an opening that is over: where the batch is, if
// it is there.
func (m *modelServer) superseded(f frame) wire.ProduceResult {
	r := f.refusal(wire.CodeSuperseded)
	if at, same := m.find(f); same {
		r.BaseOffset = m.starts[at]
	}
	return r
}

// settle says what became of a batch, and writes a fence if that is not certain.
func (m *modelServer) settle(f frame) wire.Resolved {
	r := wire.Resolved{Outcome: wire.ResolveNever, Offset: -1, LastSequence: m.last}
	if at, same := m.find(f); same {
		r.Outcome, r.Offset, r.Verified = wire.ResolveStored, m.starts[at], true
	} else if at < 0 {
		m.lowest = max(m.lowest, f.epoch+1)
	}
	r.Epoch = m.lowest
	return r
}

func (m *modelServer) holds(b *Batch) int {
	n := 0
	for _, old := range m.log {
		if old.batch == b {
			n++
		}
	}
	return n
}

// model is a core, a server, and a network that loses connections at any point: frames
// that arrive are served, frames that are on their way are lost or late, and answers are
// lost.
type model struct {
	t      *rapid.T
	core   *Core
	server modelServer
	now    time.Time

	connected bool
	openAsked bool
	overtaken bool                 // an older opening reached the server after the current one
	frames    []frame              // on their way to the server
	late      []frame              // of an opening that is over; they may arrive until the next one is answered
	answers   []wire.ProduceResult // on their way back
	settling  *Batch               // Settle is asked for
	settleOf  frame                // as it was when it was asked for
	raise     bool                 // Raise is asked for
	raiseTo   batchfmt.Epoch

	all      []*Batch
	outcomes map[*Batch]Outcome
	told     map[*Batch]bool // the application was told to be unknown, by the outcome or before it
	reports  map[*Batch]wire.Resolved
	order    []*Batch
	failed   bool
}

func newModel(t *rapid.T) *model {
	m := &model{t: t, core: New(), now: time.Unix(1_000_000, 0), outcomes: make(map[*Batch]Outcome),
		told: make(map[*Batch]bool), reports: make(map[*Batch]wire.Resolved)}
	m.server.last = -1
	m.core.SetGrace(time.Second)
	return m
}

func (m *model) carryOut() {
	for {
		actions := append([]Action(nil), m.core.Actions()...)
		if len(actions) == 0 {
			return
		}
		for _, a := range actions {
			m.act(a)
		}
	}
}

func (m *model) act(a Action) {
	if m.failed {
		m.t.Fatalf("%v after the lane failed", a.Kind)
	}
	switch a.Kind {
	case Open:
		m.open()
	case Send:
		m.send(a.Batch)
	case Complete:
		if _, twice := m.outcomes[a.Batch]; twice {
			m.t.Fatalf("batch %d has two outcomes", a.Batch.Base)
		}
		m.outcomes[a.Batch] = a.Outcome
		m.order = append(m.order, a.Batch)
		m.told[a.Batch] = m.told[a.Batch] || a.Outcome.Fate == Unknown
	case Fail:
		m.failed = true
	case Settle:
		if m.settling != nil {
			m.t.Fatal("two batches are settled at a time")
		}
		m.settling, m.settleOf = a.Batch, frameOf(a.Batch)
	case Report:
		if m.outcomes[a.Batch].Fate != Unknown {
			m.t.Fatalf("batch %d is reported and was not unknown", a.Batch.Base)
		}
		m.reports[a.Batch] = *a.Found
	case Raise:
		m.raise, m.raiseTo = true, a.Epoch
	case Reseal:
		if m.server.holds(a.Batch) > 0 || m.told[a.Batch] && a.Batch.attempts > 0 {
			m.t.Fatalf("batch %d is sealed anew", a.Batch.Base)
		}
		a.Batch.Epoch, a.Batch.Digest = m.server.epoch, a.Batch.Digest+1_000_000
	}
}

func (m *model) open() {
	if !m.connected {
		m.t.Fatal("opened without a connection")
	}
	// The server finishes what it has of an older opening before it answers this one.
	m.arriveSome("arrive before the opening")
	m.openAsked, m.overtaken, m.frames, m.late, m.answers = true, false, nil, nil, nil
}

func (m *model) send(b *Batch) {
	switch {
	case m.openAsked:
		m.t.Fatal("sent before the lane was open")
	case m.told[b] && b.attempts > 1:
		m.t.Fatalf("batch %d is sent again after it was told to be unknown", b.Base)
	}
	m.frames = append(m.frames, frameOf(b))
	if len(m.frames)+len(m.answers) > MaxInFlight {
		m.t.Fatalf("%d batches in flight", len(m.frames)+len(m.answers))
	}
}

// arriveSome lets some of what is on its way arrive, without an answer.
func (m *model) arriveSome(label string) {
	for range rapid.IntRange(0, len(m.late)+len(m.frames)).Draw(m.t, label) {
		from := &m.frames
		if len(m.late) > 0 {
			from = &m.late
		}
		m.server.produce((*from)[0])
		*from = (*from)[1:]
	}
}

// enqueue freezes a batch when there is room.
func (m *model) enqueue(t *rapid.T) {
	if !m.core.Room(m.now) {
		return
	}
	b := &Batch{Base: m.core.Next(), Count: rapid.IntRange(1, 3).Draw(t, "records"), Epoch: m.server.epoch,
		Digest: batchfmt.Digest(len(m.all) + 1), Deadline: m.now.Add(testDelivery)}
	m.all = append(m.all, b)
	m.core.Enqueue(m.now, b)
	m.carryOut()
}

// connectOrOpen brings the lane one step nearer to being open.
func (m *model) connectOrOpen(t *rapid.T) {
	switch {
	case !m.connected:
		m.connected = true
		m.core.Connected(m.now)
	case m.openAsked:
		m.openAsked = false
		if rapid.IntRange(0, 5).Draw(t, "refuse opening") == 0 {
			m.core.Refused(m.now, wire.Errorf(wire.CodeThrottled, ""))
			break
		}
		m.core.Opened(m.now, &wire.LaneOpened{LastSequence: m.server.last})
	}
	m.carryOut()
}

// arrive lets the server have the next frame: it serves it, or refuses it for a reason
// of its own; always after the frames in front of it.
func (m *model) arrive(t *rapid.T) {
	if len(m.frames) == 0 {
		return
	}
	f := m.frames[0]
	m.frames = m.frames[1:]
	if m.overtaken {
		m.answers = append(m.answers, m.server.superseded(f))
		return
	}
	refusals := []wire.Code{wire.CodeThrottled, wire.CodeDiskFull, wire.CodeMessageTooLarge, wire.CodeDurabilityUnknown}
	pick := rapid.IntRange(0, 20).Draw(t, "refuse batch")
	if pick >= len(refusals) {
		m.answers = append(m.answers, m.server.produce(f))
		return
	}
	code := refusals[pick]
	if code == wire.CodeDurabilityUnknown && rapid.Bool().Draw(t, "is on disk") {
		m.server.produce(f)
	}
	m.answers = append(m.answers, f.refusal(code))
}

// arriveLate lets a frame of an older opening arrive, whose answer nobody hears.
func (m *model) arriveLate(*rapid.T) {
	if len(m.late) > 0 {
		m.server.produce(m.late[0])
		m.late = m.late[1:]
	}
}

// overtake makes everything that comes with the current opening superseded.
func (m *model) overtake(t *rapid.T) {
	m.overtaken = m.overtaken || m.connected && !m.openAsked && rapid.IntRange(0, 5).Draw(t, "overtaken") == 0
}

func (m *model) answer(*rapid.T) {
	if len(m.answers) == 0 {
		return
	}
	r := m.answers[0]
	m.answers = m.answers[1:]
	m.core.Result(m.now, &r)
	m.carryOut()
}

// cut loses the connection: some of the frames still arrive now, the others late or
// never; no answer does.
func (m *model) cut(t *rapid.T) {
	if !m.connected {
		return
	}
	m.arriveSome("arrive yet")
	m.late = append(m.late, m.frames...)
	m.connected, m.openAsked, m.overtaken, m.frames, m.answers = false, false, false, nil, nil
	m.core.Disconnected(m.now)
	m.carryOut()
}

// giveUp is an application that does not wait for a batch any more.
func (m *model) giveUp(t *rapid.T) {
	if n := len(m.core.queue); n > 0 && rapid.IntRange(0, 3).Draw(t, "give up") == 0 {
		b := m.core.queue[rapid.IntRange(0, n-1).Draw(t, "which")]
		m.told[b] = true
		m.core.Tell(m.now, b)
		m.carryOut()
	}
}

// resolve lets the server have the oldest request of the lane; its answer may be lost, and
// then the request comes again.
func (m *model) resolve(t *rapid.T) {
	lost := rapid.IntRange(0, 3).Draw(t, "answer lost") == 0
	switch {
	case m.settling != nil:
		r := m.server.settle(m.settleOf)
		if b := m.settling; !lost {
			m.settling = nil
			m.core.Settled(m.now, b, &r)
		}
	case m.raise:
		m.server.epoch = max(m.server.epoch, m.raiseTo)
		if !lost {
			m.raise = false
			m.core.Raised(m.now, m.server.epoch)
		}
	}
	m.carryOut()
}

// settleElsewhere is an application that settles a batch by its token, while the lane has
// it yet.
func (m *model) settleElsewhere(t *rapid.T) {
	told := slices.DeleteFunc(slices.Clone(m.core.queue), func(b *Batch) bool { return !b.told || b.attempts == 0 })
	if len(told) > 0 && rapid.IntRange(0, 3).Draw(t, "settle elsewhere") == 0 {
		m.server.settle(frameOf(told[0]))
	}
}

func (m *model) pass(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(1, 15000).Draw(t, "milliseconds")) * time.Millisecond)
	m.core.Tick(m.now)
	m.carryOut()
}

func (m *model) done() bool {
	return m.core.Stopped() != nil || len(m.order) == len(m.all) && len(m.core.unsettled) == 0
}

// settle lets everything through that is still under way.
func (m *model) settle(t *rapid.T) {
	for range 300 {
		if m.done() {
			return
		}
		switch {
		case m.settling != nil || m.raise:
			m.resolve(t)
		case len(m.frames) > 0:
			r := m.server.superseded(m.frames[0])
			if !m.overtaken {
				r = m.server.produce(m.frames[0])
			}
			m.answers = append(m.answers, r)
			m.frames = m.frames[1:]
		case len(m.answers) > 0:
			m.answer(t)
		case !m.connected || m.openAsked:
			m.openAsked = false
			if !m.connected {
				m.connected = true
				m.core.Connected(m.now)
			} else {
				m.core.Opened(m.now, &wire.LaneOpened{LastSequence: m.server.last})
			}
			m.carryOut()
		default:
			m.now = m.now.Add(time.Second)
			m.core.Tick(m.now)
			m.carryOut()
		}
	}
	m.t.Fatalf("%d of %d batches have an outcome after everything was let through", len(m.order), len(m.all))
}

// check holds the promises against what the server really has.
func (m *model) check() {
	for i, b := range m.order {
		if b != m.all[i] {
			m.t.Fatalf("outcome %d is that of batch %d, not of %d", i, b.Base, m.all[i].Base)
		}
		held := m.server.holds(b)
		report, reported := m.reports[b]
		switch o := m.outcomes[b]; {
		case held > 1:
			m.t.Fatalf("batch %d is stored %d times", b.Base, held)
		case o.Fate == Stored && held != 1, reported && report.Outcome == wire.ResolveStored && held != 1:
			m.t.Fatalf("batch %d is said to be stored and is not", b.Base)
		case o.Fate == NotStored && held != 0, reported && report.Outcome == wire.ResolveNever && held != 0:
			m.t.Fatalf("batch %d is said not to be stored and is", b.Base)
		case o.Fate == Unknown && !reported && m.core.Stopped() == nil:
			m.t.Fatalf("batch %d was told to be unknown, and what became of it was not reported", b.Base)
		}
	}
	next := 0
	for _, f := range m.server.log {
		for ; next < len(m.all) && m.all[next] != f.batch; next++ {
		}
		if next == len(m.all) {
			m.t.Fatalf("batch %d is stored out of its order", f.base)
		}
	}
	for i, f := range m.server.log {
		if o := m.outcomes[f.batch]; o.Fate == Stored && o.Result.BaseOffset != m.server.starts[i] {
			m.t.Fatalf("batch %d is at %d, said to be at %d", f.base, m.server.starts[i], o.Result.BaseOffset)
		}
	}
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"enqueue":         m.enqueue,
			"enqueue2":        m.enqueue,
			"connect":         m.connectOrOpen,
			"connect2":        m.connectOrOpen,
			"arrive":          m.arrive,
			"arrive2":         m.arrive,
			"arriveLate":      m.arriveLate,
			"answer":          m.answer,
			"answer2":         m.answer,
			"cut":             m.cut,
			"overtake":        m.overtake,
			"pass":            m.pass,
			"giveUp":          m.giveUp,
			"resolve":         m.resolve,
			"resolve2":        m.resolve,
			"settleElsewhere": m.settleElsewhere,
		})
		if rapid.IntRange(0, 3).Draw(t, "close") == 0 {
			m.core.Close(m.now, errors.New("closed"), m.now.Add(10*time.Second))
			m.carryOut()
		}
		m.settle(t)
		for range m.late { // whatever was said must hold when they come in
			m.arriveLate(t)
		}
		m.check()
		if m.core.Stopped() != nil && len(m.order) != len(m.all) {
			t.Fatalf("the lane is over and %d batches have no outcome", len(m.all)-len(m.order))
		}
	})
}
