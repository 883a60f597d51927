package catalog

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/planted"
)

// MaxEpoch is the highest epoch of a producer id.
const MaxEpoch batchfmt.Epoch = math.MaxUint32

// A Producer is who holds a producer id.
type Producer struct {
	ID       batchfmt.ProducerID
	Epoch    batchfmt.Epoch
	Key      Key // secret, see [Catalog.Authorize]
	Name     string
	Instance InstanceID
	Since    time.Time // when this instance became the holder, to the millisecond
}

func (r *producerRow) producer(pid batchfmt.ProducerID) Producer {
	return Producer{
		ID: pid, Epoch: r.epoch, Key: r.key, Name: r.name, Instance: r.instance,
		Since: time.UnixMilli(r.since),
	}
}

func (r *producerRow) fenced(pid batchfmt.ProducerID) error {
	return &FencedError{PID: pid, Epoch: r.epoch, Since: time.UnixMilli(r.since)}
}

// InitProducer makes instance the holder of a producer id. It is durable before it
// returns, and repeating it is harmless: an instance that holds what it asks for gets
// the same answer again (with the epoch to which it has since raised it, if it has).
//
// Without a name (""): a new id with epoch 0. With a name: the name's id with the next
// epoch and a new key; the instance that held it is fenced, and so is its own later
// asking. When the epochs of the id are used up, the name goes on with a new id at
// epoch 0. A name and no name, or two names, are different producers even for the same
// instance.
//
// Errors: *NameError, [ErrZeroID], *FencedError, [ErrProducerLimit], [ErrExhausted].
func (c *Catalog) InitProducer(instance InstanceID, name string) (Producer, error) {
	if instance == (InstanceID{}) {
		return Producer{}, fmt.Errorf("init producer: instance %w", ErrZeroID)
	}
	if name != "" {
		if err := CheckProducerName(name); err != nil {
			return Producer{}, fmt.Errorf("init producer: %w", err)
		}
	}
	now := c.opts.Now().UnixMilli()
	var p Producer
	err := c.update(func(t *txn) error {
		var err error
		if name == "" {
			p, err = c.initAnonymous(t, instance, now)
		} else {
			p, err = c.initNamed(t, instance, name, now)
		}
		return err
	})
	if err != nil {
		return Producer{}, fmt.Errorf("init producer: %w", err)
	}
	return p, nil
}

func (c *Catalog) initAnonymous(t *txn, instance InstanceID, now int64) (Producer, error) {
	n, ok, err := t.number("instance", bucketInstances, instance[:])
	if err != nil {
		return Producer{}, err
	}
	if ok {
		pid := batchfmt.ProducerID(n)
		row, err := t.mustProducer(pid)
		if err != nil {
			return Producer{}, err
		}
		return row.producer(pid), nil
	}
	pid, err := c.newProducer(t)
	if err != nil {
		return Producer{}, err
	}
	row := &producerRow{
		kind: kindAnonymous, key: c.secret.newKey(pid), instance: instance, since: now,
	}
	t.putProducer(pid, row)
	t.put(bucketInstances, instance[:], numberBody(uint64(pid)))
	return row.producer(pid), nil
}

func (c *Catalog) initNamed(t *txn, instance InstanceID, name string, now int64) (Producer, error) {
	pid, row, err := t.holderOf(name)
	if err != nil {
		return Producer{}, err
	}
	switch decideClaim(row, instance) {
	case claimAgain:
		return row.producer(pid), nil
	case claimFenced:
		return Producer{}, row.fenced(pid)
	case claimNext:
		row.succeed(instance, now)
		row.epoch++
	case claimMoved:
		old := pid
		if pid, err = c.newProducer(t); err != nil {
			return Producer{}, err
		}
		past := *row
		past.kind = kindSuperseded
		t.putProducer(old, &past)
		row.succeed(instance, now)
		row.epoch = 0
	case claimNew:
		if pid, err = c.newProducer(t); err != nil {
			return Producer{}, err
		}
		row = &producerRow{kind: kindNamed, name: name, instance: instance, since: now}
	}
	row.key = c.secret.newKey(pid)
	t.putProducer(pid, row)
	t.put(bucketHolders, []byte(name), numberBody(uint64(pid)))
	return row.producer(pid), nil
}

type claim uint8

const (
	claimNew claim = iota
	claimAgain
	claimFenced
	claimMoved
	claimNext
)

// decideClaim says what an instance gets that asks for a name. First match wins.
//
//	nobody ever had the name       claimNew      new id, epoch 0
//	the instance holds it          claimAgain    the same answer
//	the instance held it before    claimFenced   no claim wars
//	the epochs are used up         claimMoved    new id, epoch 0
//	otherwise                      claimNext     same id, epoch + 1
func decideClaim(row *producerRow, instance InstanceID) claim {
	switch {
	case row == nil:
		return claimNew
	case row.instance == instance:
		return claimAgain
	case slices.Contains(row.earlier, instance):
		return claimFenced
	case row.epoch == MaxEpoch && !planted.EpochWraps:
		return claimMoved
	}
	return claimNext
}

// succeed makes instance the holder and remembers the one before.
func (r *producerRow) succeed(instance InstanceID, now int64) {
	r.earlier = append(slices.Clone(r.earlier), r.instance)
	if n := len(r.earlier) - maxEarlier; n > 0 {
		r.earlier = r.earlier[n:]
	}
	r.instance, r.since, r.request = instance, now, RequestID{}
}

// newProducer takes an id and counts the producer.
func (c *Catalog) newProducer(t *txn) (batchfmt.ProducerID, error) {
	count, err := t.counter(keyProducers)
	if err != nil {
		return 0, err
	}
	if count >= uint64(c.opts.MaxProducers) {
		return 0, fmt.Errorf("%w: %d producers", ErrProducerLimit, c.opts.MaxProducers)
	}
	pid, err := c.takeID(t)
	if err != nil {
		return 0, err
	}
	t.put(bucketMeta, keyProducers, numberBody(count+1))
	return pid, nil
}

func (t *txn) putProducer(pid batchfmt.ProducerID, row *producerRow) {
	t.put(bucketProducers, pidKey(pid), appendProducer(nil, row))
}

// producer returns the row, or nil if there is none.
func (t *txn) producer(pid batchfmt.ProducerID) (*producerRow, error) {
	body, err := t.get(fmt.Sprintf("producer %d", pid), bucketProducers, pidKey(pid))
	if body == nil || err != nil {
		return nil, err
	}
	return decodeProducer(body)
}

// mustProducer is producer for an id that another row names.
func (t *txn) mustProducer(pid batchfmt.ProducerID) (*producerRow, error) {
	row, err := t.producer(pid)
	if err == nil && row == nil {
		err = damaged(fmt.Sprintf("producer %d", pid), "is missing although a name or an instance points to it")
	}
	return row, err
}

// holderOf returns the present id and row of a name, or a nil row if there is none.
func (t *txn) holderOf(name string) (batchfmt.ProducerID, *producerRow, error) {
	n, ok, err := t.number("producer name", bucketHolders, []byte(name))
	if !ok || err != nil {
		return 0, nil, err
	}
	pid := batchfmt.ProducerID(n)
	row, err := t.mustProducer(pid)
	if err == nil && (row.kind != kindNamed || row.name != name) {
		err = damaged(fmt.Sprintf("producer %d", pid), "does not have the name that points to it")
	}
	return pid, row, err
}
