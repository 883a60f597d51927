package seglog

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// Recovery is what Open found.
type Recovery struct {
	Start, End    Offset        // the records are [Start, End)
	LastTerm      batchfmt.Term // of the last batch; 0 if the log has none
	MaxAppendTime int64         // Unix milliseconds; 0 if the log has no batch
	Cut           *Cut          // what was taken off the end, or nil
	Segments      int
	Walked        int64 // bytes of batches that were checked one by one
	Reindexed     int   // old segments whose index was missing or wrong
	// IndexError says why an index could not be written. The log works without.
	IndexError error
}

// Cut is what recovery took off the end of the last segment: something that was never
// acknowledged, as far as anything that is left can tell.
type Cut struct {
	Segment  string // name of the file
	Offset   Offset // the first offset that is gone
	Position int64  // the length of the file now
	Bytes    int64  // that were taken off, without the zeros at their end
	Reason   string
}

// surveyed is one segment as the first half of recovery sees it.
type surveyed struct {
	base     Offset
	check    uint64
	begun    bool // the header verifies; false only for a roll that was cut short
	fileSize int64
	walked         // bad is why there is a cut, or empty
	from     int64 // where the walk began
	reindex  bool  // the index on disk cannot be used
	dataEnd  int64 // position behind the last byte that is not zero, if there is a cut
}

type recovery struct {
	fs    vfs.FS
	dir   string
	cfg   Config
	bases []Offset
	tmps  []string
	segs  []surveyed
	info  Recovery
}

// Open opens the log in dir, or makes it. It follows the numbered steps of the package
// comment. Damage of what may have been acknowledged is a *CorruptError, and then nothing
// was changed.
func Open(fs vfs.FS, dir string, c Config) (*Log, Recovery, error) {
	r := &recovery{fs: fs, dir: dir, cfg: c.withDefaults()}
	l, err := r.run()
	if err != nil {
		return nil, Recovery{}, fmt.Errorf("open log %s: %w", dir, err)
	}
	return l, r.info, nil
}

func (r *recovery) run() (*Log, error) {
	if err := vfs.MakeDir(r.fs, r.dir); err != nil { // step 1
		return nil, err
	}
	if err := r.list(); err != nil { // step 2
		return nil, err
	}
	var before segEnd
	for i := range r.bases { // steps 3 to 5
		s, err := r.survey(i, before)
		if err != nil {
			return nil, err
		}
		r.segs = append(r.segs, s)
		before = s.end
	}
	return r.settle() // steps 6 to 8
}

// list sorts the names in the directory. Names that mean nothing here are left alone.
func (r *recovery) list() error {
	names, err := r.fs.List(r.dir)
	if err != nil {
		return err
	}
	have := map[Offset]bool{}
	for _, name := range names {
		if base, ok := parseName(name, segSuffix); ok {
			r.bases = append(r.bases, base) // sorted, as the names have one length
			have[base] = true
		}
		if _, ok := parseName(name, idxSuffix+tmpSuffix); ok {
			r.tmps = append(r.tmps, name)
		}
	}
	for _, name := range names {
		if base, ok := parseName(name, idxSuffix); ok && !have[base] {
			return &CorruptError{Segment: segName(base), Offset: base, Reason: "the segment is missing, its index is there"}
		}
	}
	return nil
}

// survey looks at segment i without changing anything; before is where the one before
// it ends.
func (r *recovery) survey(i int, before segEnd) (s surveyed, err error) {
	base := r.bases[i]
	if i > 0 && base != before.next {
		return s, &CorruptError{
			Segment: segName(r.bases[i-1]), Offset: before.next, Position: before.size, Next: base,
			Reason: fmt.Sprintf("it ends at offset %d, the next segment begins at %d", before.next, base),
		}
	}
	f, err := r.fs.Open(filepath.Join(r.dir, segName(base)))
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	last := i == len(r.bases)-1
	s = surveyed{base: base}
	if s.fileSize, err = f.Size(); err != nil {
		return s, err
	}
	w := &window{f: f, end: s.fileSize, chunk: walkBytes}
	header, err := w.at(0, segHeaderSize)
	if err != nil {
		return s, err
	}
	h, headerErr := parseSegHeader(header, base)
	s.end = segEnd{next: base, size: segHeaderSize, term: before.term, lastTime: before.lastTime}
	if headerErr != nil {
		return s, r.unbegun(&s, w, i, headerErr)
	}
	s.begun, s.check = true, h.check
	return s, r.inspect(&s, f, w, last)
}

