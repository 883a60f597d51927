package main

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/quoin-io/quoin/examples/internal/lines"
	"github.com/quoin-io/quoin/sdk"
)

// maxReports bounds how many failed lines are reported one by one.
const maxReports = 20

// A tally counts what became of the lines and reports those that failed. Outcomes come
// from the goroutines of the producer.
type tally struct {
	appended, duplicates, failed atomic.Int64

	mu struct {
		sync.Mutex
		out      io.Writer
		withheld int64 // failures that were not reported
	}
}

func newTally(out io.Writer) *tally {
	t := &tally{}
	t.mu.out = out
	return t
}

// outcomeOf returns the callback for a line.
func (t *tally) outcomeOf(src *source, line lines.Line) func(sdk.Ack, error) {
	number, size := line.Number, len(line.Value)
	return func(ack sdk.Ack, err error) {
		switch {
		case err != nil:
			t.fail(src, number, describe(err, size))
		case ack.Duplicate:
			t.duplicates.Add(1)
		default:
			t.appended.Add(1)
		}
	}
}

// describe says why a line failed. Whether an unknown one is stored nobody can say, so it
// is not called a failure here, although it counts as one.
func describe(err error, size int) string {
	var tooLarge *sdk.RecordTooLargeError
	var unknown *sdk.OutcomeUnknown
	switch {
	case errors.As(err, &tooLarge):
		return fmt.Sprintf("failed: a line of %d bytes needs a batch of %d, the topic takes %d",
			size, tooLarge.Bytes, tooLarge.Limit)
	case errors.As(err, &unknown):
		return fmt.Sprintf("unknown: %v", err)
	}
	return fmt.Sprintf("failed: %v", err)
}

// tooLong counts a line that the reader skipped.
func (t *tally) tooLong(src *source, line *lines.TooLongError) {
	t.fail(src, line.Number, fmt.Sprintf("failed: %v", line))
}

func (t *tally) fail(src *source, number int64, reason string) {
	t.failed.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed.Load() > maxReports {
		t.mu.withheld++
		return
	}
	fmt.Fprintf(t.mu.out, "send: %s:%d: %s\n", src.label, number, reason)
}

// finish says how many failures were not reported. All outcomes are in by then.
func (t *tally) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.withheld > 0 {
		fmt.Fprintf(t.mu.out, "send: %d more lines failed\n", t.mu.withheld)
	}
}

// String is the summary. Every line that was offered to the producer is in it once, and so
// is every one that is too long to be; what an interrupt left unsent is not.
func (t *tally) String() string {
	appended, duplicates, failed := t.appended.Load(), t.duplicates.Load(), t.failed.Load()
	return fmt.Sprintf("sent %d, appended %d, duplicates %d, failed %d",
		appended+duplicates+failed, appended, duplicates, failed)
}
