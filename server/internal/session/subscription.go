package session

import (
	"bufio"
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/broker"
	"github.com/quoin-io/quoin/server/internal/buffers"
	"github.com/quoin-io/quoin/wire"
)

// pushBytes is how much a frame of batches holds when there is more: enough to make
// packets cheap, little enough to keep memory small with many subscriptions.
const pushBytes = 256 << 10

// pushTimeout is how long a write may wait for a client that does not read.
const pushTimeout = 10 * time.Second

// A subscription pushes the batches of one partition. serveSubscription owns it; a second
// goroutine reads credit.
type subscription struct {
	s      *session
	stream *quic.Stream
	part   *broker.Reader
	next   batchfmt.Offset
	end    batchfmt.Offset // stop here; -1 to follow

	mu struct {
		sync.Mutex
		credit int64
	}
	more chan struct{} // capacity 1: credit came
}

func serveSubscription(s *session, stream *quic.Stream, r *bufio.Reader, m *wire.Subscribe) {
	sub, started, failure := subscribe(s, stream, m)
	if failure != nil {
		writeTo(stream, failure)
		stream.CancelRead(0)
		stream.Close()
		return
	}
	defer sub.part.Close()
	ctx, cancel := context.WithCancelCause(s.conn.Context())
	done := make(chan struct{})
	go func() { // ends when the client ends the stream or the read is cancelled below
		defer close(done)
		cancel(sub.readCredit(r))
	}()
	if writeTo(stream, started) == nil {
		failure := sub.push(ctx)
		if err := context.Cause(ctx); failure == nil && errors.Is(err, wire.ErrFrame) {
			failure = wire.Errorf(protocolCode(err), "%v", err)
		}
		if failure != nil {
			writeTo(stream, failure)
		}
	}
	stream.Close()
	stream.CancelRead(0)
	<-done
}

// writeTo writes a frame that the client must make room for in time. Every write sets
// the deadline anew: the one of an earlier frame has long passed on a quiet stream.
func writeTo(stream *quic.Stream, m wire.Message) error {
	stream.SetWriteDeadline(time.Now().Add(pushTimeout))
	return wire.Write(stream, m)
}

// subscribe finds what is asked for. With a subscription comes a reader that is to be closed.
func subscribe(s *session, stream *quic.Stream, m *wire.Subscribe) (*subscription, *wire.Subscribed, *wire.Error) {
	part, failure := s.l.cfg.Broker.Reader(m.TopicID, m.Partition, s.peer.BatchVersions)
	if failure != nil {
		return nil, nil, failure
	}
	started := &wire.Subscribed{LogStart: part.LogStart(), HighWatermark: part.HighWatermark()}
	switch m.From {
	case wire.FromEarliest:
		started.Start = started.LogStart
	case wire.FromLatest:
		started.Start = started.HighWatermark
	default:
		started.Start = m.From
	}
	if started.Start < started.LogStart || started.Start > started.HighWatermark {
		e := wire.Errorf(wire.CodeOffsetOutOfRange, "offset %d is outside of %d to %d", m.From, started.LogStart, started.HighWatermark)
		e.TopicID, e.Partition, e.Expected = m.TopicID, m.Partition, int64(started.LogStart)
		part.Close()
		return nil, nil, e
	}
	sub := &subscription{s: s, stream: stream, part: part, next: started.Start, end: -1, more: make(chan struct{}, 1)}
	if m.StopAtEnd {
		sub.end = started.HighWatermark
	}
	sub.mu.credit = int64(min(m.Credit, wire.MaxCredit))
	return sub, started, nil
}

// push sends batches until the end is reached, the client goes, or something fails.
func (sub *subscription) push(ctx context.Context) *wire.Error {
	for {
		if sub.end >= 0 && sub.next >= sub.end {
			writeTo(sub.stream, &wire.EndReached{Next: sub.next})
			return nil
		}
		// The channel is taken before the look, so that what comes in between wakes us.
		moved := sub.part.Moved()
		if sub.next >= sub.part.HighWatermark() {
			select {
			case <-moved:
			case <-ctx.Done():
				return nil
			}
			if failure := sub.part.Gone(); failure != nil {
				return failure
			}
			continue
		}
		credit := sub.credit()
		if credit <= 0 {
			select {
			case <-sub.more:
			case <-ctx.Done():
				return nil
			}
			continue
		}
		if failure, ok := sub.pushOne(ctx, int(min(credit, pushBytes))); !ok {
			return failure
		}
	}
}

// pushOne sends one frame of about size bytes, at least one batch. It reports false when
// the subscription is over.
func (sub *subscription) pushOne(ctx context.Context, size int) (*wire.Error, bool) {
	hw := sub.part.HighWatermark()
	frame, buf, next, failure, err := sub.read(ctx, size)
	if err != nil || failure != nil {
		return failure, false
	}
	defer buf.Release()
	if frame, next, failure = sub.convert(frame, next); failure != nil {
		return failure, false
	}
	wire.PutBatchesFrame(frame, hw)
	// A client that gave credit reads; one that does not must not keep memory that all
	// readers share.
	sub.stream.SetWriteDeadline(time.Now().Add(pushTimeout))
	if _, err := sub.stream.Write(frame); err != nil {
		sub.stream.CancelWrite(quic.StreamErrorCode(wire.CodeThrottled))
		return nil, false
	}
	sub.next = next
	sub.spend(len(frame) - pushHead)
	return nil, true
}

// pushHead is what stands before the batches of a frame.
const pushHead = wire.HeaderSize + wire.BatchesHead

// read reads batches into memory from the budget. A batch that is larger than size shows
// its own size first, and is then read again into memory that was waited for.
func (sub *subscription) read(ctx context.Context, size int) ([]byte, *buffers.Buffer, batchfmt.Offset, *wire.Error, error) {
	for {
		buf, err := sub.s.out.Wait(ctx, pushHead+size)
		if err != nil {
			return nil, nil, 0, nil, err
		}
		limit := batchfmt.Offset(math.MaxInt64)
		if sub.end >= 0 {
			limit = sub.end
		}
		frame, next, failure := sub.part.ReadBelow(buf.B[:pushHead], sub.next, limit, size)
		if failure == nil && len(frame) <= cap(buf.B) {
			return frame, buf, next, nil, nil
		}
		buf.Release()
		if failure != nil {
			return nil, nil, 0, failure, nil
		}
		size = len(frame) - pushHead
	}
}

func (sub *subscription) credit() int64 {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return sub.mu.credit
}

func (sub *subscription) spend(n int) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.mu.credit -= int64(n)
}

// readCredit takes Credit frames until the client ends the stream, and says how it ended.
func (sub *subscription) readCredit(r *bufio.Reader) error {
	for {
		m, err := readOnly(r, wire.KindCredit)
		if err != nil {
			return err
		}
		sub.mu.Lock()
		sub.mu.credit = min(sub.mu.credit+int64(m.(*wire.Credit).Bytes), wire.MaxCredit)
		sub.mu.Unlock()
		select {
		case sub.more <- struct{}{}:
		default:
		}
	}
}
