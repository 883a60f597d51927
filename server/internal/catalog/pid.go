package catalog

import (
	"fmt"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/planted"
)

// MaxProducerID is the highest id that is ever given out. The ids above it are those
// of Kafka clients, which have a space of their own.
const MaxProducerID batchfmt.ProducerID = 1<<63 - 1

// An idBlock is the part of the reserved ids that was not given out: [next, end).
type idBlock struct{ next, end uint64 }

// ReserveProducerID gives an id that nobody has and nobody will get again, without a
// holder: for producers whose right to write is not kept here. Most calls do not write.
//
// Errors: [ErrExhausted].
func (c *Catalog) ReserveProducerID() (batchfmt.ProducerID, error) {
	var pid batchfmt.ProducerID
	err := c.update(func(t *txn) error {
		var err error
		pid, err = c.takeID(t)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("reserve producer id: %w", err)
	}
	return pid, nil
}

// takeID takes the next id; when the block is used up, it reserves another one within
// the transaction, whose outcome the caller waits for before the id leaves. Only the
// writer calls it.
func (c *Catalog) takeID(t *txn) (batchfmt.ProducerID, error) {
	if c.ids.next == c.ids.end {
		next, err := t.counter(keyNextPID)
		if err != nil {
			return 0, err
		}
		block, ok := nextBlock(next, uint64(c.opts.IDBlock))
		if !ok {
			return 0, fmt.Errorf("producer ids: %w", ErrExhausted)
		}
		if !planted.IDsAgain {
			t.put(bucketMeta, keyNextPID, numberBody(block.end))
		}
		c.ids = block
	}
	pid := batchfmt.ProducerID(c.ids.next)
	c.ids.next++
	return pid, nil
}

// nextBlock reserves up to size ids from next on, never beyond MaxProducerID, and
// reports whether there was any.
func nextBlock(next, size uint64) (idBlock, bool) {
	const end = uint64(MaxProducerID) + 1
	if next == 0 || next >= end {
		return idBlock{}, false
	}
	return idBlock{next: next, end: next + min(size, end-next)}, true
}

// LastProducerID is an id that no id given out so far exceeds. It may be above the last
// one, as ids are reserved in blocks.
func (c *Catalog) LastProducerID() (batchfmt.ProducerID, error) {
	var last uint64
	err := c.view(func(t *txn) error {
		next, err := t.counter(keyNextPID)
		last = next - 1 // the first id is 1, so next is never 0
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("last producer id: %w", err)
	}
	return batchfmt.ProducerID(last), nil
}
