package seglog

import (
	"errors"
	"fmt"

	"github.com/quoin-io/quoin/batchfmt"
)

// Scan calls fn for all batches from the one that holds from up to the end of the log as
// it is at the call, in order, control batches too, with both checksums verified. A control
// batch whose base offset is from is among them, so whoever goes on from a checkpoint may
// meet one again. The batch is valid until fn returns. An error of fn ends the scan and is
// returned as it is; damage ends it with a *CorruptError. See [Log.Replay] for going on.
func (l *Log) Scan(from Offset, fn func(b batchfmt.Batch) error) error {
	return l.Replay(from, fn, func(d DamagedRange) error { return d.at(from) })
}

// Replay is a Scan that goes on behind damage: where batches cannot be read it calls damaged
// with what is missing, in its place among the calls of fn, and then goes on with the batch
// behind it. An error of damaged ends it and is returned as it is. A range in which From and
// Next are the same has lost no record, but may have lost a control batch.
func (l *Log) Replay(from Offset, fn func(b batchfmt.Batch) error, damaged func(d DamagedRange) error) error {
	if start, end := l.Start(), l.End(); from < start || from > end {
		return fmt.Errorf("%w: %d is not in [%d,%d]", ErrOutOfRange, from, start, end)
	}
	// Control batches with base offset from may stand at the end of the segment before,
	// and before the batch to which the index leads.
	views, err := l.views(max(from-1, 0))
	if err != nil {
		return err
	}
	for _, v := range views {
		if err := l.replaySegment(v, from, fn, damaged); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) replaySegment(v view, from Offset, fn func(batchfmt.Batch) error, damaged func(DamagedRange) error) (err error) {
	c, done, err := l.cursor(v, &window{chunk: walkBytes})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	c.bodies = true
	c.seek(from - 1)
	for {
		s, ok, err := c.next()
		switch {
		case err != nil || !ok:
			return err
		case c.at.next < from:
		case s.hole != nil:
			err = damaged(s.hole.damaged(v.base))
		case c.at.next > from || s.batch.IsControl():
			err = fn(s.batch)
		}
		if err != nil {
			return err
		}
	}
}
