package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk"
)

// A tally counts records. Sent is the sum of the others when all have their outcome. Its
// keys in JSON stay.
type tally struct {
	Sent       int64    `json:"sent"`
	Appended   int64    `json:"appended"`
	Duplicates int64    `json:"duplicates"`
	Failed     int64    `json:"failed"`
	Unknown    int64    `json:"unknown"`
	Tokens     []string `json:"tokens"` // of the batches of the unknown ones
}

func (t tally) String() string {
	s := fmt.Sprintf("sent %d, appended %d, duplicates %d, failed %d", t.Sent, t.Appended, t.Duplicates, t.Failed)
	if t.Unknown > 0 {
		s += fmt.Sprintf(", unknown %d", t.Unknown)
	}
	return s
}

// verdict says how a run ends. First match wins.
//
//	it was interrupted             130
//	an outcome is unknown          6     it must pass neither for stored nor for not stored
//	some failed, some are stored   6
//	all failed                     what the first failure says
//	the input broke off            6     or what its error says, if nothing is stored
//	otherwise                      0
func (t tally) verdict(interrupted bool, first, input error) error {
	stored := t.Appended+t.Duplicates > 0
	switch {
	case interrupted:
		return errInterrupted
	case t.Unknown > 0:
		return partialError{fmt.Errorf("of %d records it is unknown whether they are stored", t.Unknown)}
	case t.Failed > 0 && stored:
		return partialError{fmt.Errorf("%d of %d records are not stored", t.Failed, t.Sent)}
	case t.Failed > 0:
		return first
	case input != nil && stored:
		return partialError{input}
	}
	return input
}

// shownFaults is how many failed records are named one by one.
const shownFaults = 10

// deliveries follow records to their outcomes.
type deliveries struct {
	notes   *notes
	reading context.Context // ends when no more is to be read
	stop    context.CancelCauseFunc

	mu struct {
		sync.Mutex
		tally
		first  error // of the failures, the one that came first
		faults int   // records that failed or are unknown
		tokens []sdk.Token
		known  map[sdk.Token]bool
	}
}

func newDeliveries(ctx context.Context, n *notes) *deliveries {
	d := &deliveries{notes: n}
	d.reading, d.stop = context.WithCancelCause(ctx)
	d.mu.known = make(map[sdk.Token]bool)
	return d
}

func (d *deliveries) sent(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.Sent += n
}

// settle takes the outcome of a record.
func (d *deliveries) settle(at inputPlace, ack sdk.Ack, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var unknown *sdk.OutcomeUnknown
	switch {
	case err == nil && ack.Duplicate:
		d.mu.Duplicates++
		return
	case err == nil:
		d.mu.Appended++
		return
	case errors.As(err, &unknown):
		d.mu.Unknown++
		if t := unknown.Token(); !t.IsZero() && !d.mu.known[t] {
			d.mu.known[t] = true
			d.mu.tokens = append(d.mu.tokens, t)
		}
	default:
		d.mu.Failed++
	}
	if d.mu.first == nil {
		d.mu.first = err
	}
	if d.mu.faults++; d.mu.faults <= shownFaults {
		d.notes.printf("%v: %v", at, err)
	}
	if !ofRecordAlone(err) && d.reading.Err() == nil {
		d.notes.printf("reading stops here: what follows is not sent")
		d.stop(err)
	}
}

// ofRecordAlone reports whether an error says nothing of the records that follow: the record
// is too large, cannot stand in a batch, or cannot be read.
func ofRecordAlone(err error) bool {
	return errors.As(err, new(*sdk.RecordTooLargeError)) || errors.As(err, new(*batchfmt.FormatError)) || errors.As(err, new(inputError))
}

func (d *deliveries) verdict(interrupted bool, input error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.verdict(interrupted, d.mu.first, input)
}

// progressEvery is how often a line of progress is renewed.
const progressEvery = 200 * time.Millisecond

// showProgress keeps a line of progress, on a terminal, until end is called, which waits
// for the last of it.
func (d *deliveries) showProgress() (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				d.mu.Lock()
				now := d.mu.tally
				d.mu.Unlock()
				d.notes.show(now.String())
			case <-stop:
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}
