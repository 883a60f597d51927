package sdk

import (
	"context"
	"crypto/rand"
	"errors"
	"sync/atomic"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// epoch is the epoch of a producer. All its lanes share it: whoever needs a higher one
// raises it, one at a time, and a request whose answer was lost is asked again as it was.
type epoch struct {
	now     atomic.Uint32
	asking  atomic.Bool   // a request may have raised the epoch, and its answer is not there
	turn    chan struct{} // holds a token while nobody raises
	request [16]byte      // of the request without an answer; all zero for none; for who has the token
}

func newEpoch(now batchfmt.Epoch) *epoch {
	e := &epoch{turn: make(chan struct{}, 1)}
	e.now.Store(uint32(now))
	e.turn <- struct{}{}
	return e
}

func (e *epoch) current() batchfmt.Epoch { return batchfmt.Epoch(e.now.Load()) }

// raise returns an epoch of at least the given one, durable at the server.
func (p *Producer) raise(ctx context.Context, least batchfmt.Epoch) (batchfmt.Epoch, error) {
	e := p.epoch
	select {
	case <-e.turn:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	defer func() { e.turn <- struct{}{} }()
	for asked := 0; e.current() < least; asked++ {
		if asked == 2 { // for what was asked before, and for one more than the server knows of
			return 0, wire.Errorf(wire.CodeProtocol, "the epoch was raised to %d, where %d is known already", e.current(), least-1)
		}
		next, err := p.bump(ctx)
		if err != nil {
			return 0, err
		}
		if next <= e.current() {
			return 0, wire.Errorf(wire.CodeProtocol, "the epoch was raised from %d to %d", e.current(), next)
		}
		e.now.Store(uint32(next))
		e.asking.Store(false)
	}
	return e.current(), nil
}

// bump asks for the next epoch. The caller has the turn.
func (p *Producer) bump(ctx context.Context) (batchfmt.Epoch, error) {
	e := p.epoch
	if e.request == [16]byte{} {
		rand.Read(e.request[:])
	}
	e.asking.Store(true)
	reply, err := p.client.transport.Do(ctx, &wire.BumpEpoch{ProducerID: p.identity.ProducerID, Key: p.identity.Key, Request: e.request}, true)
	var refusal *wire.Error
	if errors.As(err, &refusal) && !refusal.Code.Info().Retry {
		e.asking.Store(false) // there will be no other answer
	}
	if err != nil {
		return 0, err
	}
	bumped, ok := reply.(*wire.EpochBumped)
	if !ok {
		return 0, unexpected("raise epoch", reply)
	}
	e.request = [16]byte{}
	return bumped.Epoch, nil
}

// mayBeOutdated reports whether a refusal of an epoch may come of this producer having
// raised it meanwhile, by itself.
func (p *Producer) mayBeOutdated(used batchfmt.Epoch) bool {
	return p.epoch.asking.Load() || p.epoch.current() != used
}
