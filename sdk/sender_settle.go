package sdk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/lane"
	"github.com/quoin-io/quoin/sdk/internal/planted"
	"github.com/quoin-io/quoin/sdk/internal/transport"
	"github.com/quoin-io/quoin/wire"
)

// errGivenUp is the cause for the other records of a batch of which one was given up.
var errGivenUp = errors.New("sdk: the Send of another record of the same batch gave up, and the batch was settled")

// errNoAnswer is the cause of what a plain producer cannot know.
var errNoAnswer = fmt.Errorf("%w after the batch was handed to it, and a plain producer cannot ask what became of it", ErrConnectionLost)

// ask does a request of the lane on a goroutine of its own, which ends with the sender.
// Only answers come back: without one the sender has ended.
func (s *sender) ask(do func(ctx context.Context) inboxEvent) {
	s.requests.Go(func() {
		e := do(s.life)
		if s.life.Err() != nil {
			return
		}
		s.inbox.put(e)
		signal(s.wake)
	})
}

// settle asks the server for good what became of a batch, for as long as it takes.
func (s *sender) settle(b *lane.Batch) {
	token := b.Tag.(*frozen).token
	s.ask(func(ctx context.Context) inboxEvent {
		found, err := s.p.client.resolve(ctx, &token, !planted.FenceOff)
		for errors.Is(err, transport.ErrNoStream) && ctx.Err() == nil {
			found, err = s.p.client.resolve(ctx, &token, !planted.FenceOff)
		}
		if planted.FenceOff && err == nil && found.Outcome == wire.ResolveNotYet {
			found.Outcome = wire.ResolveNever
		}
		return inboxEvent{settled: &settleAnswer{b, found, err}}
	})
}

func (s *sender) settled(now time.Time, a *settleAnswer) {
	if a.err != nil {
		s.own.SettleRefused(now, a.batch, a.err)
		return
	}
	s.own.Settled(now, a.batch, a.found)
}

// raise asks for a higher epoch of the producer.
func (s *sender) raise(least batchfmt.Epoch) {
	if planted.EpochKept {
		least = s.p.epoch.current()
	}
	s.ask(func(ctx context.Context) inboxEvent {
		epoch, err := s.p.raise(ctx, least)
		return inboxEvent{raised: &raiseAnswer{epoch, err}}
	})
}

// raised lets the core go on under the higher epoch, and seals anew what it says. All of
// it is one step for whoever gives a batch up: the token that they are told is that of
// the bytes that are sent from here on, or the batch is not sealed anew.
func (s *sender) raised(now time.Time, a *raiseAnswer) {
	if a.err != nil {
		s.own.RaiseRefused(now, a.err)
		return
	}
	s.takeTold(now)
	s.perform()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.mu.told { // since just now
		s.core.Tell(now, &f.Batch)
	}
	s.mu.told = nil
	s.own.Raised(now, a.epoch)
	for _, action := range s.own.Pending() {
		if action.Kind != lane.Reseal {
			continue
		}
		f := action.Batch.Tag.(*frozen)
		f.firstSend = 0
		if f.resumed && f.records == nil {
			if f.keepErr = s.reopen(f); f.keepErr != nil {
				continue // it cannot be sent, and ends as what it is: not stored
			}
		}
		if err := s.sealAs(f, a.epoch); err != nil {
			panic("sdk: a batch that was sealed before cannot be sealed again: " + err.Error())
		}
		s.keepAnew(f)
	}
}

// report tells what became of a batch that was unknown.
func (s *sender) report(f *frozen, m *wire.Resolved) {
	if s.p.outbox != nil {
		s.p.noteSettled(s.partition, f.kept, f.Count, m)
	}
	for i, u := range s.unknown {
		if *u.token == f.token {
			s.unknown = append(s.unknown[:i:i], s.unknown[i+1:]...)
			s.p.settled(u.token, resolutionOf(m, u.token))
			if m.Outcome == wire.ResolveStored && s.allCalled() {
				s.confirm(f.Last()) // nothing was sent behind it until now
			}
			return
		}
	}
}

// allCalled reports whether the callback of every outcome so far has returned.
func (s *sender) allCalled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.called == s.mu.decided
}

// resolutionOf is the outcome of a batch that a Send had given up, as an event tells it.
func (s *sender) resolutionOf(f *frozen, o *lane.Outcome) Resolution {
	r := Resolution{Outcome: ResolveNotStored, Offset: -1, records: f.Count}
	if o.Fate != lane.Stored {
		r.Reason = s.publicCause(o.Cause).Error()
		return r
	}
	r.Outcome, r.Offset = ResolveStored, int64(o.Result.BaseOffset)
	r.Unreadable = o.Result.Code == wire.CodeBatchUnreadable
	r.Verified = !r.Unreadable && (o.Result.Verified || !o.Result.Duplicate)
	return r
}

// leaveUnknown hands what is unknown, now that the lane is over, to the client.
func (s *sender) leaveUnknown() {
	for _, u := range s.unknown {
		s.p.client.settler.add(u)
	}
	s.unknown = nil
}

// nowOpen notes that a lane that goes on after a loss is open.
func (s *sender) nowOpen(m *wire.LaneOpened) {
	if s.fresh && s.core.Stopped() == nil {
		s.fresh = false
		if !s.known {
			s.beginAnew(m)
		}
		close(s.opened)
	}
}
