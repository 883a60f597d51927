package seglog

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/planted"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// Recovery is what Open found.
type Recovery struct {
	Start, End    Offset        // the records are [Start, End), but for what is damaged
	LastTerm      batchfmt.Term // of the last batch; 0 if the log has none
	MaxAppendTime int64         // Unix milliseconds; 0 if the log has no batch
	// Damage is what was stored and cannot be read, as far as Open came to see it.
	Damage    []DamagedRange
	Cut       *Cut // what was taken off the end, or nil
	Segments  int
	Walked    int64 // bytes of batches that were checked one by one
	Rewritten int64 // bytes of batches at the end that were not known to be synced, and were written anew
	Reindexed int   // old segments whose index was missing or wrong
	// IndexError says why an index could not be written. The log works without.
	IndexError error
}

// Cut is what recovery took off the end of the last segment: something that was never
// acknowledged, as far as anything that is left can tell.
type Cut struct {
	Segment  string // name of the file
	Offset   Offset // the first offset that is gone
	Position int64  // in that file, in bytes
	Bytes    int64  // that were taken off, without the zeros at their end
	Reason   string
}

// surveyed is one segment as the first half of recovery sees it.
type surveyed struct {
	base     Offset
	check    uint64
	head     string // why the header does not verify, or empty
	missing  bool
	fileSize int64
	start    segEnd
	verdict
	from     int64 // where the walk began
	sealed   bool  // it has had a successor all along
	indexed  bool  // the index on disk can be used
	leftover bool  // what stands behind the end is a copy of the next segment's, or junk
	proven   segEnd
	dataEnd  int64 // position behind the last byte that is not zero, if there is a cut
}

type recovery struct {
	fs      vfs.FS
	dir     string
	cfg     Config
	bases   []Offset
	orphans []Offset // indexes without a segment
	tmps    []string
	segs    []surveyed
	claimed Offset // the caller, or an index without a segment behind all others, says that it was synced up to here
	info    Recovery
}

// Open opens the log in dir, or makes it. It follows the numbered steps of the package
// comment. What is damaged stays where it is: the log opens around it and says so in
// Recovery.Damage. Where nothing tells how far what was stored went, the error is a
// *CorruptError, and then nothing was changed.
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
	if err := r.surveyAll(); err != nil { // steps 3 to 6
		return nil, err
	}
	return r.settle() // steps 7 to 11
}

func (r *recovery) surveyAll() error {
	var before segEnd
	for i := range r.bases {
		s, err := r.survey(i, before)
		if err != nil {
			return err
		}
		r.segs = append(r.segs, s)
		before = s.end
	}
	return nil
}

// list sorts the names in the directory. Names that mean nothing here are left alone.
func (r *recovery) list() error {
	names, err := r.fs.List(r.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if base, ok := parseName(name, segSuffix); ok {
			r.bases = append(r.bases, base) // sorted, as the names have one length
		}
		if isTmp(name) {
			r.tmps = append(r.tmps, name)
		}
	}
	for _, name := range names {
		base, ok := parseName(name, idxSuffix)
		if ok && !slices.Contains(r.bases, base) {
			r.orphans = append(r.orphans, base)
		}
	}
	return r.adopt()
}

// adopt makes of indexes whose segments are gone what they tell: the log began there, or it
// went on there. In the middle the segments around them tell as much.
func (r *recovery) adopt() error {
	r.claimed = r.cfg.Durable
	if len(r.orphans) == 0 {
		if len(r.bases) == 0 && r.claimed > 0 {
			r.segs = append(r.segs, gone(0, r.claimed))
		}
		return nil
	}
	first, last := r.orphans[0], r.orphans[len(r.orphans)-1]
	if n := len(r.bases); n == 0 || last > r.bases[n-1] {
		x, err := readIndex(r.fs, r.dir, last)
		if err != nil {
			return &CorruptError{
				Segment: segName(last), Offset: last,
				Reason: fmt.Sprintf("the segment is missing and nothing tells how far it went: %v", err),
			}
		}
		r.claimed = max(r.claimed, x.end.next)
	}
	switch {
	case len(r.bases) == 0:
		r.segs = append(r.segs, gone(first, r.claimed))
	case first < r.bases[0]:
		r.segs = append(r.segs, gone(first, r.bases[0]))
	}
	return nil
}

// gone is a segment of which only the name is known.
func gone(base, next Offset) surveyed {
	s := surveyed{base: base, missing: true, from: segHeaderSize}
	h := hole{from: base, next: next, pos: segHeaderSize, end: segHeaderSize, reason: "the segment is missing"}
	s.holes = []hole{h}
	s.end = h.behind(segEnd{next: base, size: segHeaderSize})
	s.proven = s.end
	return s
}

