package sdk

import (
	"context"
	"errors"
	"fmt"

	"github.com/quoin-io/quoin/wire"
)

// ErrNotLost is returned by [Producer.ContinueAfterLoss] for a partition that the producer
// did not stop at for a loss.
var ErrNotLost = errors.New("sdk: the partition has not stopped for a loss")

// losses are the answers after which a lane stops because the server and the producer do
// not remember the same. Only the application can say whether to go on.
var losses = map[wire.Code]bool{
	wire.CodeDataLoss:          true,
	wire.CodeUnknownProducerID: true,
	wire.CodeUnknownOutcome:    true,
}

// ContinueAfterLoss lets the producer write to a partition again that refused its records
// since the server lost what it had acknowledged, forgot the producer, or cannot say what
// became of a batch: DATA_LOSS, UNKNOWN_PRODUCER_ID or UNKNOWN_OUTCOME. The records in
// question had their outcome; what to do about them is for the application to decide,
// before it calls this. Nothing of them is sent again.
//
// It raises the producer's epoch, so that nothing sealed before can land any more, asks
// where the server stands, and goes on with the sequence that follows there: sequences
// that are lost are given again, to other records. It returns when the partition is open.
//
// The error is [ErrNotLost] when the partition did not stop for one of these reasons, and
// a [ServerError] when the server refuses; with UNKNOWN_PRODUCER_ID it cannot even say
// where this producer stands, and only a new producer can write there. Calling it again
// after an error is harmless.
func (p *Producer) ContinueAfterLoss(ctx context.Context, partition int) error {
	slots := p.slots()
	if partition < 0 || partition >= len(slots) {
		return fmt.Errorf("%w: %d, topic %q has %d", ErrUnknownPartition, partition, p.topic, len(slots))
	}
	old := slots[partition].Load()
	if p.plain() || old == nil || !old.lost() {
		return fmt.Errorf("%w: partition %d of %q", ErrNotLost, partition, p.topic)
	}
	if !await(ctx, old.done) {
		return fmt.Errorf("sdk: continue after loss: %w", context.Cause(ctx))
	}
	if _, err := p.raise(ctx, old.lastEpoch+1); err != nil {
		return serverError("continue after loss", p.topic, err)
	}
	s, err := p.replaceSender(old)
	if err != nil {
		return err
	}
	select {
	case <-s.opened:
		return nil
	case <-s.done:
		return s.refusedToContinue()
	case <-ctx.Done():
		return fmt.Errorf("sdk: continue after loss: the partition opens when it can: %w", context.Cause(ctx))
	}
}

// refusedToContinue is why the lane did not open.
func (s *sender) refusedToContinue() error {
	err := s.refusal()
	var refusal *ServerError
	if !errors.As(err, &refusal) {
		return err
	}
	said := *refusal
	said.Op = "continue after loss"
	return &said
}

// lost reports whether the lane stopped for a loss.
func (s *sender) lost() bool {
	var refusal *ServerError
	return s.failed.Load() && errors.As(s.refusal(), &refusal) && losses[refusal.Code]
}

// refusal is what new records are told, or nil.
func (s *sender) refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.refusing
}

// replaceSender puts a sender that knows nothing of its lane in the place of one that
// has ended. Who comes second finds the new one there.
func (p *Producer) replaceSender(old *sender) (*sender, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closing {
		return nil, ErrClosed
	}
	slot := p.slots()[old.partition]
	if s := slot.Load(); s != old {
		return s, nil
	}
	s := newSender(p, old.partition, old, nil)
	slot.Store(s)
	past := p.mu.past[:0]
	for _, other := range append(p.mu.past, old) {
		select {
		case <-other.callbacks.done: // nobody has to wait for it any more
		default:
			past = append(past, other)
		}
	}
	p.mu.past = past
	return s, nil
}
