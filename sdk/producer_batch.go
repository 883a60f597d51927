package sdk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
)

// A BatchError says which records of a [Producer.SendBatch] did not end as stored.
type BatchError struct {
	Topic string
	Errs  []error // of each record, in their order; nil for those that are stored
}

func (e *BatchError) Error() string {
	failed, first := 0, error(nil)
	for _, err := range e.Errs {
		if err != nil && first == nil {
			first = err
		}
		if err != nil {
			failed++
		}
	}
	return fmt.Sprintf("sdk: produce %q: %d of %d records are not known to be stored, the first because of: %v", e.Topic, failed, len(e.Errs), first)
}

// Unwrap gives the errors of all records that have one.
func (e *BatchError) Unwrap() []error {
	var errs []error
	for _, err := range e.Errs {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// SendBatch sends records and waits for the outcome of each. It costs less than as many
// Sends: records of one partition gather before the first is sent. They are stored in their
// order, but not as one: they may come to lie in several batches, between which there may be
// records of others, and some may fail while others do not.
//
// The acks are as many as the records, and in their order. The error is nil when all are
// stored, else a *[BatchError], and the acks of records with an error are zero. What Send
// says of ctx holds for each record.
func (p *Producer) SendBatch(ctx context.Context, records []Record) ([]Ack, error) {
	acks, errs := make([]Ack, len(records)), make([]error, len(records))
	waits := make([]*waiter, len(records))
	if p.config.position == nil {
		p.acceptAll(ctx, records, waits, errs)
	} else {
		p.acceptAsOne(ctx, records, waits, errs)
	}
	failed, over := false, p.config.position != nil // which takes nothing back
	for i := range records {
		if !over && ctx.Err() != nil {
			over = true
			p.takeBack(waits[i:], errs[i:], context.Cause(ctx))
		}
		if w := waits[i]; errs[i] == nil {
			acks[i], errs[i] = w.await(ctx)
		} else if w != nil {
			w.reuse()
		}
		failed = failed || errs[i] != nil
	}
	if failed {
		return acks, &BatchError{Topic: p.topic, Errs: errs}
	}
	return acks, nil
}

// takeBack gives up what was not frozen yet, all at once: one by one each would cost as much as
// the whole batch that it is in. They have their outcome then.
func (p *Producer) takeBack(waits []*waiter, errs []error, cause error) {
	bySender := map[*sender]map[*waiter]bool{}
	for i, w := range waits {
		if w == nil || errs[i] != nil {
			continue
		}
		if bySender[w.sender] == nil {
			bySender[w.sender] = map[*waiter]bool{}
		}
		bySender[w.sender][w] = true
	}
	for s, all := range bySender {
		s.takeBack(all, cause)
	}
}

func (s *sender) takeBack(all map[*waiter]bool, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var bytes int64
	mine := func(d delivery) bool { return d.wait != nil && all[d.wait] }
	cost := func(d delivery) int { return int(d.wait.cost) }
	gone := func(d delivery) {
		bytes += d.wait.cost
		s.uncount(d.wait)
		d.wait.err = &NotStored{Topic: s.p.topic, Partition: s.partition, Cause: cause}
		d.wait.done <- struct{}{}
	}
	s.mu.batcher.RemoveAll(mine, cost, gone)
	if parked := s.mu.parked; parked != nil {
		if parked.RemoveAll(mine, cost, gone); len(parked.Tags) == 0 {
			s.mu.parked = nil
			parked.Reset()
			s.p.batches.Put(parked)
		}
	}
	s.p.buffer.release(bytes)
	s.wakeFlushes()
}

// given is a record on its way into a batch.
type given struct {
	record batchfmt.Record
	cost   int64
	wait   *waiter
	index  int // among those of the call
}

// acceptAll puts records into the batches of their partitions, and an error into errs for
// each that is not accepted.
func (p *Producer) acceptAll(ctx context.Context, records []Record, waits []*waiter, errs []error) {
	var run []given // of one partition, with room in the buffer
	partition, sticky, now := 0, false, time.Now()
	flush := func() {
		p.placeAll(partition, run, errs, now, sticky)
		run = run[:0]
	}
	for i := range records {
		if ctx.Err() != nil {
			errs[i] = context.Cause(ctx)
			continue
		}
		record, cost, err := p.prepare(&records[i], now.UnixMilli())
		var to int
		var anywhere bool
		if err == nil {
			to, anywhere, err = p.choosePartition(&records[i])
		}
		if err != nil {
			errs[i] = err
			continue
		}
		if len(run) > 0 && (sticky != anywhere || !sticky && to != partition) {
			flush()
		}
		if len(run) == 0 {
			partition, sticky = to, anywhere
		}
		ok, err := p.buffer.try(cost)
		if err == nil && !ok {
			flush() // what waits here would wait for itself
			partition, sticky = to, anywhere
			if err = p.buffer.acquire(ctx, cost, p.pressure); err != nil {
				err = p.bufferError(ctx, err)
			}
		}
		if err != nil {
			errs[i] = err
			continue
		}
		waits[i] = waiters.Get().(*waiter)
		run = append(run, given{record: record, cost: cost, wait: waits[i], index: i})
	}
	flush()
}

// acceptAsOne puts all records into one batch, or an error into errs for each.
func (p *Producer) acceptAsOne(ctx context.Context, records []Record, waits []*waiter, errs []error) {
	if len(records) == 0 {
		return
	}
	tags := make([]delivery, len(records))
	for i := range records {
		waits[i] = waiters.Get().(*waiter)
		tags[i].wait = waits[i]
	}
	if err := p.acceptItem(ctx, records, tags); err != nil {
		for i := range errs {
			errs[i] = err
		}
	}
}

// placeAll gives records to the sender of their partition; those without a say go on to
// another one when it is that one's turn.
func (p *Producer) placeAll(partition int, run []given, errs []error, now time.Time, sticky bool) {
	for len(run) > 0 {
		s, err := p.sender(partition)
		took := 0
		if err == nil {
			took, err = s.addAll(run, now, sticky)
		}
		run = run[took:]
		switch {
		case err == nil:
		case errors.Is(err, errMoveOn):
			partition = p.moveOn(partition)
		default:
			p.buffer.release(run[0].cost)
			errs[run[0].index] = err
			run = run[1:]
		}
	}
}

// SendBatchAsync is SendBatch that returns when the records are accepted; fn is called once,
// with what SendBatch would return, when all have their outcome. It may be nil. When no record
// was accepted the error says why, and fn is not called.
func (p *Producer) SendBatchAsync(ctx context.Context, records []Record, fn func([]Ack, error)) error {
	if len(records) == 0 {
		if fn != nil {
			fn(nil, nil)
		}
		return nil
	}
	g := &gathered{p: p, fn: fn, acks: make([]Ack, len(records)), errs: make([]error, len(records)), left: len(records) + 1}
	tags := make([]delivery, len(records))
	for i := range tags {
		tags[i].fn = func(ack Ack, err error) { g.outcome(i, ack, err) }
	}
	if p.config.position != nil {
		if err := p.acceptItem(ctx, records, tags); err != nil {
			return err
		}
		g.release()
		return nil
	}
	accepted := false
	for i := range records {
		if err := p.accept(ctx, &records[i], tags[i]); err != nil {
			g.outcome(i, Ack{}, err)
			continue
		}
		accepted = true
	}
	if !accepted {
		return &BatchError{Topic: p.topic, Errs: g.errs}
	}
	g.release()
	return nil
}

// gathered collects the outcomes of a batch.
type gathered struct {
	p    *Producer
	fn   func([]Ack, error)
	mu   sync.Mutex
	acks []Ack
	errs []error
	left int // outcomes to come, and one more until all records were accepted
}

func (g *gathered) outcome(i int, ack Ack, err error) {
	g.mu.Lock()
	g.acks[i], g.errs[i] = ack, err
	g.mu.Unlock()
	g.release()
}

// release counts down, and the last one calls fn.
func (g *gathered) release() {
	g.mu.Lock()
	g.left--
	last := g.left == 0
	g.mu.Unlock()
	if !last || g.fn == nil {
		return
	}
	for _, err := range g.errs {
		if err != nil {
			g.fn(g.acks, &BatchError{Topic: g.p.topic, Errs: g.errs})
			return
		}
	}
	g.fn(g.acks, nil)
}
