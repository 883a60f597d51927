package seglog

import (
	"errors"
	"fmt"

	"github.com/quoin-io/quoin/batchfmt"
)

// follows says why b cannot stand where the log ends at end, or nil.
func follows(end segEnd, b batchfmt.Batch) error {
	switch {
	case b.BaseOffset() != end.next:
		return fmt.Errorf("base offset is %d, not %d", b.BaseOffset(), end.next)
	case b.Term() < end.term:
		return fmt.Errorf("term is %d, below %d", b.Term(), end.term)
	case b.Durable() > b.BaseOffset():
		return fmt.Errorf("durable offset is %d, above the base offset %d", b.Durable(), b.BaseOffset())
	}
	return nil
}

// with is the end of the log behind b.
func (e segEnd) with(b batchfmt.Batch) segEnd {
	next := b.BaseOffset()
	if !b.IsControl() {
		next = b.NextOffset()
	}
	return segEnd{
		next:     next,
		size:     e.size + int64(b.Size()),
		term:     b.Term(),
		lastTime: max(e.lastTime, b.AppendTime()),
	}
}

// walked is what a walk over a segment found.
type walked struct {
	end     segEnd // behind the last good batch
	entries []entry
	bad     string // why the walk ended before the end of the window; empty if only zeros follow
}

// walk goes from batch to batch, checking everything, until they end or a bad place. The
// error is the disk's.
func walk(w *window, from segEnd, entries []entry, every int64) (walked, error) {
	r := walked{end: from, entries: entries}
	for r.end.size < w.end {
		b, err := w.batch(r.end.size)
		if err == nil {
			err = errors.Join(follows(r.end, b), b.Verify())
		} else if !isFormat(err) {
			return r, err
		}
		if err != nil {
			return r, r.stop(w, err)
		}
		r.entries = addEntry(r.entries, b, r.end.size, every)
		r.end = r.end.with(b)
	}
	return r, nil
}

// stop ends a walk where there is no good batch: zeros are an end, the rest is bad.
func (r *walked) stop(w *window, why error) error {
	zeros, err := w.onlyZeros(r.end.size)
	if err == nil && !zeros {
		r.bad = why.Error()
	}
	return err
}

// hashBudget bounds how much is hashed in search of evidence, as a multiple of what is
// searched: bytes that look like many large batches must not cost time without end.
const hashBudget = 4

// evidence looks behind a bad place for a batch which says that something at or behind
// the bad place had been synced. It returns what it found in words, or "".
//
// Where a front verifies its size can be trusted, and the search steps from batch to
// batch, so that what a producer put into its records is not taken for a batch. Only
// where a front is lost does it look at every byte.
func evidence(w *window, bad segEnd) (string, error) {
	pos, framed := bad.size, true
	budget := hashBudget*(w.end-pos) + batchfmt.MaxBatchBytes
	for pos < w.end {
		head, err := w.header(pos)
		if err != nil && !isFormat(err) {
			return "", err
		}
		size := int64(0)
		if err == nil {
			size = int64(head.Size())
		}
		good := size > 0 && pos+size <= w.end && head.Term() >= bad.term &&
			head.BaseOffset() >= bad.next && head.Durable() <= head.BaseOffset()
		if good {
			if budget -= size; budget < 0 {
				return "what follows has too many beginnings of batches to tell what was synced", nil
			}
			b, err := w.batch(pos)
			if err != nil && !isFormat(err) {
				return "", err
			}
			good = err == nil && b.Verify() == nil
			if good && b.Durable() > bad.next {
				return fmt.Sprintf("the batch at byte %d says that offsets below %d were synced", pos, b.Durable()), nil
			}
		}
		if good || framed && size > 0 {
			pos, framed = pos+size, true
			continue
		}
		framed = false
		if pos, err = w.nextMagic(pos + 1); err != nil {
			return "", err
		}
	}
	return "", nil
}
