package session

import (
	"bufio"
	"context"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/partition"
	"github.com/quoin-io/quoin/wire"
)

// pushBytes is how much a frame of batches holds when there is more: enough to make
// packets cheap, little enough to keep memory small with many subscriptions.
const pushBytes = 256 << 10

// pushTimeout is how long a write may wait for a client that does not read.
const pushTimeout = 30 * time.Second

// A subscription pushes the batches of one partition. serveSubscription owns it; a second
// goroutine reads credit.
type subscription struct {
	s      *session
	stream *quic.Stream
	part   *partition.Partition
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
		wire.Write(stream, failure)
		stream.CancelRead(0)
		stream.Close()
		return
	}
	ctx, cancel := context.WithCancel(s.conn.Context())
	done := make(chan struct{})
	go func() { // ends when the client ends the stream or the read is cancelled below
		defer close(done)
		defer cancel()
		sub.readCredit(r)
	}()
	if wire.Write(stream, started) == nil {
		if failure := sub.push(ctx); failure != nil {
			wire.Write(stream, failure)
		}
	}
	stream.Close()
	stream.CancelRead(0)
	<-done
	cancel()
}

func subscribe(s *session, stream *quic.Stream, m *wire.Subscribe) (*subscription, *wire.Subscribed, *wire.Error) {
	part, failure := s.l.cfg.Broker.Partition(m.TopicID, m.Partition)
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
		return nil, nil, e
	}
	if !reads(s.peer.BatchVersions, batchfmt.Version2) {
		return nil, nil, wire.Errorf(wire.CodeVersionUnsupported, "the client cannot read batch version 2: upgrade the client")
	}
	sub := &subscription{s: s, stream: stream, part: part, next: started.Start, end: -1, more: make(chan struct{}, 1)}
	if m.StopAtEnd {
		sub.end = started.HighWatermark
	}
	sub.mu.credit = int64(min(m.Credit, wire.MaxCredit))
	return sub, started, nil
}

func reads(versions []batchfmt.Version, v batchfmt.Version) bool {
	for _, have := range versions {
		if have == v {
			return true
		}
	}
	return false
}

// push sends batches until the end is reached, the client goes, or something fails.
func (sub *subscription) push(ctx context.Context) *wire.Error {
	for {
		if sub.end >= 0 && sub.next >= sub.end {
			wire.Write(sub.stream, &wire.EndReached{Next: sub.next})
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
	const head = wire.HeaderSize + wire.BatchesHead
	buf, err := sub.s.l.cfg.Broker.Out().Wait(ctx, head+size)
	if err != nil {
		return nil, false
	}
	defer buf.Release()
	hw := sub.part.HighWatermark()
	frame, next, failure := sub.part.Read(buf.B[:head], sub.next, size)
	if failure != nil {
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
	sub.spend(len(frame) - head)
	return nil, true
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

// readCredit takes Credit frames until the client ends the stream.
func (sub *subscription) readCredit(r *bufio.Reader) {
	for {
		m, err := wire.Read(r)
		if err != nil {
			return
		}
		credit, ok := m.(*wire.Credit)
		if !ok {
			sub.s.close(wire.CodeProtocol, m.Kind().String()+" does not belong on a subscription stream")
			return
		}
		sub.mu.Lock()
		sub.mu.credit = min(sub.mu.credit+int64(credit.Bytes), wire.MaxCredit)
		sub.mu.Unlock()
		select {
		case sub.more <- struct{}{}:
		default:
		}
	}
}