// survey looks at segment i without changing anything; before is where the one before
// it ends.
func (r *recovery) survey(i int, before segEnd) (s surveyed, err error) {
	base := r.bases[i]
	f, err := r.fs.Open(filepath.Join(r.dir, segName(base)))
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	s = surveyed{base: base, sealed: i < len(r.bases)-1}
	if !s.sealed && !planted.TrustUnsyncedTail {
		// An earlier process may have seen a sync fail and left the system with pages, and
		// a length, that it takes for written. Only what the disk gives back counts.
		if err := errors.Join(f.Sync(), vfs.DropCache(f)); err != nil {
			return s, err
		}
	}
	if s.fileSize, err = f.Size(); err != nil {
		return s, err
	}
	w := &window{f: f, end: s.fileSize, chunk: walkBytes}
	header, err := w.at(0, segHeaderSize)
	if err != nil {
		return s, err
	}
	if h, err := parseSegHeader(header, base); isNewer(err) {
		return s, err
	} else if err != nil {
		s.head = err.Error()
	} else {
		s.check = h.check
	}
	start := segEnd{next: base, size: segHeaderSize, term: before.term, lastTime: before.lastTime}
	s.start = start
	if !s.sealed {
		return s, r.surveyLast(&s, f, w, start)
	}
	return s, r.surveySealed(&s, f, w, start, r.bases[i+1])
}

// surveySealed looks at a segment with a successor: everything below the successor's start
// was synced before there was one (step 3).
func (r *recovery) surveySealed(s *surveyed, f vfs.File, w *window, start segEnd, limit Offset) error {
	x, bound, err := r.index(s, f, start)
	if err != nil {
		return err
	}
	if s.indexed && x.end.next == limit && x.end.size == s.fileSize {
		s.end, s.entries, s.from = x.end, x.entries, x.end.size
		return nil
	}
	s.from, s.indexed = start.size, false
	wr := newWalker(w, start, limit, r.cfg.IndexEvery)
	if bound {
		wr.marks = x.entries
	}
	if err := wr.walk(); err != nil {
		return r.hopeless(s, wr.end, err)
	}
	s.verdict = judge(wr.walked, limit, s.fileSize)
	s.cut = ""
	if wr.full == (segEnd{}) || wr.over == nil && wr.end == wr.full {
		return nil
	}
	own := int64(0)
	if bound && x.end.next == limit && x.end.size >= wr.full.size {
		own = x.end.size
	}
	return r.superseded(s, w, wr, own)
}

// superseded decides about what stands behind the place where a segment comes to the start of
// the next one (step 4). own is the size of the segment if an index says so, else 0. Control
// batches may stand there that are the segment's own, and what a recovery has copied to the
// next segment, or cut, before it was killed.
func (r *recovery) superseded(s *surveyed, w *window, wr *walker, own int64) error {
	if own > 0 && wr.end.size > own {
		// The index may be older than control batches of the segment's own: a roll does without one.
		same, err := r.begins(wr.limit, w, own, wr.end.size)
		if err != nil {
			return err
		}
		if !same {
			own = 0
		}
	}
	if own > 0 {
		if wr.end.size > own {
			s.end, s.entries = wr.full, wr.entries[:wr.entered]
			s.end.size = own // no record stands there, only control batches
		} else if wr.end.size < own {
			s.addHole(own, wr.over)
		}
		s.leftover = s.end.size < s.fileSize
		return nil
	}
	rest := newWalker(w, wr.full, noLimit, r.cfg.IndexEvery)
	if _, err := rest.stretch(); err != nil {
		return err
	}
	same, err := r.begins(wr.limit, w, wr.full.size, rest.end.size)
	switch {
	case err != nil:
		return err
	case same && rest.end.size > wr.full.size:
		s.end, s.entries, s.leftover = wr.full, wr.entries[:wr.entered], true
	case rest.end.next > wr.limit:
		return &CorruptError{
			Segment: segName(s.base), Offset: wr.limit, Position: wr.full.size,
			Reason: fmt.Sprintf("it has other batches than segment %s for the same offsets", segName(wr.limit)),
		}
	case wr.over != nil:
		s.addHole(s.fileSize, wr.over)
	}
	return nil
}

