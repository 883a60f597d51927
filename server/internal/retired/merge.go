package retired

import (
	"iter"
	"slices"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/planted"
	"github.com/quoin-io/quoin/server/internal/sorttable"
)

// merger makes one run of several.
type merger struct {
	t      *Table
	in     []*run // neighbours, the oldest first
	newer  []*run
	head   head            // gets what is lost or dropped
	bad    map[uint64]bool // numbers of runs that could not be read in full
	drops  bool            // rows that are void or too many are left out
	cutoff uint64          // serial below which rows that are not named are too many
}

// merge carries p out.
func (t *Table) merge(p plan) error {
	v := t.view.Load()
	m := &merger{t: t, in: v.runs[p.from:p.to], newer: v.runs[p.to:], head: v.head.clone(), bad: map[uint64]bool{}, drops: p.drop > 0}
	e := entry{number: t.nextNumber(), first: m.in[0].first, last: m.in[len(m.in)-1].last}
	for _, r := range m.in {
		e.first = min(e.first, r.first)
	}
	if m.drops {
		if err := m.findCutoff(e, p.drop); err != nil {
			return err
		}
	}
	out, err := t.writeRun(e, m.rows())
	if err != nil {
		return err
	}
	runs, entries := slices.Clone(v.runs[:p.from]), slices.Clone(v.head.runs[:p.from])
	if out != nil {
		runs, entries = append(runs, out), append(entries, out.entry)
	}
	m.head.runs = append(entries, v.head.runs[p.to:]...)
	if planted.ForgottenNotRemembered {
		m.head.forgotten = v.head.forgotten
	}
	var replaced []garbage
	for _, r := range m.in {
		replaced = append(replaced, garbage{base: runName(r.number), bad: m.bad[r.number]})
	}
	if planted.MergeRemovesFirst {
		t.writer.garbage = append(t.writer.garbage, replaced...)
		t.collect()
	}
	if err := t.commit(m.head, append(runs, m.newer...)); err != nil {
		return err
	}
	t.writer.garbage = append(t.writer.garbage, replaced...)
	t.collect()
	return nil
}

// rows gives what goes into the new run.
func (m *merger) rows() iter.Seq2[sorttable.Row, error] {
	return func(yield func(sorttable.Row, error) bool) {
		for row, err := range m.merged(m.hole) {
			keep := err == nil
			if keep {
				row.Key = m.named(row.Key)
				keep, err = m.keep(row.Key)
			}
			if (keep || err != nil) && !yield(row, err) {
				return
			}
		}
	}
}

// named takes the mark of a name off that does not exist any more.
func (m *merger) named(k sorttable.Key) sorttable.Key {
	if k.B&1 != 0 && !m.t.opts.Named(batchfmt.ProducerID(k.A)) {
		k.B &^= 1
	}
	return k
}

// keep decides about a row. One that goes though no newer one makes it void is forgotten.
func (m *merger) keep(k sorttable.Key) (bool, error) {
	if !m.drops {
		return true, nil
	}
	void, err := m.void(k)
	if err != nil || void {
		return false, err
	}
	if k.B&1 != 0 || k.B>>1 >= m.cutoff {
		return true, nil
	}
	m.head.forgotten = max(m.head.forgotten, plain(batchfmt.ProducerID(k.A)))
	return false, nil
}

// void reports whether a newer run has a row of the same producer for certain.
func (m *merger) void(k sorttable.Key) (bool, error) {
	for _, r := range m.newer {
		row, ok, err := r.find(batchfmt.ProducerID(k.A))
		switch {
		case err != nil && !isDamage(err):
			return false, err
		case err == nil && ok && row.Key.B > k.B:
			return true, nil
		}
	}
	return false, nil
}

// hole takes note of rows of r, with ids up to highest, that cannot be read.
func (m *merger) hole(r *run, highest batchfmt.ProducerID, err error) {
	m.bad[r.number] = true
	m.head.hole(r.first, highest)
	m.t.opts.OnDamage(damaged(err))
}

// cutoffSteps is into how many parts findCutoff divides the serials: what is dropped may be
// over the aim by the rows of one part.
const cutoffSteps = 1024

// findCutoff reads everything once and finds the serial below which rows go, so that of those
// that are too many, void ones included, none is left. If the void ones are enough, none else
// goes.
func (m *merger) findCutoff(e entry, drop uint64) error {
	width := (e.last-e.first)/cutoffSteps + 1
	var loose [cutoffSteps + 1]uint64
	seen, kept := uint64(0), uint64(0)
	for _, r := range m.in {
		seen += r.rows - r.named
	}
	for row, err := range m.merged(func(*run, batchfmt.ProducerID, error) {}) {
		if err != nil {
			return err
		}
		k := m.named(row.Key)
		void, err := m.void(k)
		if err != nil {
			return err
		}
		if serial := k.B >> 1; !void && k.B&1 == 0 && serial >= e.first && serial <= e.last {
			loose[(serial-e.first)/width]++
			kept++
		}
	}
	aim := seen - min(seen, drop) // so many may stay
	for i := 0; kept > aim; i++ {
		kept -= loose[i]
		m.cutoff = e.first + uint64(i+1)*width
	}
	return nil
}

// merged gives the rows of all inputs by rising id, of each producer the one that was put
// last.
func (m *merger) merged(hole func(*run, batchfmt.ProducerID, error)) iter.Seq2[sorttable.Row, error] {
	return func(yield func(sorttable.Row, error) bool) {
		inputs := make([]*input, 0, len(m.in))
		for _, r := range m.in {
			next, stop := iter.Pull2(r.scan(func(highest batchfmt.ProducerID, err error) { hole(r, highest, err) }))
			defer stop()
			inputs = append(inputs, &input{next: next})
		}
		for {
			best, err := lowest(inputs)
			if err != nil {
				yield(sorttable.Row{}, err)
				return
			}
			if best == nil {
				return
			}
			best.full = false
			if !best.followed(inputs) && !yield(best.row, nil) {
				return
			}
		}
	}
}

// input is a run that is being merged, and its next row.
type input struct {
	next func() (sorttable.Row, error, bool)
	row  sorttable.Row
	full bool // row is the next one
	done bool
}

// lowest is the input with the lowest key next, or nil at the end of all.
func lowest(inputs []*input) (*input, error) {
	var best *input
	for _, in := range inputs {
		if !in.full && !in.done {
			row, err, ok := in.next()
			if err != nil {
				return nil, err
			}
			in.row, in.full, in.done = row, ok, !ok
		}
		if in.full && (best == nil || in.row.Key.Compare(best.row.Key) < 0) {
			best = in
		}
	}
	return best, nil
}

// followed reports whether another input has a row of the same producer next, a later one then.
func (in *input) followed(inputs []*input) bool {
	return slices.ContainsFunc(inputs, func(o *input) bool { return o.full && o.row.Key.A == in.row.Key.A })
}
