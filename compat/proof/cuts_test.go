package proof

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

const cutBatches = 200

// A boundary is the end of a frame of a lane: the batch that came in, or the result that
// went out.
type boundary struct {
	in   bool
	kind wire.Kind
	base batchfmt.Seq
}

// cuts cuts the connection once at each boundary, the first time that it is reached, and
// at seeded places inside of frames.
type cuts struct {
	mu     sync.Mutex
	rng    *rand.Rand
	done   map[boundary]bool
	inside int // cuts inside of frames still to make
	next   int // cuts at boundaries until the next cut inside of a frame
	wantIn bool
}

func newCuts(inside int) *cuts {
	return &cuts{rng: rand.New(rand.NewPCG(*seed, 0)), done: make(map[boundary]bool), inside: inside, next: 1}
}

func (c *cuts) hooks() servertest.FrameHooks {
	return servertest.FrameHooks{Start: c.start, End: c.end}
}

// start cuts inside of a frame, one after each cut at a boundary: so the places are spread
// over the whole run.
func (c *cuts) start(in bool, _ wire.Kind, size int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inside == 0 || c.next > 0 || in != c.wantIn {
		return -1
	}
	c.inside--
	c.next = 1
	c.wantIn = c.rng.IntN(2) == 0
	return 1 + c.rng.IntN(size-1)
}

func (c *cuts) end(in bool, m wire.Message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	cut := false
	for _, b := range boundaries(in, m) {
		if !c.done[b] {
			c.done[b] = true
			cut = true
		}
	}
	if cut && c.next > 0 {
		c.next--
	}
	return cut
}

// boundaries names the boundary at the end of a frame. A frame of several results is
// the boundary of each of them.
func boundaries(in bool, m wire.Message) (all []boundary) {
	switch m := m.(type) {
	case *wire.Produce:
		all = append(all, boundary{in, m.Kind(), batchfmt.SequenceOf(m.Batch)})
	case *wire.ProduceResults:
		for _, r := range m.Results {
			if r.Code == wire.CodeOK {
				all = append(all, boundary{in, m.Kind(), r.BaseSequence})
			}
		}
	default:
		all = append(all, boundary{in: in, kind: m.Kind()})
	}
	return all
}

func (c *cuts) count(in bool, kind wire.Kind) (n int) {
	for b := range c.done {
		if b.in == in && b.kind == kind {
			n++
		}
	}
	return n
}

// TestCutAtEveryFrameBoundary sends 200 batches while the connection is cut once at the
// end of every frame of the lane, in both directions, and at 200 places inside of frames.
func TestCutAtEveryFrameBoundary(t *testing.T) {
	run := campaign.Start(t, *seed)
	s := servertest.Start(t)
	client := dial(t, s.URL())
	createTopic(t, client, "cuts", 1)
	c := newCuts(200)
	s.HookFrames(c.hooks())
	p := newSender(t, client, "cuts", "p", onePerBatch)
	for i := range cutBatches {
		p.send(fmt.Sprintf("line %d", i))
	}
	p.finish()
	s.HookFrames(servertest.FrameHooks{})
	verify(t, s.URL(), "cuts", p)

	c.mu.Lock()
	defer c.mu.Unlock()
	run.Count("boundaries", len(c.done))
	run.Count("inside frames", 200-c.inside)
	for _, row := range []struct {
		in   bool
		kind wire.Kind
		want int
	}{{true, wire.KindOpenLane, 1}, {false, wire.KindLaneOpened, 1}, {true, wire.KindProduce, cutBatches}, {false, wire.KindProduceResults, cutBatches}} {
		if got := c.count(row.in, row.kind); got != row.want {
			t.Errorf("cut at %d boundaries of %v, want %d", got, row.kind, row.want)
		}
	}
	if c.inside != 0 {
		t.Errorf("%d cuts inside of frames were not made", c.inside)
	}
}

// TestEveryAckIsLostOnce loses the first acknowledgement of a run, then the second of the
// next run, and so on.
func TestEveryAckIsLostOnce(t *testing.T) {
	const batches = 40
	s := servertest.Start(t)
	client := dial(t, s.URL())
	for k := 1; k <= batches; k++ {
		topic := fmt.Sprintf("acks-%d", k)
		createTopic(t, client, topic, 1)
		p := newSender(t, client, topic, "p", onePerBatch)
		s.DropAck(k)
		for i := range batches {
			p.send(fmt.Sprintf("line %d", i))
		}
		p.finish()
		duplicates := 0
		for _, o := range p.outcomes {
			if o.ack.Duplicate {
				duplicates++
			}
		}
		if duplicates == 0 {
			t.Errorf("acknowledgement %d was lost and nothing was sent again", k)
		}
		verify(t, s.URL(), topic, p)
	}
}