// unbegun decides about a segment whose header does not verify (step 4). Only the last
// one, with nothing in it, can be a roll that was cut short; and only when it has a
// predecessor or is the first of all, since nothing else is ever begun.
func (r *recovery) unbegun(s *surveyed, w *window, i int, why error) error {
	empty, err := w.onlyZeros(segHeaderSize)
	if err != nil {
		return err
	}
	_, idxErr := readIndex(r.fs, r.dir, s.base)
	if i != len(r.bases)-1 || !empty || i == 0 && s.base != 0 || idxErr == nil {
		return &CorruptError{Segment: segName(s.base), Offset: s.base, Reason: why.Error()}
	}
	s.bad = why.Error()
	s.dataEnd, err = w.lastNonZero(0)
	return err
}

// inspect finds the end of a segment that has a header (steps 3 and 5).
func (r *recovery) inspect(s *surveyed, f vfs.File, w *window, last bool) error {
	start := s.end
	x, err := readIndex(r.fs, r.dir, s.base)
	bound := err == nil && x.check == s.check
	trusted := false
	if bound {
		if trusted, err = r.agrees(f, x, start, s.fileSize); err != nil {
			return err
		}
	}
	var entries []entry
	from := start
	if trusted {
		from, entries = x.end, x.entries
	}
	if last && from.size < s.fileSize {
		// An earlier process may have seen a sync fail and left the system with pages that
		// it takes for written. Only what the disk gives back counts.
		if err := errors.Join(f.Sync(), vfs.DropCache(f)); err != nil {
			return err
		}
	}
	s.from, s.reindex = from.size, !trusted
	if s.walked, err = walk(w, from, entries, r.cfg.IndexEvery); err != nil {
		return err
	}
	if bound && (x.end.next > s.end.next || x.end.size > s.end.size) {
		why := fmt.Sprintf("its index says that offsets below %d, byte %d, were synced", x.end.next, x.end.size)
		return s.damage(x.entries, why)
	}
	if s.bad == "" {
		return nil
	}
	return r.judge(s, w, last)
}

// judge decides whether a bad place is damage or a torn end (step 5).
func (r *recovery) judge(s *surveyed, w *window, last bool) error {
	if !last {
		return s.damage(nil, "the segment was synced before the next one was begun")
	}
	synced, err := evidence(w, s.end)
	if err != nil {
		return err
	}
	if synced != "" {
		return s.damage(nil, synced)
	}
	s.dataEnd, err = w.lastNonZero(s.end.size)
	return err
}

func (s *surveyed) damage(entries []entry, why string) error {
	c := &CorruptError{Segment: segName(s.base), Offset: s.end.next, Position: s.end.size, Reason: why}
	if s.bad != "" {
		c.Reason = s.bad + "; " + why
	}
	if e, ok := after(entries, s.end.size); ok && e.offset > c.Offset {
		c.Next = e.offset
	}
	return c
}

// agrees says whether an index can stand for the walk up to its end: the batches behind
// its last entry must lead exactly to what it says.
func (r *recovery) agrees(f vfs.File, x index, start segEnd, fileSize int64) (bool, error) {
	if x.end.size > fileSize {
		return false, nil
	}
	from := start
	if n := len(x.entries); n > 0 {
		from.next, from.size = x.entries[n-1].offset, x.entries[n-1].pos
	}
	w := &window{f: f, end: x.end.size, chunk: lookBytes}
	got, err := walk(w, from, nil, r.cfg.IndexEvery)
	return err == nil && got.bad == "" && got.end == x.end, err
}
