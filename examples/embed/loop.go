package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/quoin-io/quoin/sdk"
)

// A loop measures and prints. Its methods are called by one goroutine, but for readAll, which
// has one of its own and hands everything over by the channel.
type loop struct {
	producer *sdk.Producer
	out      io.Writer
	options
	records chan *sdk.Record // what readAll reads; closed when it ends

	stored      int   // measurements of this run
	last        int64 // offset of the newest of them; -1 for none
	read, older int   // records that were read: of this run, and of those before it
	seen        int64 // offset of the newest of them; -1 for none
}

func newLoop(producer *sdk.Producer, out io.Writer, o options) *loop {
	return &loop{producer: producer, out: out, options: o, records: make(chan *sdk.Record), last: -1, seen: -1}
}

// readAll hands over what comes, until ctx ends.
func (l *loop) readAll(ctx context.Context, consumer *sdk.Consumer) error {
	defer close(l.records)
	for record, err := range consumer.Records(ctx) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case l.records <- record:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

var errReader = errors.New("the consumer ended early")

// measureAll measures, and prints what comes back, until there are enough measurements or
// ctx ends.
func (l *loop) measureAll(ctx context.Context) error {
	tick := time.NewTicker(l.every)
	defer tick.Stop()
	for l.stored < l.count {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := l.send(); err != nil {
				return err
			}
		case record, ok := <-l.records:
			if !ok {
				return errReader
			}
			l.print(record)
		}
	}
	return nil
}

// send stores a measurement. An interrupt does not call it off: its outcome would be
// unknown then, and it comes soon.
func (l *loop) send() error {
	ack, err := l.producer.Send(context.Background(), sdk.Record{Value: measurement()})
	if err != nil {
		return err
	}
	l.stored++
	l.last = ack.Offset
	return nil
}

// measurement is what this process takes at the moment.
func measurement() []byte {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return fmt.Appendf(nil, "heap %d KiB, %d goroutines", m.HeapAlloc>>10, runtime.NumGoroutine())
}

// catchUp prints what is under way to the consumer, up to the last acknowledgement.
func (l *loop) catchUp(ctx context.Context) error {
	for l.seen < l.last {
		select {
		case record, ok := <-l.records:
			if !ok {
				return errReader
			}
			l.print(record)
		case <-ctx.Done():
			return fmt.Errorf("offset %d is stored, and only %d was read: %w", l.last, l.seen, context.Cause(ctx))
		}
	}
	return nil
}

func (l *loop) print(record *sdk.Record) {
	l.seen = record.Offset
	if record.Producer.ID != l.producer.ID() {
		l.older++
		return
	}
	l.read++
	fmt.Fprintf(l.out, "%d %s\n", record.Offset, record.Value)
}

func (l *loop) summary() {
	fmt.Fprintf(l.out, "stored %d, read %d, %d from earlier runs\n", l.stored, l.read, l.older)
}
