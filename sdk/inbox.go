package sdk

import (
	"sync"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/lane"
	"github.com/quoin-io/quoin/sdk/internal/transport"
	"github.com/quoin-io/quoin/wire"
)

// inbox is where the reader of a stream leaves what belongs to a sender. It holds no
// more than the answers to what is in flight.
type inbox struct {
	mu     sync.Mutex
	events []inboxEvent
}

// inboxEvent is one thing that came back: for an opening, or for a request of the lane.
// Exactly one of those below opening is set.
type inboxEvent struct {
	opening  uint64
	settled  *settleAnswer
	raised   *raiseAnswer
	opened   *wire.LaneOpened
	refused  *wire.Error
	lost     error
	isResult bool
	result   wire.ProduceResult
}

func (b *inbox) put(e inboxEvent) {
	b.mu.Lock()
	b.events = append(b.events, e)
	b.mu.Unlock()
}

// swap gives out what came, for memory to put the next into.
func (b *inbox) swap(empty []inboxEvent) []inboxEvent {
	b.mu.Lock()
	defer b.mu.Unlock()
	full := b.events
	b.events = empty[:0]
	return full
}

// settleAnswer is the answer to the request to settle a batch.
type settleAnswer struct {
	batch *lane.Batch
	found *wire.Resolved
	err   error // instead
}

// raiseAnswer is the answer to the request for a higher epoch.
type raiseAnswer struct {
	epoch batchfmt.Epoch
	err   error // instead
}

// opening is the sink of one opening of the lane. Its number tells answers of the
// current opening from those of older ones.
type opening struct {
	s      *sender
	number uint64
}

var _ transport.LaneSink = opening{}

func (o opening) put(e inboxEvent) {
	e.opening = o.number
	o.s.inbox.put(e)
	signal(o.s.wake)
}

// LaneOpened is part of [transport.LaneSink].
func (o opening) LaneOpened(m *wire.LaneOpened) { o.put(inboxEvent{opened: m}) }

// LaneRefused is part of [transport.LaneSink].
func (o opening) LaneRefused(err *wire.Error) { o.put(inboxEvent{refused: err}) }

// LaneResult is part of [transport.LaneSink].
func (o opening) LaneResult(r *wire.ProduceResult) { o.put(inboxEvent{isResult: true, result: *r}) }

// LaneLost is part of [transport.LaneSink].
func (o opening) LaneLost(err error) { o.put(inboxEvent{lost: err}) }
