package broker

import (
	"context"
	"errors"
	"slices"
	"syscall"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/catalog"
	"github.com/quoin-io/quoin/server/internal/partition"
	"github.com/quoin-io/quoin/wire"
)

// A holding is a grant that has lanes here. It leaves when nothing that came with any of
// its lanes is under way any more, whether it was revoked or not.
type holding struct {
	grant    *partition.Grant
	instance catalog.InstanceID
	name     string
	lanes    map[*partition.Partition]int // how many lanes it has where
}

// InitProducer hands out a producer id. For a name that another instance holds it first
// takes away the older one's right everywhere and waits until what that one has in flight
// is settled. from says for people who asks: the older instance is told.
func (b *Broker) InitProducer(ctx context.Context, m *wire.InitProducer, from string) (wire.Message, *wire.Error) {
	if m.TransactionalID != "" {
		return nil, wire.Errorf(wire.CodeTransactionalUnsupported, "transactional id %q: there are no transactions", m.TransactionalID)
	}
	p, err := b.catalog.InitProducer(m.Instance, m.Name)
	if err != nil {
		return nil, refusal(err)
	}
	if m.Name != "" {
		if failure := b.fenceOlder(ctx, p, from); failure != nil {
			return nil, failure
		}
	}
	return &wire.ProducerInited{ProducerID: p.ID, Epoch: p.Epoch, Key: wire.Secret(p.Key)}, nil
}

// fenceOlder revokes what older instances hold of p's name, and waits until nothing of them
// is between its decision and its sync. Asked again, it waits again. A name whose epochs
// were used up has a new id, and the older instance writes under the one before.
func (b *Broker) fenceOlder(ctx context.Context, p catalog.Producer, from string) *wire.Error {
	type place struct {
		part *partition.Partition
		id   batchfmt.ProducerID
	}
	var places []place
	b.grants.Lock()
	if _, err := b.catalog.Authorize(p.ID, p.Key); err != nil {
		// Whoever took the name since fences everybody, and this one finds out when it opens a lane.
		b.grants.Unlock()
		return nil
	}
	b.grants.takers[p.Name] = taker{instance: p.Instance, from: from}
	for id, holdings := range b.grants.holdings {
		for _, h := range holdings {
			if h.name != p.Name || h.instance == p.Instance {
				continue
			}
			current := h.grant.Current()
			if id == p.ID {
				current = p.Epoch
			}
			h.grant.Revoke(current, b.fencerOf(p))
			for part := range h.lanes {
				places = append(places, place{part, id})
			}
		}
	}
	b.grants.Unlock()
	for _, x := range places {
		select {
		case <-x.part.Quiesce(x.id):
			// Even after a failed sync: it leaves the older instance's batches unknown,
			// but nothing of it can be appended any more, and that is what counts here.
		case <-ctx.Done():
			return wire.Errorf(wire.CodeShutdown, "the connection ended")
		}
	}
	return nil
}

// Authorize gives the grant for a lane to whoever shows the holder's key. The caller
// gives it back with Release when the lane is quiet.
func (b *Broker) Authorize(m *wire.OpenLane, part *partition.Partition) (*partition.Grant, *wire.Error) {
	// The catalog is asked under the lock: whoever takes the id over changes the catalog
	// first and then comes here, and so either we see the change or it sees the holding.
	b.grants.Lock()
	defer b.grants.Unlock()
	p, err := b.catalog.Authorize(m.ProducerID, catalog.Key(m.Key))
	if err != nil {
		failure := refusal(err)
		if _, ok := errors.AsType[*catalog.FencedError](err); ok {
			failure.Detail += b.takenBy(m.ProducerID)
		}
		return nil, aboutProducer(m.ProducerID, failure)
	}
	h := b.holding(p)
	h.lanes[part]++
	return h.grant, nil
}

// A taker is who made an instance the holder of a name since the server started.
type taker struct {
	instance catalog.InstanceID
	from     string
}

// fencerOf says for people who holds the producer now, and since when. The caller has the
// lock.
func (b *Broker) fencerOf(p catalog.Producer) string {
	err := catalog.FencedError{PID: p.ID, Epoch: p.Epoch, Since: p.Since}
	text := err.Error()
	if t, ok := b.grants.takers[p.Name]; ok && t.instance == p.Instance {
		text += ", " + t.from
	}
	return text
}

// takenBy says for people who has the name of a producer id; empty if that is not known any
// more. The caller has the lock.
func (b *Broker) takenBy(id batchfmt.ProducerID) string {
	name, _ := b.catalog.NameOf(id)
	if t, ok := b.grants.takers[name]; ok {
		return ", " + t.from
	}
	return ""
}

// holding finds or makes the holding of the present holder; those of older ones lose
// their right. The caller has the lock.
func (b *Broker) holding(p catalog.Producer) *holding {
	var current *holding
	for _, h := range b.grants.holdings[p.ID] {
		if h.instance == p.Instance {
			current = h
			h.grant.Raise(p.Epoch)
		} else {
			h.grant.Revoke(p.Epoch, b.fencerOf(p))
		}
	}
	if current == nil {
		current = &holding{
			grant: partition.NewGrant(p.ID, p.Epoch), instance: p.Instance, name: p.Name,
			lanes: make(map[*partition.Partition]int),
		}
		b.grants.holdings[p.ID] = append(b.grants.holdings[p.ID], current)
	}
	return current
}

// Release gives back one lane of a grant.
func (b *Broker) Release(g *partition.Grant, part *partition.Partition) {
	b.grants.Lock()
	defer b.grants.Unlock()
	holdings := b.grants.holdings[g.ID]
	i := slices.IndexFunc(holdings, func(h *holding) bool { return h.grant == g })
	if i < 0 {
		return
	}
	h := holdings[i]
	if h.lanes[part]--; h.lanes[part] == 0 {
		delete(h.lanes, part)
	}
	if len(h.lanes) > 0 {
		return
	}
	if holdings = slices.Delete(holdings, i, i+1); len(holdings) == 0 {
		delete(b.grants.holdings, g.ID)
	} else {
		b.grants.holdings[g.ID] = holdings
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
	{catalog.ErrExhausted, wire.CodeInvalidRequest},
	{catalog.ErrDamaged, wire.CodeInternal},
	{catalog.ErrVersion, wire.CodeInternal}, // a row of a newer release, which lies there unchanged
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
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return wire.Errorf(wire.CodeDiskFull, "%v", err)
	}
	return wire.Errorf(wire.CodeStorageError, "%v", err)
}
