package catalog

import (
	"errors"
	"fmt"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/planted"
)

// Holder returns who holds pid, whoever asks. Do not give the key away.
//
// Errors: [ErrUnknownProducer]; *FencedError for an id whose name went on with another.
func (c *Catalog) Holder(pid batchfmt.ProducerID) (Producer, error) {
	var p Producer
	err := c.view(func(t *txn) error {
		row, err := t.producer(pid)
		switch {
		case err != nil:
			return err
		case row == nil:
			return ErrUnknownProducer
		case row.kind == kindSuperseded:
			return row.fenced(pid)
		}
		p = row.producer(pid)
		return nil
	})
	if err != nil {
		return Producer{}, fmt.Errorf("producer %d: %w", pid, err)
	}
	return p, nil
}

// Authorize returns the holder of pid if key is the holder's.
//
// Errors: *FencedError if key was that of an earlier holder, however long ago;
// [ErrProducerClosed] if it was that of a producer that is closed; [ErrUnknownProducer]
// and [ErrWrongKey] otherwise. Keys are compared in constant time.
func (c *Catalog) Authorize(pid batchfmt.ProducerID, key Key) (Producer, error) {
	var p Producer
	err := c.view(func(t *txn) error {
		row, err := c.authorized(t, pid, key)
		if err != nil {
			return err
		}
		p = row.producer(pid)
		return nil
	})
	if err != nil {
		return Producer{}, fmt.Errorf("producer %d: %w", pid, err)
	}
	return p, nil
}

// Genuine reports whether key was given out for pid at any time, and whether the present
// holder has it: for what an earlier holder may ask about as well, such as what became of
// its batches. Any other key gets an error. Unless the bearer is the holder, the Producer
// says who came after it, without secrets; of one that is closed only the id is known.
//
// Errors: [ErrUnknownProducer], [ErrWrongKey].
func (c *Catalog) Genuine(pid batchfmt.ProducerID, key Key) (p Producer, holds bool, err error) {
	err = c.view(func(t *txn) error {
		row, err := c.authorized(t, pid, key)
		switch {
		case err == nil:
			p, holds = row.producer(pid), true
		case err == ErrProducerClosed:
			p = Producer{ID: pid}
		case errors.Is(err, ErrFenced):
			p = row.producer(pid)
			p.Key, p.Instance = Key{}, InstanceID{}
		default:
			return err
		}
		return nil
	})
	if err != nil {
		return Producer{}, false, fmt.Errorf("producer %d: %w", pid, err)
	}
	return p, holds, nil
}

// NameOf returns the name of a producer, and whether pid is the id that the name has now:
// a name outlives its ids, and keeps its name for listings an id whose epochs are used up.
// An id without a name gives "" and false. When the row cannot be read, the answer is ""
// and true, as what is kept for names must not be dropped by mistake. It reads one row from
// the file's pages and writes nothing.
func (c *Catalog) NameOf(pid batchfmt.ProducerID) (name string, current bool) {
	if pid == 0 || pid > MaxProducerID {
		return "", false
	}
	err := c.view(func(t *txn) error {
		row, err := t.producer(pid)
		if err != nil {
			return err
		}
		if row != nil {
			name, current = row.name, row.kind == kindNamed
		}
		return nil
	})
	if err != nil {
		return "", true
	}
	return name, current
}

func (c *Catalog) authorized(t *txn, pid batchfmt.ProducerID, key Key) (*producerRow, error) {
	row, err := t.producer(pid)
	if err != nil {
		return nil, err
	}
	return row, decideRight(pid, row, key, c.secret.genuine(pid, key))
}

// decideRight says what a key is worth. First match wins; genuine means that the key
// was given out for this id at some time.
//
//	no such id, genuine             ErrProducerClosed     only closing removes an id
//	no such id                      ErrUnknownProducer
//	key of the holder               nil
//	genuine                         *FencedError          an earlier holder
//	otherwise                       ErrWrongKey
//
// A superseded id has no holder: its last key is an earlier holder's.
func decideRight(pid batchfmt.ProducerID, row *producerRow, key Key, genuine bool) error {
	switch {
	case row == nil && genuine:
		return ErrProducerClosed
	case row == nil:
		return ErrUnknownProducer
	case row.kind != kindSuperseded && row.key.equal(key), genuine && planted.RightsOff:
		return nil
	case genuine:
		return row.fenced(pid)
	}
	return ErrWrongKey
}

// BumpEpoch raises the epoch of pid by one, durably, for its holder. The holder's last
// request repeated gets the same answer; a holder makes one such request at a time.
//
// Errors: those of [Catalog.Authorize], [ErrZeroID], and [ErrExhausted] at [MaxEpoch],
// where a new instance has to call [Catalog.InitProducer].
func (c *Catalog) BumpEpoch(pid batchfmt.ProducerID, key Key, request RequestID) (batchfmt.Epoch, error) {
	if request == (RequestID{}) {
		return 0, fmt.Errorf("bump epoch of producer %d: request %w", pid, ErrZeroID)
	}
	var epoch batchfmt.Epoch
	err := c.update(func(t *txn) error {
		row, err := c.authorized(t, pid, key)
		switch {
		case err != nil:
			return err
		case row.request == request:
			epoch = row.epoch
			return nil
		case row.epoch == MaxEpoch:
			return fmt.Errorf("epoch: %w", ErrExhausted)
		}
		row.epoch++
		row.request = request
		t.putProducer(pid, row)
		epoch = row.epoch
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("bump epoch of producer %d: %w", pid, err)
	}
	return epoch, nil
}

// CloseProducer forgets a producer without a name, for its holder; its id is never
// given out again. A name stays and keeps its holder. Closing twice is no error.
//
// Errors: those of [Catalog.Authorize] except [ErrProducerClosed].
func (c *Catalog) CloseProducer(pid batchfmt.ProducerID, key Key) error {
	err := c.update(func(t *txn) error {
		row, err := c.authorized(t, pid, key)
		switch {
		case err == ErrProducerClosed:
			return nil
		case err != nil:
			return err
		case row.kind != kindAnonymous:
			return nil
		}
		count, err := t.counter(keyProducers)
		if err != nil {
			return err
		}
		t.delete(bucketProducers, pidKey(pid))
		t.delete(bucketInstances, row.instance[:])
		t.put(bucketMeta, keyProducers, numberBody(max(count, 1)-1))
		return nil
	})
	if err != nil {
		return fmt.Errorf("close producer %d: %w", pid, err)
	}
	return nil
}
