package broker

import (
	"context"
	"fmt"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/catalog"
	"github.com/quoin-io/quoin/server/internal/partition"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/wire"
)

// hasName reports whether a producer id is that of a name.
func (b *Broker) hasName(pid batchfmt.ProducerID) bool {
	_, current := b.catalog.NameOf(pid)
	return current
}

// BumpEpoch raises the epoch of a producer for its holder. Its lanes stay open: what was
// sealed under the older epoch may still be on its way.
func (b *Broker) BumpEpoch(m *wire.BumpEpoch) (wire.Message, *wire.Error) {
	epoch, err := b.catalog.BumpEpoch(m.ProducerID, catalog.Key(m.Key), catalog.RequestID(m.Request))
	if err != nil {
		return nil, aboutProducer(m.ProducerID, refusal(err))
	}
	b.grants.Lock()
	defer b.grants.Unlock()
	for _, h := range b.grants.holdings[m.ProducerID] {
		h.grant.Raise(epoch)
	}
	return &wire.EpochBumped{Epoch: epoch}, nil
}

// CloseProducer ends a producer. One without a name is gone with it: its lanes lose their
// right everywhere. A name stays, and keeps its holder. Where a lane of it is open, the log
// notes that it is closed.
func (b *Broker) CloseProducer(ctx context.Context, m *wire.CloseProducer) (wire.Message, *wire.Error) {
	if err := b.catalog.CloseProducer(m.ProducerID, catalog.Key(m.Key)); err != nil {
		return nil, aboutProducer(m.ProducerID, refusal(err))
	}
	stays := b.hasName(m.ProducerID)
	var partitions []*partition.Partition
	b.grants.Lock()
	for _, h := range b.grants.holdings[m.ProducerID] {
		if !stays {
			h.grant.Revoke(h.grant.Current(), fmt.Sprintf("producer %d was closed by who held its key", m.ProducerID))
		}
		for part := range h.lanes {
			partitions = append(partitions, part)
		}
	}
	b.grants.Unlock()
	done := make(chan *wire.Error, len(partitions))
	for _, part := range partitions {
		part.CloseProducer(m.ProducerID, func(e *wire.Error) { done <- e })
	}
	for range partitions {
		select {
		case <-done: // a lane that could not be marked as closed only leaves memory later
		case <-ctx.Done():
			return nil, wire.Errorf(wire.CodeShutdown, "the connection ended")
		}
	}
	return &wire.ProducerClosed{}, nil
}

// Resolve says what became of a batch. Everybody may look; to settle takes a key that the
// producer's holder, or an earlier one, was given.
func (b *Broker) Resolve(ctx context.Context, m *wire.Resolve) (wire.Message, *wire.Error) {
	id := producerstate.Identity{PID: m.ProducerID, Epoch: m.Epoch, Base: m.Base, Last: m.Last, Digest: m.Digest}
	if m.ProducerID == batchfmt.NoProducer || m.Base < 0 || m.Last < m.Base {
		return nil, aboutProducer(m.ProducerID, wire.Errorf(wire.CodeInvalidRequest, "[%d..%d] of producer %d is no batch", m.Base, m.Last, m.ProducerID))
	}
	if m.Settle {
		if failure := b.maySettle(m); failure != nil {
			return nil, aboutProducer(m.ProducerID, failure)
		}
	}
	part, failure := b.Partition(m.TopicID, m.Partition)
	switch {
	case failure != nil && failure.Code == wire.CodeUnknownTopicID:
		return &wire.Resolved{Outcome: wire.ResolveTopicGone, Offset: -1, LastSequence: -1, Detail: failure.Detail}, nil
	case failure != nil:
		return nil, failure
	}
	type answer struct {
		m *wire.Resolved
		e *wire.Error
	}
	done := make(chan answer, 1)
	part.Resolve(partition.ResolveRequest{Batch: id, Settle: m.Settle, Reply: func(m *wire.Resolved, e *wire.Error) {
		done <- answer{m, e}
	}})
	select {
	case a := <-done:
		if a.e != nil {
			return nil, a.e
		}
		return a.m, nil
	case <-ctx.Done():
		return nil, wire.Errorf(wire.CodeShutdown, "the connection ended")
	}
}

// maySettle checks the key, and that the epoch was the bearer's: the fence is to shut out
// copies of the batch, not whoever holds the producer now. A name that is taken over gets a
// higher epoch, so those of an earlier holder are below the present one.
func (b *Broker) maySettle(m *wire.Resolve) *wire.Error {
	p, holds, err := b.catalog.Genuine(m.ProducerID, catalog.Key(m.Key))
	if err != nil {
		return refusal(err)
	}
	closed := p.Since.IsZero() // then nobody holds it, and nothing of it can be appended
	if closed || m.Epoch < p.Epoch || holds && m.Epoch == p.Epoch {
		return nil
	}
	e := wire.Errorf(wire.CodeInvalidProducerEpoch, "epoch %d of producer %d was never given to you, it has %d", m.Epoch, m.ProducerID, p.Epoch)
	e.Expected = int64(p.Epoch)
	return e
}

// DescribeProducers lists lanes of a partition.
func (b *Broker) DescribeProducers(ctx context.Context, m *wire.DescribeProducers) (wire.Message, *wire.Error) {
	part, failure := b.Partition(m.TopicID, m.Partition)
	if failure != nil {
		return nil, failure
	}
	reply := make(chan wire.ProducersDescribed, 1)
	refused := make(chan *wire.Error, 1)
	part.DescribeProducers(m, func(d wire.ProducersDescribed, e *wire.Error) {
		if e != nil {
			refused <- e
			return
		}
		reply <- d
	})
	select {
	case d := <-reply:
		for i := range d.Lanes {
			d.Lanes[i].Name, _ = b.catalog.NameOf(d.Lanes[i].ProducerID)
		}
		return &d, nil
	case e := <-refused:
		return nil, e
	case <-ctx.Done():
		return nil, wire.Errorf(wire.CodeShutdown, "the connection ended")
	}
}

// ExplainProducers lists the latest decisions of a partition.
func (b *Broker) ExplainProducers(m *wire.ExplainProducers) (wire.Message, *wire.Error) {
	part, failure := b.Partition(m.TopicID, m.Partition)
	if failure != nil {
		return nil, failure
	}
	return &wire.ProducersExplained{Decisions: part.Explain(m.ProducerID, int(m.Limit))}, nil
}

func aboutProducer(pid batchfmt.ProducerID, e *wire.Error) *wire.Error {
	e.ProducerID = pid
	return e
}
