package sdk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quoin-io/quoin/wire"
)

const (
	// closeGrace is how long Close waits, after ctx ended, for its goroutines to end.
	closeGrace = 80 * time.Millisecond
	// settleGrace is the part of it in which answers are awaited yet.
	settleGrace = 50 * time.Millisecond
	// closeShare is the part of a context's time that Close keeps for settling, at most
	// maxCloseShare.
	closeShare    = 4
	maxCloseShare = 2 * time.Second
	// goodbye is how long CloseProducer may take.
	goodbye = time.Second
)

// Close takes no more records, flushes, and then ends what is left. It flushes until ctx
// ends, but keeps the last quarter of the time that ctx has, 2 s at most, for what is left
// then: a record that was never handed to the network was not stored, and its callback is
// told so; what was handed to it is settled, see [Settle], and only without an answer its
// outcome is unknown. Close returns within 100 ms of the end of ctx.
//
// The list holds every batch of records whose outcome is unknown and was not settled since,
// over the whole life of the producer, with its token; the error is not nil when there is
// one, or when ctx ended before all was flushed and records were not stored for it. A
// second Close waits for the first, as long as its own ctx lives, and returns the same.
// Called from a callback, Close does not wait for callbacks, and a second Close returns
// [ErrClosed].
//
// When nothing is left open, Close tells the server that the producer is gone, so that its
// traces there can go first; that this could not be said is no error.
func (p *Producer) Close(ctx context.Context) ([]Abandoned, error) {
	return p.close(ctx, calledFromCallback())
}

func (p *Producer) closeWith(ctx context.Context, inCallback bool) error {
	_, err := p.close(ctx, inCallback)
	return err
}

func (p *Producer) close(ctx context.Context, inCallback bool) ([]Abandoned, error) {
	if p.closing.CompareAndSwap(false, true) {
		late, stop := lateAfter(ctx, closeGrace)
		defer stop()
		p.err = p.finish(ctx, inCallback)
		p.abandoned = p.unknown()
		if p.outbox != nil {
			if err := within(ctx, late, p.outbox.Close); err != nil {
				p.err = errors.Join(p.err, fmt.Errorf("sdk: close %q: the outbox: %w", p.topic, err))
			}
		}
		if p.err == nil && len(p.abandoned) > 0 {
			p.err = fmt.Errorf("sdk: close %q: the outcome of %d ranges of records is unknown, the first because of: %w",
				p.topic, len(p.abandoned), p.abandoned[0].Cause)
		}
		p.client.unregister(p)
		close(p.closed)
		return p.abandoned, p.err
	}
	if inCallback {
		select {
		case <-p.closed:
		default: // the first Close may be waiting for this very callback
			return nil, ErrClosed
		}
	}
	if !await(ctx, p.closed) {
		return nil, fmt.Errorf("sdk: close %q, which another call has begun: %w", p.topic, context.Cause(ctx))
	}
	return p.abandoned, p.err
}

// lateAfter is closed grace behind the end of ctx.
func lateAfter(ctx context.Context, grace time.Duration) (late <-chan struct{}, stop func() bool) {
	c := make(chan struct{})
	return c, context.AfterFunc(ctx, func() { time.AfterFunc(grace, func() { close(c) }) })
}

// within calls end and returns what it does, but not when it is late. A disk that does not
// answer cannot be interrupted: end then goes on by itself, with all that it holds.
func within(ctx context.Context, late <-chan struct{}, end func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	select {
	case err := <-ended:
		return err
	case <-late:
		return fmt.Errorf("its disk has not answered in time: %w", context.Cause(ctx))
	}
}

// unknown is a copy of the list of what is unknown.
func (p *Producer) unknown() []Abandoned {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Abandoned(nil), p.mu.abandoned...)
}

// finish flushes, then ends every sender, whatever it has left.
func (p *Producer) finish(ctx context.Context, inCallback bool) error {
	p.mu.Lock()
	p.mu.closing = true
	p.mu.Unlock()
	p.buffer.close()
	senders := p.allSenders()
	for _, s := range senders {
		s.refuse()
	}
	flushing, cancel := leaveTime(ctx)
	defer cancel()
	err := p.flush(flushing, inCallback)
	if err == nil {
		p.sayGoodbye(ctx)
		for _, s := range senders {
			s.stop(ErrClosed, time.Now(), false)
		}
		for _, s := range senders { // nothing is in flight, they end at once
			s.wait(inCallback, nil)
		}
		return nil
	}
	return p.cutShort(ctx, err, senders, inCallback)
}

// cutShort ends senders that could not flush in time: err says so.
func (p *Producer) cutShort(ctx context.Context, err error, senders []*sender, inCallback bool) error {
	cause := fmt.Errorf("%w before there was an outcome: %w", ErrClosed, errors.Unwrap(err))
	before := p.failures.Load()
	until := time.Now().Add(settleGrace)
	if deadline, ok := ctx.Deadline(); ok && ctx.Err() == nil {
		until = deadline
	}
	for _, s := range senders {
		s.stop(cause, until, true)
	}
	expired := make(chan struct{})
	hurry := context.AfterFunc(ctx, func() {
		for _, s := range senders {
			s.stop(cause, time.Now().Add(settleGrace), false)
		}
		time.AfterFunc(closeGrace, func() { close(expired) })
	})
	defer hurry()
	for _, s := range senders {
		if !s.wait(inCallback, expired) {
			return fmt.Errorf("%w; a callback did not return in time", err)
		}
	}
	if p.failures.Load() == before {
		return nil // all that was left turned out to be stored
	}
	return err
}

// leaveTime ends before ctx, to leave time for settling.
func leaveTime(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, deadline.Add(-min(time.Until(deadline)/closeShare, maxCloseShare)))
}

// sayGoodbye tells the server that the producer is gone, while its lanes are open: so it
// learns where. There is nothing to say when a batch is unknown, as it may yet be settled
// by who holds the producer.
func (p *Producer) sayGoodbye(ctx context.Context) {
	if p.plain() || len(p.unknown()) > 0 {
		return
	}
	p.gone.Store(true)
	ctx, cancel := context.WithTimeout(ctx, goodbye)
	defer cancel()
	_, err := p.client.transport.Try(ctx, &wire.CloseProducer{ProducerID: p.identity.ProducerID, Key: p.identity.Key})
	if err != nil {
		p.client.logger.Debug("the server was not told that the producer is gone", "producer", p.ID(), "error", err)
	}
}

// allSenders are those of all partitions, and those that others took the place of.
func (p *Producer) allSenders() []*sender {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := append([]*sender(nil), p.mu.past...)
	for _, slot := range p.slots() {
		if s := slot.Load(); s != nil {
			all = append(all, s)
		}
	}
	return all
}
