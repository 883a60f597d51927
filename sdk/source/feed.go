package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk"
)

// A feed is one producer of a run, and the reading for it. Its methods are called by the
// goroutine of the run, but for the outcomes, which come from the producer's.
type feed struct {
	run      *run
	producer *sdk.Producer
	sending  entry // what is handed to the producer right now, which asks for its position
	broken   bool  // the producer takes nothing more

	mu struct {
		sync.Mutex
		failure error              // of the first item that is not certainly stored
		cancel  context.CancelFunc // ends the reading
		over    bool               // the ledger is settled otherwise from here on
	}
}

// all reads the source from what is stored to its end, and waits until everything has its
// outcome. It returns nil only when the source has ended and everything is stored.
func (f *feed) all(ctx context.Context) error {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	f.mu.Lock()
	f.mu.cancel = cancel
	f.mu.Unlock()
	ended := f.read(reading)
	if ctx.Err() != nil {
		return context.Cause(ctx) // the run closes the producer, which flushes
	}
	if err := f.producer.Flush(ctx); err != nil {
		return err
	}
	if err := f.failed(); err != nil {
		f.broken = true
		return err
	}
	return ended
}

func (f *feed) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.failure
}

// read hands the items of the source to the producer, until either has no more of it.
func (f *feed) read(ctx context.Context) error {
	r := f.run
	for item, err := range r.src.Read(ctx, bytes.Clone(r.ledger.position())) {
		if err != nil {
			if !isStop(err) {
				err = &sourceError{err}
			}
			_, before := r.ledger.next()
			return r.fault(0, before, err)
		}
		r.stats.change(func(p *Progress) { p.Read++ })
		if len(item.Records) == 0 {
			continue
		}
		if err := f.send(ctx, item); err != nil {
			return err
		}
	}
	return nil
}

// send hands one item to the producer, and waits for room in its buffer.
func (f *feed) send(ctx context.Context, item Item) error {
	r := f.run
	number, before := r.ledger.next()
	if err := check(item, before); err != nil {
		return r.fault(number, item.Position, err)
	}
	f.sending = entry{bytes.Clone(item.Position), int64(len(item.Records))}
	r.ledger.add(f.sending) // before its outcome can come
	err := f.give(ctx, item.Records)
	if err == nil {
		return nil
	}
	r.ledger.takeBack()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var refused *sdk.NotStored
	f.broken = errors.Is(err, sdk.ErrStopped) || errors.Is(err, sdk.ErrClosed) || errors.As(err, &refused)
	return r.fault(number, f.sending.position, err)
}

func (f *feed) give(ctx context.Context, records []sdk.Record) error {
	if len(records) == 1 { // with less to allocate
		return f.producer.SendAsync(ctx, records[0], f.outcome)
	}
	return f.producer.SendBatchAsync(ctx, records, func(acks []sdk.Ack, err error) {
		var all *sdk.BatchError
		if errors.As(err, &all) { // one batch has one outcome: the first says it as well
			err = all.Errs[0]
		}
		f.outcome(acks[0], err)
	})
}

// check refuses what must not be sent, since one could not go on from there.
func check(item Item, before Position) error {
	switch n := len(item.Position); {
	case n == 0:
		return fmt.Errorf("%w: it is empty", ErrPosition)
	case n > sdk.MaxPosition:
		return fmt.Errorf("%w: %d bytes, at most %d are stored", ErrPosition, n, sdk.MaxPosition)
	case bytes.Equal(item.Position, before):
		return fmt.Errorf("%w: it is that of the item before", ErrPosition)
	}
	for i := range item.Records {
		if n := len(item.Records[i].Headers); n > batchfmt.MaxHeaders {
			return fmt.Errorf("record %d of the item has %d headers, at most %d are stored", i, n, batchfmt.MaxHeaders)
		}
	}
	return nil
}

// outcome is called for each item, in the order in which they were sent. Behind the first
// failure nothing is certain any more: the next producer has the position that tells.
func (f *feed) outcome(ack sdk.Ack, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.mu.over || f.mu.failure != nil:
	case err != nil:
		number, e := f.run.ledger.oldest()
		f.mu.failure = f.run.fault(number, e.position, err)
		f.mu.cancel()
	default:
		f.run.count(f.run.ledger.confirm(), ack.Duplicate)
	}
}

// close closes the producer, which flushes. It does so before another one is built, so that
// this one is not told to be fenced by its own successor. Its ctx counts after its end.
func (f *feed) close(ctx context.Context) {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.run.closeTimeout)
	defer cancel()
	if _, err := f.producer.Close(closing); err != nil {
		f.run.logger.Debug("source: the producer left something without an outcome", "topic", f.run.topic, "error", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.over = true
}
