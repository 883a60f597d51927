package sdk

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quoin-io/quoin/sdk/internal/outbox"
	"github.com/quoin-io/quoin/sdk/internal/transport"
	"github.com/quoin-io/quoin/wire"
)

const (
	// maxUnsettled bounds the batches that wait to be settled in the background.
	maxUnsettled = 4096
	// settlePatience is how long one of them may keep the others waiting.
	settlePatience = 10 * time.Second
)

// A settler settles batches whose outcome was told to be unknown and whose lane is over,
// one after the other, and tells of each by an event. Its goroutine, started by the first
// of them, is stopped and awaited by close; what is not settled by then stays unknown.
type settler struct {
	client *Client
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	wake   chan struct{}
	wg     sync.WaitGroup
	mu     struct {
		sync.Mutex
		queue   []unsettled
		running bool
		closed  bool
	}
}

// unsettled is a batch whose outcome is unknown, and the producer that lists it as such.
type unsettled struct {
	p     *Producer
	token *Token
	kept  outbox.ID // what it is in the outbox of p; 0 for nothing
}

func newSettler(c *Client) *settler {
	s := &settler{client: c, wake: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// add takes a batch. When there are too many, it stays unknown, which its token can mend.
func (s *settler) add(u unsettled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.closed:
		return
	case len(s.mu.queue) >= maxUnsettled:
		s.client.logger.Warn("a batch stays unknown: too many wait to be settled", "batch", *u.token, "limit", maxUnsettled)
		return
	}
	s.mu.queue = append(s.mu.queue, u)
	if !s.mu.running {
		s.mu.running = true
		s.wg.Go(s.run)
	}
	signal(s.wake)
}

func (s *settler) run() {
	for {
		s.mu.Lock()
		var next unsettled
		if len(s.mu.queue) > 0 {
			next = s.mu.queue[0]
			s.mu.queue = append(s.mu.queue[:0], s.mu.queue[1:]...)
		}
		s.mu.Unlock()
		if next.token != nil {
			s.settle(next)
			if s.ctx.Err() == nil {
				continue
			}
		}
		select {
		case <-s.wake:
		case <-s.ctx.Done():
			return
		}
	}
}

// settle asks for one batch. Without an answer it takes its turn again.
func (s *settler) settle(u unsettled) {
	ctx, cancel := context.WithTimeout(s.ctx, settlePatience)
	defer cancel()
	m, err := s.client.resolve(ctx, u.token, true)
	var refusal *wire.Error
	switch {
	case err == nil:
		if u.kept != 0 {
			u.p.noteSettled(u.token.Partition(), u.kept, int(u.token.records), m)
		}
		u.p.settled(u.token, resolutionOf(m, u.token))
	case s.ctx.Err() != nil, errors.Is(err, transport.ErrClosed):
	case ctx.Err() != nil, errors.Is(err, transport.ErrNoStream):
		s.add(u)
	default:
		if errors.As(err, &refusal) {
			err = resolveError(err, u.token)
		}
		u.p.settled(u.token, Resolution{Outcome: ResolveUnknowable, Offset: -1, Reason: err.Error()})
	}
}

func (s *settler) close() {
	s.mu.Lock()
	s.mu.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
}

// settled tells what became of a batch after its outcome was told to be unknown. It is
// not listed as abandoned any more, unless nobody can say for good.
func (p *Producer) settled(t *Token, r Resolution) {
	if r.Outcome != ResolveUnknowable {
		p.mu.Lock()
		for i := range p.mu.abandoned {
			if p.mu.abandoned[i].Token == *t {
				p.mu.abandoned = append(p.mu.abandoned[:i:i], p.mu.abandoned[i+1:]...)
				break
			}
		}
		p.mu.Unlock()
	}
	p.client.stats.batchesSettled.Add(1)
	p.client.logger.Info("a batch that was unknown is settled", "batch", *t, "outcome", r.Outcome.String(), "offset", r.Offset)
	p.client.events.emit(Event{Kind: EventSettled, Topic: t.topic, Partition: t.Partition(), Token: *t, Resolution: r})
}
