package retired

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// Report says what Open met.
type Report struct {
	// Damage is what is wrong, file by file. Each is ErrDamaged.
	Damage []error
	// Lost says that rows were lost, of producers with ids up to LostUpTo. ForgottenUpTo
	// covers them already.
	Lost     bool
	LostUpTo batchfmt.ProducerID
	// Everything says that it is not known how much was lost: LostUpTo is Options.Issued, or
	// every id there can be.
	Everything bool
	// Removed are the files that a crash had left.
	Removed []string
}

// Open opens the table in dir, which must exist; a table that is not there is an empty one,
// and no file is made for it before the first Put. It removes what a crash left and puts
// damaged runs aside. Damage is no error: it stands in the report, and what the table
// answers from then on takes it into account, after later restarts too. The error is the
// disk's.
func Open(fsys vfs.FS, dir string, opts Options) (*Table, Report, error) {
	t := &Table{fs: fsys, dir: dir, opts: opts.withDefaults()}
	o := opener{t: t}
	if err := o.open(); err != nil {
		_ = closeRuns(o.runs)
		return nil, Report{}, fmt.Errorf("open retired table in %s: %w", dir, err)
	}
	return t, o.report, nil
}

// opener is an Open on its way.
type opener struct {
	t      *Table
	files  files
	head   head
	runs   []*run
	report Report
}

func (o *opener) open() error {
	t := o.t
	bases, err := t.fs.List(t.dir)
	if err != nil {
		return err
	}
	o.files = sortNames(bases)
	var notes []error
	o.head, notes, err = readHead(t.fs, t.dir)
	o.report.Damage = notes
	t.writer.headless = errors.Is(err, fs.ErrNotExist)
	switch {
	case t.writer.headless && o.files.highest == 0:
		o.head, err = newHead(), nil
		o.removeLeft()
	case err == nil:
		if err = o.isNewest(); err == nil {
			err = o.listed()
		}
	}
	if isDamage(err) {
		o.report.Damage = append(o.report.Damage, damaged(err))
		err = o.unlisted()
		o.loseEverything()
	}
	if err != nil {
		return err
	}
	if g := o.head.generation; g < t.opts.AtLeast {
		o.report.Damage = append(o.report.Damage, damaged(fmt.Errorf("generation %d, it was at least %d", g, t.opts.AtLeast)))
		o.loseEverything()
	}
	t.writer.number = max(o.files.highest, o.head.generation, t.opts.AtLeast)
	t.writer.changed = len(o.report.Damage) > 0
	t.view.Store(&view{head: o.head, runs: o.runs})
	return nil
}

// isNewest looks for runs that the head does not know. One that was made under a later head
// shows that this is an old one. One that does not verify may have been: it had its name when
// it was whole. Else it is what a crash left.
func (o *opener) isNewest() error {
	for _, n := range o.files.runs {
		if n <= o.head.generation {
			continue
		}
		r, m, err := foundRun(o.t.fs, o.t.path(runName(n)), n)
		switch {
		case err == nil && m.base > o.head.generation:
			return errors.Join(damaged(fmt.Errorf("%s: generation %d is not the last, there was %d", headName, o.head.generation, m.base)), r.table.Close())
		case err == nil:
			err = r.table.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// listed opens the runs of the head and removes all others.
func (o *opener) listed() error {
	kept := o.head.runs[:0:0]
	for _, e := range o.head.runs {
		ok, err := o.take(e)
		if err != nil {
			return err
		}
		if ok {
			kept = append(kept, e)
			continue
		}
		o.head.lose(e)
		o.report.Lost, o.report.LostUpTo = true, max(o.report.LostUpTo, e.highest)
	}
	for _, n := range o.files.runs {
		if !slices.ContainsFunc(o.head.runs, func(e entry) bool { return e.number == n }) {
			o.files.temps = append(o.files.temps, runName(n))
		}
	}
	o.head.runs = kept
	o.removeLeft()
	return nil
}

// take opens a run, or puts it aside and reports false.
func (o *opener) take(e entry) (bool, error) {
	r, err := openRun(o.t.fs, o.t.path(runName(e.number)), e)
	switch {
	case err == nil:
		o.runs = append(o.runs, r)
		return true, nil
	case !isDamage(err):
		return false, err
	}
	o.setAside(e.number, err)
	return false, nil
}

// setAside gives a damaged run another name. Should it keep its own, the next Open finds the
// same.
func (o *opener) setAside(number uint64, err error) {
	o.report.Damage = append(o.report.Damage, damaged(err))
	base := runName(number)
	_ = o.t.fs.Rename(o.t.path(base), o.t.path(badName(base)))
}

// unlisted makes a head of the runs that are there, since there is none that can be believed.
// Runs that a merge has replaced may be among them; they hold nothing that was not true.
func (o *opener) unlisted() error {
	o.head = newHead()
	o.head.generation = o.files.highest
	for _, n := range o.files.runs {
		r, _, err := foundRun(o.t.fs, o.t.path(runName(n)), n)
		switch {
		case err == nil && r.rows > 0:
			r.highest = max(o.t.everything(), r.highest)
			o.runs = append(o.runs, r)
			o.head.serial = max(o.head.serial, r.last+1)
		case err == nil:
			err = r.table.Close()
		case isDamage(err):
			o.setAside(n, err)
			err = nil
		}
		if err != nil {
			return err
		}
	}
	slices.SortFunc(o.runs, func(a, b *run) int {
		return cmp.Or(cmp.Compare(a.last, b.last), cmp.Compare(a.number, b.number))
	})
	o.runs = o.runs[max(0, len(o.runs)-mostRuns):] // a table of ours has not so many
	for _, r := range o.runs {
		o.head.runs = append(o.head.runs, r.entry)
	}
	o.removeLeft()
	return nil
}

// loseEverything is for when a run may be missing that nothing remembers.
func (o *opener) loseEverything() {
	all := o.t.everything()
	for _, e := range o.head.runs {
		all = max(all, e.highest)
	}
	all = max(all, o.head.forgotten)
	o.head.forgotten = all
	o.head.stale.raise(o.head.serial-1, all)
	o.report.Lost, o.report.Everything, o.report.LostUpTo = true, true, all
}

// everything is the highest id that can have been retired.
func (t *Table) everything() batchfmt.ProducerID {
	if t.opts.Issued == 0 {
		return maxID
	}
	return plain(t.opts.Issued)
}

// removeLeft removes what a crash left. What cannot be removed is left to the next Open.
func (o *opener) removeLeft() {
	for _, base := range o.files.temps {
		if o.t.fs.Remove(o.t.path(base)) == nil {
			o.report.Removed = append(o.report.Removed, base)
		}
	}
}

func closeRuns(runs []*run) error {
	var errs []error
	for _, r := range runs {
		errs = append(errs, r.table.Close())
	}
	return errors.Join(errs...)
}