// addHole makes a hole of what is left of a segment, in which no record can stand.
func (s *surveyed) addHole(end int64, why error) {
	if end <= s.end.size {
		return
	}
	h := hole{from: s.end.next, next: s.end.next, pos: s.end.size, end: end, reason: "it ends too early"}
	if why != nil {
		h.reason = why.Error()
	}
	s.holes, s.end = append(s.holes, h), h.behind(s.end)
}

// begins reports whether the batches of a segment begin with the bytes [from, to) of w.
func (r *recovery) begins(base Offset, w *window, from, to int64) (same bool, err error) {
	f, err := r.fs.Open(filepath.Join(r.dir, segName(base)))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil || size < segHeaderSize+to-from {
		return false, err
	}
	other := &window{f: f, end: size, chunk: walkBytes}
	for pos := from; pos < to; {
		n := int(min(to-pos, walkBytes))
		a, err := w.at(pos, n)
		if err != nil {
			return false, err
		}
		b, err := other.at(segHeaderSize+pos-from, n)
		if err != nil || string(a) != string(b) {
			return false, err
		}
		pos += int64(n)
	}
	return true, nil
}

// surveyLast looks at the segment where the log ends (steps 5 and 6).
func (r *recovery) surveyLast(s *surveyed, f vfs.File, w *window, start segEnd) error {
	x, bound, err := r.index(s, f, start)
	if err != nil {
		return err
	}
	from, entries := start, []entry(nil)
	if s.indexed {
		from, entries = x.end, x.entries
	}
	s.from = from.size
	wr := newWalker(w, from, noLimit, r.cfg.IndexEvery)
	wr.entries = entries
	durable := max(s.base, r.claimed)
	if bound {
		durable = max(durable, x.end.next)
		if !s.indexed {
			wr.marks = x.entries
		}
	}
	if err := wr.walk(); err != nil {
		return r.hopeless(s, wr.end, err)
	}
	durable = max(durable, wr.durable)
	s.verdict = judge(wr.walked, durable, s.fileSize)
	if s.head != "" && s.end.size == segHeaderSize {
		if err := r.headless(s, w); err != nil {
			return err
		}
	}
	if s.cut != "" {
		if s.dataEnd, err = w.lastNonZero(s.end.size); err != nil {
			return err
		}
	}
	return r.prove(s, w, from, durable)
}

// headless decides about a last segment whose header does not verify and of which nothing
// would be kept. The header was synced before anything was appended, so a bad one is damage
// as soon as there is anything behind it, and nothing tells how far what stood there went.
func (r *recovery) headless(s *surveyed, w *window) error {
	zeros, err := w.onlyZeros(segHeaderSize)
	if err != nil {
		return err
	}
	if zeros && (s.base == 0 || len(r.segs) > 0) {
		return nil // a roll that a crash cut short
	}
	return &CorruptError{Segment: segName(s.base), Offset: s.base, Reason: s.head + ", and nothing tells what was in the segment"}
}

// prove finds out up to where the last segment is known to be synced. A batch that is known
// to be synced in part is known as a whole, and what is behind a hole begins a new segment.
func (r *recovery) prove(s *surveyed, w *window, from segEnd, durable Offset) error {
	for _, h := range s.holes {
		durable = max(durable, h.next)
	}
	at := from
	for at.size < s.end.size {
		if h := holeAt(s.holes, at); h != nil {
			at = h.behind(at)
			continue
		}
		if at.next >= durable {
			break
		}
		b, err := w.header(at.size)
		if err != nil {
			return err // it was good a moment ago
		}
		at = at.with(b)
	}
	if h := holeAt(s.holes, at); h != nil { // one without bytes, at the end
		at = h.behind(at)
	}
	s.proven = at
	return nil
}

// index reads the index of a segment, which is bound if it is of this very file, and says in
// s whether it can stand for a walk up to its end.
func (r *recovery) index(s *surveyed, f vfs.File, start segEnd) (x index, bound bool, err error) {
	x, err = readIndex(r.fs, r.dir, s.base)
	if err != nil || s.head == "" && x.check != s.check {
		return x, false, nil
	}
	if s.head == "" {
		s.indexed, err = r.agrees(f, x, start, s.fileSize)
	}
	return x, true, err
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
	got := newWalker(&window{f: f, end: x.end.size, chunk: lookBytes}, from, noLimit, r.cfg.IndexEvery)
	why, err := got.stretch()
	return err == nil && why == nil && got.end == x.end, err
}

// hopeless is a walk that did not come to an end.
func (r *recovery) hopeless(s *surveyed, at segEnd, err error) error {
	if errors.Is(err, errTooMany) {
		return &CorruptError{Segment: segName(s.base), Offset: at.next, Position: at.size, Reason: err.Error()}
	}
	return err
}
