package broker

import (
	"context"
	"errors"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/catalog"
	"github.com/quoin-io/quoin/server/internal/partition"
	"github.com/quoin-io/quoin/wire"
)

// held is the grant of a producer that has lanes open here.
type held struct {
	grant      *partition.Grant
	lanes      int
	partitions map[*partition.Partition]struct{} // where it ever opened a lane
}

// InitProducer hands out a producer id. For a name that another instance holds it first
// takes away the older one's right everywhere and waits until what that one has in flight
// is settled.
func (b *Broker) InitProducer(ctx context.Context, m *wire.InitProducer) (wire.Message, *wire.Error) {
	if m.TransactionalID != "" {
		return nil, wire.Errorf(wire.CodeTransactionalUnsupported, "transactional id %q: there are no transactions", m.TransactionalID)
	}
	p, err := b.catalog.InitProducer(m.Instance, m.Name)
	if err != nil {
		return nil, refusal(err)
	}
	if m.Name != "" {
		if failure := b.fenceOlder(ctx, p); failure != nil {
			return nil, failure
		}
	}
	return &wire.ProducerInited{ProducerID: p.ID, Epoch: p.Epoch, Key: wire.Secret(p.Key)}, nil
}

// fenceOlder revokes a grant of p's id that is not p's.
func (b *Broker) fenceOlder(ctx context.Context, p catalog.Producer) *wire.Error {
	b.grants.Lock()
	h := b.grants.held[p.ID]
	var partitions []*partition.Partition
	if h != nil && h.grant.Epoch < p.Epoch {
		h.grant.Revoke(p.Epoch)
		delete(b.grants.held, p.ID)
		for part := range h.partitions {
			partitions = append(partitions, part)
		}
	}
	b.grants.Unlock()
	for _, part := range partitions {
		select {
		case failure := <-part.Quiesce(p.ID):
			// A failed sync leaves the older instance's batches unknown, but nothing of
			// it can be appended any more, and that is what is waited for.
			_ = failure
		case <-ctx.Done():
			return wire.Errorf(wire.CodeShutdown, "the connection ended")
		}
	}
	return nil
}

// Authorize gives the grant for a lane to whoever shows the holder's key. The caller
// gives it back with Release when the lane ends.
func (b *Broker) Authorize(m *wire.OpenLane, part *partition.Partition) (*partition.Grant, *wire.Error) {
	p, err := b.catalog.Authorize(m.ProducerID, catalog.Key(m.Key))
	if err != nil {
		e := refusal(err)
		e.ProducerID = m.ProducerID
		return nil, e
	}
	b.grants.Lock()
	defer b.grants.Unlock()
	h := b.grants.held[p.ID]
	if h == nil || h.grant.Epoch < p.Epoch {
		h = &held{grant: partition.NewGrant(p.ID, p.Epoch), partitions: make(map[*partition.Partition]struct{})}
		b.grants.held[p.ID] = h
	}
	if h.grant.Epoch > p.Epoch {
		// The holder changed between the look into the catalog and here.
		return nil, fenced(p.ID, h.grant.Epoch)
	}
	h.lanes++
	h.partitions[part] = struct{}{}
	return h.grant, nil
}

// Release gives back one lane's share of a grant.
func (b *Broker) Release(g *partition.Grant) {
	b.grants.Lock()
	defer b.grants.Unlock()
	if h := b.grants.held[g.ID]; h != nil && h.grant == g {
		if h.lanes--; h.lanes == 0 {
			delete(b.grants.held, g.ID)
		}
	}
}

func fenced(id batchfmt.ProducerID, current batchfmt.Epoch) *wire.Error {
	e := wire.Errorf(wire.CodeInvalidProducerEpoch, "a newer instance holds producer %d, with epoch %d", id, current)
	e.ProducerID, e.Expected = id, int64(current)
	return e
}

// refusals maps the catalog's errors to codes.
var refusals = []struct {
	err  error
	code wire.Code
}{
	{catalog.ErrTopicExists, wire.CodeTopicExists},
	{catalog.ErrUnknownTopic, wire.CodeUnknownTopic},
	{catalog.ErrTopicLimit, wire.CodeInvalidTopic},
	{catalog.ErrPartitions, wire.CodeInvalidPartitions},
	{catalog.ErrConfig, wire.CodeInvalidTopic},
	{catalog.ErrUnknownProducer, wire.CodeUnknownProducerID},
	{catalog.ErrProducerClosed, wire.CodeUnknownProducerID},
	{catalog.ErrWrongKey, wire.CodeProducerKeyMismatch},
	{catalog.ErrProducerLimit, wire.CodeProducerLimitReached},
	{catalog.ErrZeroID, wire.CodeInvalidRequest},
	{catalog.ErrFull, wire.CodeDiskFull},
	{catalog.ErrClosed, wire.CodeShutdown},
	{catalog.ErrBroken, wire.CodeInternal},
	{catalog.ErrExhausted, wire.CodeInternal},
	{catalog.ErrDamaged, wire.CodeInternal},
}

func refusal(err error) *wire.Error {
	var fence *catalog.FencedError
	if errors.As(err, &fence) {
		e := fenced(fence.PID, fence.Epoch)
		e.Detail = err.Error()
		return e
	}
	var name *catalog.NameError
	if errors.As(err, &name) {
		if name.Kind == "producer" {
			return wire.Errorf(wire.CodeInvalidProducerName, "%v", err)
		}
		return wire.Errorf(wire.CodeInvalidTopic, "%v", err)
	}
	for _, row := range refusals {
		if errors.Is(err, row.err) {
			return wire.Errorf(row.code, "%v", err)
		}
	}
	return wire.Errorf(wire.CodeStorageError, "%v", err)
}
