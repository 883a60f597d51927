package seglog

import (
	"errors"
	"fmt"
	"math"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/planted"
)

// noLimit is above every offset.
const noLimit Offset = math.MaxInt64

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

// nextOf is the offset behind b.
func nextOf(b batchfmt.Batch) Offset {
	if b.IsControl() {
		return b.BaseOffset()
	}
	return b.NextOffset()
}

// with is the end of the log behind b.
func (e segEnd) with(b batchfmt.Batch) segEnd {
	return segEnd{
		next:     nextOf(b),
		size:     e.size + int64(b.Size()),
		term:     b.Term(),
		lastTime: max(e.lastTime, b.AppendTime()),
	}
}

// A gap is a bad place with a good batch behind it.
type gap struct {
	at      segEnd // behind the last good batch in front of it
	behind  segEnd // in front of the next good batch
	entries int    // how many of the index lie in front of it
	reason  string
}

func (g gap) hole() hole {
	return hole{from: g.at.next, next: g.behind.next, pos: g.at.size, end: g.behind.size, reason: g.reason}
}

// walked is what a walk over a segment found.
type walked struct {
	end     segEnd // behind the last good batch
	entries []entry
	gaps    []gap
	bad     string // what follows the end is no batch, and no good one is behind it; empty if only zeros follow
	durable Offset // the most that a batch says was synced when it was appended

	// Of a segment with a successor:
	full    segEnd // where the segment came to the limit first; zero if it did not
	entered int    // how many index entries lie in front of that
	over    error  // what is wrong with what follows there, if that is more than zeros
}

// A walker goes from batch to batch, checking everything.
type walker struct {
	search
	every int64
	each  func(b batchfmt.Batch, pos int64) // called for every good batch, unless nil
	walked
}

// newWalker begins at from. Records at or behind limit belong to the next segment.
func newWalker(w *window, from segEnd, limit Offset, every int64) *walker {
	r := &walker{search: search{w: w, limit: limit}, every: every}
	r.budget = hashBudget*(w.end-from.size) + batchfmt.MaxBatchBytes
	r.end = from
	r.arrive()
	return r
}

// walk goes over the whole segment, over bad places too where something good is behind
// them. The error is the disk's, or errTooMany.
func (r *walker) walk() error {
	for {
		why, err := r.stretch()
		if why == nil || err != nil {
			return err
		}
		e, found, err := r.resume(r.end)
		if err != nil {
			return err
		}
		if !found {
			r.bad = why.Error()
			return nil
		}
		behind := r.end
		behind.next, behind.size = e.offset, e.pos
		r.gaps = append(r.gaps, gap{at: r.end, behind: behind, entries: len(r.entries), reason: why.Error()})
		r.end = behind
		r.arrive()
	}
}

// stretch goes from batch to batch until they end, which is nil, or to a bad place, and says
// what is bad there.
func (r *walker) stretch() (why, err error) {
	for r.end.size < r.w.end {
		b, err := r.w.batch(r.end.size)
		if err == nil {
			err = follows(r.end, b)
			if !planted.SkipBodyCheck {
				err = errors.Join(err, b.Verify())
			}
		} else if !isFormat(err) {
			return nil, err
		} else if err := r.w.newer(r.end.size); err != nil {
			return nil, err
		}
		if err == nil && nextOf(b) > r.limit {
			err = fmt.Errorf("the batch up to offset %d reaches over the start of the next segment, %d", nextOf(b), r.limit)
		}
		if err != nil {
			return r.stop(err)
		}
		if r.each != nil {
			r.each(b, r.end.size)
		}
		r.entries = addEntry(r.entries, b, r.end.size, r.every)
		r.durable = max(r.durable, b.Durable())
		r.end = r.end.with(b)
		r.arrive()
	}
	return nil, nil
}

// arrive notes where the walk has come to the start of the next segment.
func (r *walker) arrive() {
	if r.end.next == r.limit && r.full == (segEnd{}) {
		r.full, r.entered = r.end, len(r.entries)
	}
}

// stop is asked where there is no good batch: zeros are an end, and so is the start of the
// next segment; anything else is bad.
func (r *walker) stop(why error) (error, error) {
	zeros, err := r.w.onlyZeros(r.end.size)
	if zeros || err != nil {
		return nil, err
	}
	if r.end.next == r.limit {
		r.over = why
		return nil, nil
	}
	return why, nil
}
