package retired

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/sorttable"
)

// Put adds rows, the one that retired first in front; of two of one producer the later one
// counts. When it returns nil they are durable and seen by Get. After an error the table
// answers as before, though a restart may find them. Values are not kept.
//
// If there is upkeep due that Maintain was not called for, Put does it first; that it fails
// keeps nobody from putting before there are many runs.
func (t *Table) Put(rows []Row) error {
	if err := checkRows(rows); err != nil || len(rows) == 0 {
		return err
	}
	t.writer.Lock()
	defer t.writer.Unlock()
	if err := t.makeRoom(); err != nil {
		return fmt.Errorf("put into retired table: %w", err)
	}
	if err := t.put(rows); err != nil {
		return fmt.Errorf("put into retired table: %w", err)
	}
	return nil
}

// Vouch says that the log of the partition was durable up to an offset when the rows were
// chosen that are put from now on. The next Put that succeeds makes it durable too: rows tell
// of batches below it, so a log that ends before it has lost some.
func (t *Table) Vouch(end batchfmt.Offset) {
	t.writer.Lock()
	defer t.writer.Unlock()
	t.writer.vouched = max(t.writer.vouched, end)
}

// Vouched is the highest offset of a Vouch that is durable; 0 if there was none.
func (t *Table) Vouched() batchfmt.Offset { return t.view.Load().head.vouched }

// Maintain does one step of the upkeep that is due, a merge or a drop, and reports whether
// there was any. It may take seconds: a quarter of the table may be written. Look-ups go on
// meanwhile. After an error the table is as before.
func (t *Table) Maintain() (worked bool, err error) {
	t.writer.Lock()
	defer t.writer.Unlock()
	if worked, err = t.maintain(); err != nil {
		return worked, fmt.Errorf("maintain retired table: %w", err)
	}
	return worked, nil
}

func checkRows(rows []Row) error {
	for _, r := range rows {
		switch {
		case r.PID == batchfmt.NoProducer:
			return fmt.Errorf("%w: no producer id", ErrRow)
		case len(r.Value) > MaxValueBytes:
			return fmt.Errorf("%w: producer %d has %d bytes, at most %d", ErrRow, r.PID, len(r.Value), MaxValueBytes)
		}
	}
	return nil
}

// makeRoom does the upkeep that is due.
func (t *Table) makeRoom() error {
	for {
		v := t.view.Load()
		runs := len(v.runs)
		if w := &t.writer; !v.closed && runs < hardRuns && w.failedAt > 0 && runs <= w.failedAt {
			return nil // it failed at so many: with one more it is tried again
		}
		worked, err := t.maintain()
		switch {
		case err == nil && worked:
		case err == nil, runs < hardRuns && !errors.Is(err, ErrClosed):
			return nil
		default:
			return err
		}
	}
}

func (t *Table) maintain() (worked bool, err error) {
	v := t.view.Load()
	if v.closed {
		return false, ErrClosed
	}
	p, due := nextPlan(v.head.runs, uint64(t.opts.MaxRows))
	switch {
	case due:
		err = t.merge(p)
	case t.writer.changed:
		due, err = true, t.commit(v.head.clone(), v.runs)
	}
	t.writer.failedAt = 0
	if err != nil {
		t.writer.failedAt = len(v.runs)
	}
	return due, err
}

func (t *Table) put(rows []Row) error {
	v := t.view.Load()
	h := v.head.clone()
	e := entry{number: t.nextNumber(), first: h.serial, last: h.serial + uint64(len(rows)) - 1}
	r, err := t.writeRun(e, sorted(rows, h.serial))
	if err != nil {
		return err
	}
	h.serial, h.vouched = e.last+1, max(h.vouched, t.writer.vouched)
	h.runs = append(h.runs, r.entry)
	return t.commit(h, append(slices.Clip(v.runs), r))
}

// sorted gives the rows by rising id, the last one of each, with serials from first on.
func sorted(rows []Row, first uint64) iter.Seq2[sorttable.Row, error] {
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(rows[a].PID, rows[b].PID), cmp.Compare(a, b)) })
	return func(yield func(sorttable.Row, error) bool) {
		for i, at := range order {
			r := rows[at]
			if i+1 < len(order) && rows[order[i+1]].PID == r.PID {
				continue
			}
			if !yield(sorttable.Row{Key: key(r.PID, first+uint64(at), r.Named), Value: r.Value}, nil) {
				return
			}
		}
	}
}

func (t *Table) nextNumber() uint64 {
	t.writer.number++
	return t.writer.number
}

// writeRun makes the run of e durable and opens it, with what the rows say filled in. The
// head does not list it yet. There is none if there are no rows.
func (t *Table) writeRun(e entry, rows iter.Seq2[sorttable.Row, error]) (*run, error) {
	if err := t.firstHead(); err != nil {
		return nil, err
	}
	base, m := runName(e.number), meta{e.number, t.Generation(), e.first, e.last}
	stats, err := sorttable.WriteRows(t.fs, t.path(base), m.bytes(), func(yield func(sorttable.Row, error) bool) {
		for row, err := range rows {
			if err == nil {
				e.count(row.Key)
			}
			if !yield(row, err) {
				return
			}
		}
	})
	e.bytes = uint64(stats.FileBytes)
	var r *run
	if err == nil {
		err = t.fs.SyncDir(t.dir)
	}
	if err == nil && e.rows > 0 {
		r, err = openRun(t.fs, t.path(base), e)
	}
	if r == nil {
		_ = t.fs.Remove(t.path(base)) // else the next Open does it: no head lists it
	}
	return r, err
}

// firstHead makes sure that there is a head before there is a run, so that one that is gone
// is seen to be gone.
func (t *Table) firstHead() error {
	if !t.writer.headless {
		return nil
	}
	h := t.view.Load().head.clone()
	if err := writeHead(t.fs, t.dir, h); err != nil {
		return err
	}
	t.writer.headless = false
	return nil
}

// commit makes h the head and shows it, with its runs, to readers. After an error they see
// what they saw, and which head is on the disk is not known: files that h lists stay until
// another head is.
func (t *Table) commit(h head, runs []*run) error {
	h.generation = t.nextNumber()
	if err := writeHead(t.fs, t.dir, h); err != nil {
		for _, r := range runs {
			if !slices.Contains(t.view.Load().runs, r) {
				t.writer.garbage = append(t.writer.garbage, garbage{base: runName(r.number)})
			}
		}
		return err
	}
	t.writer.headless, t.writer.changed = false, false
	t.view.Store(&view{head: h, runs: runs})
	t.collect()
	return nil
}

// collect removes what no durable head lists. What cannot be removed is tried again.
func (t *Table) collect() {
	left := t.writer.garbage[:0]
	for _, g := range t.writer.garbage {
		var err error
		if g.bad {
			err = t.fs.Rename(t.path(g.base), t.path(badName(g.base)))
		} else {
			err = t.fs.Remove(t.path(g.base))
		}
		if err != nil && !isDamage(err) {
			left = append(left, g)
		}
	}
	t.writer.garbage = left
}
