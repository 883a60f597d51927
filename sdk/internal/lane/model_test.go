package lane

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// modelServer is one partition with one producer, after the rules that a server keeps:
// it appends what follows, answers what it has with the original offset, refuses gaps
// and conflicts.
type modelServer struct {
	log    []*Batch // stored, in order; a lost attempt may have got here
	starts []batchfmt.Offset
	end    batchfmt.Offset
	last   batchfmt.Seq
}

func (m *modelServer) produce(b *Batch) wire.ProduceResult {
	r := wire.ProduceResult{BaseSequence: b.Base, BaseOffset: -1, Expected: -1}
	for i, old := range m.log {
		switch {
		case old.Base == b.Base && old.Count == b.Count && old.Digest == b.Digest:
			r.BaseOffset, r.Duplicate, r.Verified = m.starts[i], true, true
			return r
		case old.Base <= b.Last() && b.Base <= old.Last():
			r.Code = wire.CodeSequenceConflict
			return r
		}
	}
	if b.Base != m.last+1 {
		r.Code, r.Expected = wire.CodeOutOfOrder, int64(m.last)+1
		return r
	}
	r.BaseOffset = m.end
	m.log = append(m.log, b)
	m.starts = append(m.starts, m.end)
	m.end += batchfmt.Offset(b.Count)
	m.last = b.Last()
	return r
}

// superseded is the answer to a batch of an opening that is over: where the batch is, if
// it is there.
func (m *modelServer) superseded(b *Batch) wire.ProduceResult {
	r := wire.ProduceResult{BaseSequence: b.Base, Code: wire.CodeSuperseded, BaseOffset: -1, Expected: -1}
	for i, old := range m.log {
		if old == b {
			r.BaseOffset = m.starts[i]
		}
	}
	return r
}

func (m *modelServer) holds(b *Batch) int {
	n := 0
	for _, old := range m.log {
		if old == b {
			n++
		}
	}
	return n
}

// model is a core, a server, and a network that loses connections at any point: frames
// that arrive are served, frames that are on their way are lost, and so are answers.
type model struct {
	t      *rapid.T
	core   *Core
	server modelServer
	now    time.Time

	connected bool
	openAsked bool
	overtaken bool                 // an older opening reached the server after the current one
	frames    []*Batch             // on their way to the server
	answers   []wire.ProduceResult // on their way back

	all      []*Batch
	outcomes map[*Batch]Outcome
	order    []*Batch
	failed   bool
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
		if !m.connected {
			m.t.Fatal("opened without a connection")
		}
		// The server finishes what it has of an older opening before it answers this one.
		for range rapid.IntRange(0, len(m.frames)).Draw(m.t, "arrive before the opening") {
			m.server.produce(m.frames[0])
			m.frames = m.frames[1:]
		}
		m.openAsked, m.overtaken, m.frames, m.answers = true, false, nil, nil
	case Send:
		if m.openAsked {
			m.t.Fatal("sent before the lane was open")
		}
		m.frames = append(m.frames, a.Batch)
		if len(m.frames)+len(m.answers) > MaxInFlight {
			m.t.Fatalf("%d batches in flight", len(m.frames)+len(m.answers))
		}
	case Complete:
		if _, twice := m.outcomes[a.Batch]; twice {
			m.t.Fatalf("batch %d has two outcomes", a.Batch.Base)
		}
		m.outcomes[a.Batch] = a.Outcome
		m.order = append(m.order, a.Batch)
	case Fail:
		m.failed = true
	}
}

// enqueue freezes a batch when there is room.
func (m *model) enqueue(t *rapid.T) {
	if !m.core.Room(m.now) {
		return
	}
	b := &Batch{Base: m.core.Next(), Count: rapid.IntRange(1, 3).Draw(t, "records"),
		Digest: batchfmt.Digest(len(m.all) + 1), Deadline: m.now.Add(time.Hour)}
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
	b := m.frames[0]
	m.frames = m.frames[1:]
	if m.overtaken {
		m.answers = append(m.answers, m.server.superseded(b))
		return
	}
	refusals := []wire.Code{wire.CodeThrottled, wire.CodeDiskFull, wire.CodeMessageTooLarge, wire.CodeDurabilityUnknown}
	pick := rapid.IntRange(0, 20).Draw(t, "refuse batch")
	if pick >= len(refusals) {
		m.answers = append(m.answers, m.server.produce(b))
		return
	}
	code := refusals[pick]
	if code == wire.CodeDurabilityUnknown && rapid.Bool().Draw(t, "is on disk") {
		m.server.produce(b)
	}
	m.answers = append(m.answers, wire.ProduceResult{BaseSequence: b.Base, Code: code, BaseOffset: -1, Expected: -1})
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

// cut loses the connection: some of the frames still arrive, no answer does.
func (m *model) cut(t *rapid.T) {
	if !m.connected {
		return
	}
	for range rapid.IntRange(0, len(m.frames)).Draw(t, "arrive yet") {
		m.server.produce(m.frames[0])
		m.frames = m.frames[1:]
	}
	m.connected, m.openAsked, m.overtaken, m.frames, m.answers = false, false, false, nil, nil
	m.core.Disconnected(m.now)
	m.carryOut()
}

func (m *model) pass(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "milliseconds")) * time.Millisecond)
	m.core.Tick(m.now)
	m.carryOut()
}

// settle lets everything through that is still under way.
func (m *model) settle(t *rapid.T) {
	for range 200 {
		if m.core.Stopped() != nil || len(m.order) == len(m.all) {
			return
		}
		switch {
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
		switch o := m.outcomes[b]; {
		case held > 1:
			m.t.Fatalf("batch %d is stored %d times", b.Base, held)
		case o.Fate == Stored && held != 1:
			m.t.Fatalf("batch %d is said to be stored and is not", b.Base)
		case o.Fate == NotStored && held != 0:
			m.t.Fatalf("batch %d is said not to be stored and is", b.Base)
		}
	}
	next := 0
	for _, b := range m.server.log {
		for ; next < len(m.all) && m.all[next] != b; next++ {
		}
		if next == len(m.all) {
			m.t.Fatalf("batch %d is stored out of its order", b.Base)
		}
	}
	for i, b := range m.server.log {
		if o := m.outcomes[b]; o.Fate == Stored && o.Result.BaseOffset != m.server.starts[i] {
			m.t.Fatalf("batch %d is at %d, said to be at %d", b.Base, m.server.starts[i], o.Result.BaseOffset)
		}
	}
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{t: t, core: New(), now: time.Unix(1_000_000, 0), outcomes: make(map[*Batch]Outcome)}
		m.server.last = -1
		t.Repeat(map[string]func(*rapid.T){
			"enqueue":  m.enqueue,
			"enqueue2": m.enqueue,
			"connect":  m.connectOrOpen,
			"arrive":   m.arrive,
			"arrive2":  m.arrive,
			"answer":   m.answer,
			"answer2":  m.answer,
			"cut":      m.cut,
			"overtake": m.overtake,
			"pass":     m.pass,
		})
		m.settle(t)
		m.check()
		if m.core.Stopped() != nil && len(m.order) != len(m.all) {
			t.Fatalf("the lane is over and %d batches have no outcome", len(m.all)-len(m.order))
		}
	})
}
