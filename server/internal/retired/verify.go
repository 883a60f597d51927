package retired

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// FindingKind says what a [Finding] means.
type FindingKind string

const (
	// FoundDamage is something that cannot be read any more, or that is gone.
	FoundDamage FindingKind = "damage"
	// FoundLeftover is what a killed server left. Open removes it.
	FoundLeftover FindingKind = "leftover"
	// FoundAside is a damaged run that was put aside before. Nothing reads it.
	FoundAside FindingKind = "put aside"
)

// A Finding is one thing that [Verify] has to say.
type Finding struct {
	Kind   FindingKind
	File   string // base name
	Reason string
}

func (f Finding) String() string { return fmt.Sprintf("%s: %s: %s", f.Kind, f.File, f.Reason) }

// Summary is what [Verify] has seen.
type Summary struct {
	Files      []string // all of the table, sorted
	Generation uint64
	Runs       int // that the head lists
	Rows       int64
	Bytes      int64
	Forgotten  batchfmt.ProducerID
	Findings   int
}

// Verify reads everything of the table in dir, which nobody has open, and changes nothing. It
// checks all checksums, and that head and runs say the same. visit is called for each finding
// and may be nil. No table at all is an empty one. The error is the disk's.
func Verify(fsys vfs.FS, dir string, visit func(Finding)) (Summary, error) {
	v := verifier{fs: fsys, dir: dir, visit: visit}
	if err := v.run(); err != nil {
		return v.sum, fmt.Errorf("verify retired table in %s: %w", dir, err)
	}
	return v.sum, nil
}

type verifier struct {
	fs    vfs.FS
	dir   string
	visit func(Finding)
	sum   Summary
}

func (v *verifier) found(kind FindingKind, file, format string, args ...any) {
	v.sum.Findings++
	if v.visit != nil {
		v.visit(Finding{kind, file, fmt.Sprintf(format, args...)})
	}
}

func (v *verifier) run() error {
	bases, err := v.fs.List(v.dir)
	if err != nil {
		return err
	}
	for _, base := range bases {
		if Owns(base) {
			v.sum.Files = append(v.sum.Files, base)
		}
	}
	found := sortNames(bases)
	h, notes, err := readHead(v.fs, v.dir)
	for _, n := range notes {
		v.found(FoundDamage, headName, "%v", n)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && found.highest == 0:
		err = nil
	case isDamage(err):
		v.found(FoundDamage, headName, "nothing says which runs there should be: %v", err)
	case err != nil:
		return err
	}
	v.sum.Generation, v.sum.Forgotten, v.sum.Runs = h.generation, h.forgotten, len(h.runs)
	for _, e := range h.runs {
		if err := v.listed(e); err != nil {
			return err
		}
	}
	if err == nil {
		v.unlisted(found, h)
	}
	return nil
}

// listed checks one run, all of it.
func (v *verifier) listed(e entry) error {
	base := runName(e.number)
	v.sum.Rows, v.sum.Bytes = v.sum.Rows+int64(e.rows), v.sum.Bytes+int64(e.bytes)
	r, err := openRun(v.fs, filepath.Join(v.dir, base), e)
	if err == nil {
		err = errors.Join(r.verify(), r.table.Close())
	}
	if isDamage(err) {
		v.found(FoundDamage, base, "%d rows of producers up to %d: %v", e.rows, e.highest, err)
		err = nil
	}
	return err
}

// verify reads the whole run and holds its rows against the head.
func (r *run) verify() error {
	if err := r.table.Verify(); err != nil {
		return err
	}
	before := uint64(0)
	for row, err := range r.table.All() {
		switch serial := row.Key.B >> 1; {
		case err != nil:
			return err
		case row.Key.A <= before:
			return damaged(fmt.Errorf("producer %d stands behind %d", row.Key.A, before))
		case serial < r.first || serial > r.last || plain(batchfmt.ProducerID(row.Key.A)) > r.highest:
			return damaged(fmt.Errorf("producer %d with serial %d is out of the run's range", row.Key.A, serial))
		}
		before = row.Key.A
	}
	return nil
}

// unlisted names the files that nothing lists.
func (v *verifier) unlisted(found files, h head) {
	for _, base := range v.sum.Files {
		n, isRun := numberOf(base, runSuffix)
		_, isBad := numberOf(base, badSuffix)
		switch {
		case isBad:
			v.found(FoundAside, base, "it was damaged")
		case slices.Contains(found.temps, base):
			v.found(FoundLeftover, base, "it was being written")
		case isRun && !slices.ContainsFunc(h.runs, func(e entry) bool { return e.number == n }):
			v.found(FoundLeftover, base, "the head does not list it")
		}
	}
}
