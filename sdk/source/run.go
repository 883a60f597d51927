package source

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quoin-io/quoin/sdk"
)

// Run carries src into one partition of a topic, each record once and in order, beginning
// where the last run of this name ended. The name is that of a producer, see
// [sdk.ProducerBuilder.Named].
//
// It returns nil when the source has ended and everything is stored. When ctx ends, what is
// under way is flushed, for [CloseTimeout] at most, and Run returns the cause of ctx; the
// source has to notice the end of ctx by itself. Everything else comes as an *[Error], except
// for settings that are not allowed.
//
// It pauses and goes on from the position that is stored, see [Backoff], when the source fails,
// and when a record is not stored in the time of its producer for a reason that may pass: no
// connection, a full disk, an outcome that is unknown. While the server cannot be reached it
// just waits; the client says so, see [sdk.OnEvent].
//
// It ends when it is of no use to go on:
//
//   - [sdk.ErrFenced]: another run has the name now. That is seen when something is sent.
//   - [ErrMoved]: another run had the name meanwhile, or the server lost something.
//   - [sdk.ErrDataLoss], [sdk.ErrUnknownProducer] and all else that the server does not want to
//     be asked again, such as [sdk.ErrUnknownTopic] and [sdk.ErrUnknownPartition].
//   - *[sdk.RecordTooLargeError] and [ErrPosition]: an item cannot be stored. What is in front
//     of it is.
//   - an error of the source that is marked by [Stop]; what is in front of it is stored.
//   - [sdk.ErrClosed]: the client is closed. That too is seen when something is sent.
//   - an outbox that cannot be used, see [sdk.ProducerBuilder.Outbox].
func Run(ctx context.Context, client *sdk.Client, src Source, topic, name string, opts ...Option) error {
	c, err := newConfig(opts)
	if err != nil {
		return err
	}
	r := &run{config: c, client: client, src: src, topic: topic, name: name}
	stop := r.startReports()
	err = r.all(ctx)
	c.stats.change(func(p *Progress) {
		p.Done = true
		if err != nil {
			p.Err, p.Failed = err, time.Now()
		}
	})
	stop()
	if c.onProgress != nil {
		c.onProgress(c.stats.Progress())
	}
	return err
}

// A run is one call of Run.
type run struct {
	*config
	client      *sdk.Client
	src         Source
	topic, name string

	id     uint64 // of the producer; 0 until the first one was built
	ledger ledger
}

// startReports starts the goroutine that calls OnProgress. The result stops it and waits.
func (r *run) startReports() func() {
	if r.onProgress == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { report(ctx, r.stats, r.every, r.onProgress) })
	return func() {
		cancel()
		wg.Wait()
	}
}

// all builds producers and feeds them until the source has ended or nothing helps.
func (r *run) all(ctx context.Context) error {
	var f *feed // nil while there is none
	defer func() {
		if f != nil {
			f.close(ctx)
		}
	}()
	attempt, items := 0, int64(0)
	for {
		var err error
		if f == nil {
			f, err = r.build(ctx)
		}
		if err == nil {
			err = f.all(ctx)
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case isFinal(err):
			return err
		}
		if f != nil && f.broken {
			f.close(ctx)
			f = nil
		}
		if now := r.ledger.stored(); now > items {
			attempt, items = 0, now
		}
		attempt++
		if !r.pauseFor(ctx, attempt, err) {
			return context.Cause(ctx)
		}
	}
}

// isFinal reports whether an error ends the run: failures of the source do when it says so,
// those of the producer when they cannot pass.
func isFinal(err error) bool {
	var again *sourceError
	if errors.As(err, &again) {
		return false
	}
	return isStop(err) || !mayPass(err)
}

// sourceError marks what came from the source, where nobody knows what it means.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return "read the source: " + e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

// pauseFor notes a failure and pauses. It reports false when ctx ends.
func (r *run) pauseFor(ctx context.Context, attempt int, err error) bool {
	r.stats.change(func(p *Progress) {
		p.Retries++
		p.Err, p.Failed = err, time.Now()
	})
	d := jitter(ceiling(attempt, r.first, r.max))
	r.logger.Warn("source: going on from what is stored, after a pause", "topic", r.topic, "name", r.name,
		"attempt", attempt, "pause", d, "error", err)
	return pause(ctx, d)
}

// build makes a producer that goes on where the server says.
func (r *run) build(ctx context.Context) (*feed, error) {
	if err := r.look(ctx); err != nil {
		return nil, err
	}
	f := &feed{run: r}
	b := r.client.Producer(r.topic)
	if r.producer != nil {
		r.producer(b)
	}
	b.Named(r.name).Position(func(*sdk.Record) []byte { return f.sending.position })
	if r.partition != -1 {
		b.Partition(r.partition)
	}
	if r.hasOutbox {
		b.Outbox(r.outbox)
	}
	p, err := b.Build(ctx)
	if err != nil {
		return nil, r.fault(0, r.ledger.position(), err)
	}
	f.producer = p
	if err := r.begin(p); err != nil {
		f.close(ctx)
		return nil, err
	}
	r.logger.Info("source: begins", "topic", r.topic, "name", r.name, "position", printable(r.ledger.position()), "epoch", p.Epoch())
	return f, nil
}

// begin takes over the position that a new producer has: it decides what became of the items
// that the one before left.
func (r *run) begin(p *sdk.Producer) error {
	at := p.Position()
	if r.id == 0 {
		r.id = p.ID()
		r.ledger.begin(at)
		r.stats.change(func(now *Progress) { now.Position = at })
		return nil
	}
	stored, ok := r.ledger.settle(at)
	if !ok {
		return r.fault(0, at, ErrMoved)
	}
	for _, e := range stored {
		r.count(e, false)
	}
	return nil
}

// look asks, before the name is claimed again, whether another run had it: it would be taken
// from one that goes on. Without an answer the new producer tells.
func (r *run) look(ctx context.Context) error {
	if r.id == 0 {
		return nil
	}
	lane, err := r.client.DescribeProducer(ctx, r.topic, max(r.partition, 0), r.id)
	if err == nil && !r.ledger.knows(lane.Position) {
		return r.fault(0, lane.Position, ErrMoved)
	}
	return nil
}

// count notes that an item is stored, for those who look.
func (r *run) count(e entry, duplicate bool) {
	r.stats.change(func(p *Progress) {
		p.Items++
		p.Records += e.records
		if duplicate {
			p.Duplicates += e.records
		}
		p.Position, p.Stored = e.position, time.Now()
	})
}

func (r *run) fault(item int64, position Position, err error) error {
	return &Error{Topic: r.topic, Item: item, Position: position, Err: err}
}
