package seglog

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// FindingKind says what a [Finding] means.
type FindingKind string

const (
	// FoundDamage is something stored that cannot be read any more. Open goes around it.
	FoundDamage FindingKind = "damage"
	// FoundTorn is an end of which nothing says that it was acknowledged. Open cuts it.
	FoundTorn FindingKind = "torn end"
	// FoundIndex is an index that is missing or wrong. Open makes it again.
	FoundIndex FindingKind = "index"
	// FoundLeftover is a file or an end of a file that something left that was killed. Open
	// removes it.
	FoundLeftover FindingKind = "leftover"
	// FoundOrder is a batch that is whole and in its place, but says what cannot be.
	FoundOrder FindingKind = "order"
)

// A Finding is one thing that [Verify] has to say.
type Finding struct {
	Kind       FindingKind
	File       string
	Position   int64  // in the file, in bytes
	From, Next Offset // the records that it is about; the same if about none
	Reason     string
}

func (f Finding) String() string {
	return fmt.Sprintf("%s: %s, byte %d, offsets [%d,%d): %s", f.Kind, f.File, f.Position, f.From, f.Next, f.Reason)
}

// A FileInfo is a file in the directory of a log.
type FileInfo struct {
	Name  string
	Bytes int64
	Role  string // "segment", "index", "leftover", or "" if it is none of the log's
}

// Report is what [Verify] has seen.
type Report struct {
	Files          []FileInfo // all there are, sorted
	Start, End     Offset     // the records would be [Start, End) after an Open, but for what is damaged
	Durable        Offset     // below it all was certainly synced
	LastTerm       batchfmt.Term
	Batches        int64 // good ones, control batches included
	Records, Bytes int64 // in good batches
	DamagedRecords int64
	Findings       int
}

// Verify reads everything in the directory of a log that is not open, a killed server's for
// example, and changes nothing. It checks every checksum: fronts, bodies, headers of
// segments, indexes; that offsets follow on, with equal base offsets behind control batches
// only; that terms and durable offsets never fall; that indexes agree with the segments; and
// it names what is left over. visit is called for each finding, in the order of the files,
// and may be nil. The error is the disk's.
func Verify(fs vfs.FS, dir string, visit func(Finding)) (Report, error) {
	v := &verifier{recovery: recovery{fs: fs, dir: dir, cfg: Config{}.withDefaults()}, visit: visit}
	if err := v.run(); err != nil {
		return v.report, fmt.Errorf("verify log %s: %w", dir, err)
	}
	return v.report, nil
}

type verifier struct {
	recovery
	visit  func(Finding)
	report Report
	tally
	full *tally // where the segment has come to the start of the next one
	end  int64  // of the batch before, in its segment
}

// A tally is what there is to say of the batches up to some place.
type tally struct {
	batches, records, bytes int64
	durable                 Offset // the most that one says was synced
}

func (v *verifier) tell(f Finding) {
	v.report.Findings++
	if f.Kind == FoundDamage {
		v.report.DamagedRecords += int64(f.Next - f.From)
	}
	if v.visit != nil {
		v.visit(f)
	}
}

func (v *verifier) run() error {
	if err := v.files(); err != nil {
		return err
	}
	var corrupt *CorruptError
	if err := v.list(); errors.As(err, &corrupt) {
		v.tell(Finding{Kind: FoundDamage, File: corrupt.Segment, From: corrupt.Offset, Next: corrupt.Offset, Reason: corrupt.Reason})
	} else if err != nil {
		return err
	}
	for _, name := range v.tmps {
		v.tell(Finding{Kind: FoundLeftover, File: name, Reason: "it was being written"})
	}
	for _, base := range v.orphans {
		v.tell(Finding{Kind: FoundIndex, File: idxName(base), From: base, Next: base, Reason: "its segment is missing"})
	}
	var end segEnd
	for _, s := range v.segs { // those that are missing at the start
		v.holes(s)
		end = s.end
	}
	for i := range v.bases {
		var err error
		if end, err = v.segment(i, end); err != nil {
			return err
		}
	}
	switch {
	case len(v.segs) > 0:
		v.report.Start = v.segs[0].base
	case len(v.bases) > 0:
		v.report.Start = v.bases[0]
	}
	v.report.End, v.report.LastTerm = end.next, end.term
	v.report.Batches, v.report.Records, v.report.Bytes = v.batches, v.records, v.bytes
	return nil
}

func (v *verifier) files() error {
	names, err := v.fs.List(v.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		info := FileInfo{Name: name}
		if info.Bytes, err = v.fs.Stat(filepath.Join(v.dir, name)); err != nil {
			return err
		}
		_, seg := parseName(name, segSuffix)
		_, idx := parseName(name, idxSuffix)
		switch {
		case seg:
			info.Role = "segment"
		case idx:
			info.Role = "index"
		case isTmp(name):
			info.Role = "leftover"
		}
		v.report.Files = append(v.report.Files, info)
	}
	return nil
}

func (v *verifier) holes(s surveyed) {
	for _, h := range s.holes {
		v.tell(Finding{FoundDamage, segName(s.base), h.pos, h.from, h.next, h.reason})
	}
}

// segment checks segment i; before is where the one before it ends.
func (v *verifier) segment(i int, before segEnd) (end segEnd, err error) {
	s := surveyed{base: v.bases[i], sealed: i < len(v.bases)-1}
	f, err := v.fs.Open(filepath.Join(v.dir, segName(s.base)))
	if err != nil {
		return end, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if s.fileSize, err = f.Size(); err != nil {
		return end, err
	}
	w := &window{f: f, end: s.fileSize, chunk: walkBytes}
	head, err := w.at(0, segHeaderSize)
	if err != nil {
		return end, err
	}
	if h, err := parseSegHeader(head, s.base); isNewer(err) {
		return end, err
	} else if err == nil {
		s.check = h.check
	} else if err := v.header(&s, w, err); err != nil {
		return end, err
	}
	v.end, v.full = 0, nil
	s.start = segEnd{next: s.base, size: segHeaderSize, term: before.term, lastTime: before.lastTime}
	limit := noLimit
	if s.sealed {
		limit = v.bases[i+1]
	}
	x := v.openIndex(&s)
	wr := newWalker(w, s.start, limit, v.cfg.IndexEvery)
	starts := x.entries
	wr.each = func(b batchfmt.Batch, pos int64) { starts = v.batch(&s, limit, b, pos, starts) }
	if err := wr.walk(); errors.Is(err, errTooMany) {
		v.tell(Finding{FoundDamage, segName(s.base), wr.end.size, wr.end.next, wr.end.next, err.Error()})
		return wr.end, nil
	} else if err != nil {
		return end, err
	}
	return v.judged(&s, wr, x, w)
}

// header tells of a header that does not verify: one that was never finished is no damage.
func (v *verifier) header(s *surveyed, w *window, why error) error {
	s.head = why.Error()
	unbegun, err := w.onlyZeros(segHeaderSize)
	kind := FoundDamage
	if unbegun && !s.sealed && (s.base == 0 || len(v.bases) > 1) {
		kind = FoundTorn
	}
	v.tell(Finding{kind, segName(s.base), 0, s.base, s.base, s.head})
	return err
}

// batch counts a good batch, and returns the index entries that are still to come.
func (v *verifier) batch(s *surveyed, limit Offset, b batchfmt.Batch, pos int64, starts []entry) []entry {
	if b.BaseOffset() == limit && v.full == nil {
		full := v.tally
		v.full = &full // what follows may be a copy of what the next segment has
	}
	v.batches++
	v.bytes += int64(b.Size())
	v.records += int64(nextOf(b) - b.BaseOffset())
	if b.Durable() < v.durable {
		v.tell(Finding{FoundOrder, segName(s.base), pos, b.BaseOffset(), nextOf(b),
			fmt.Sprintf("durable offset is %d, below %d of a batch before", b.Durable(), v.durable)})
	}
	v.durable = max(v.durable, b.Durable())
	for len(starts) > 0 && starts[0].pos <= pos {
		if e := starts[0]; e.pos < v.end || e.pos == pos && e.offset != b.BaseOffset() || e.pos == pos && b.IsControl() {
			v.tell(Finding{FoundIndex, idxName(s.base), e.pos, e.offset, e.offset, "no batch with that offset begins there"})
		}
		starts = starts[1:]
	}
	v.end = pos + int64(b.Size())
	return starts
}

// openIndex reads the index of a segment; an empty one is none.
func (v *verifier) openIndex(s *surveyed) index {
	name := idxName(s.base)
	there := slices.ContainsFunc(v.report.Files, func(f FileInfo) bool { return f.Name == name })
	if !there && !s.sealed {
		return index{} // the active segment gets one when it is closed
	}
	x, err := readIndex(v.fs, v.dir, s.base)
	if err == nil && s.head == "" && x.check != s.check {
		err = errors.New("it is of another file of that name")
	}
	if err != nil {
		reason := strings.TrimPrefix(err.Error(), "index ")
		v.tell(Finding{FoundIndex, name, 0, s.base, s.base, reason})
		return index{}
	}
	return x
}

// judged tells what a walk has found, and where the segment ends.
func (v *verifier) judged(s *surveyed, wr *walker, x index, w *window) (segEnd, error) {
	durable := max(s.base, v.claimed, wr.durable, x.end.next)
	if s.sealed {
		durable = wr.limit
	}
	s.verdict = judge(wr.walked, durable, s.fileSize)
	v.report.Durable = max(v.report.Durable, durable)
	full := wr.full != (segEnd{}) && s.sealed
	if full && (wr.over != nil || wr.end != wr.full) {
		own := int64(0)
		if x.end.next == wr.limit && x.end.size >= wr.full.size {
			own = x.end.size
		}
		if err := v.superseded(s, w, wr, own); err != nil {
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) {
				return s.end, err
			}
			v.tell(Finding{FoundDamage, corrupt.Segment, corrupt.Position, corrupt.Offset, corrupt.Offset, corrupt.Reason})
		}
		if v.full != nil && s.end.size == wr.full.size {
			v.tally = *v.full
		}
		if s.leftover {
			v.tell(Finding{FoundLeftover, segName(s.base), s.end.size, s.end.next, s.end.next, "what follows is in the next segment, or was cut"})
		}
	}
	v.holes(*s)
	if s.cut != "" && !s.sealed {
		v.tell(Finding{FoundTorn, segName(s.base), s.end.size, s.end.next, s.end.next, s.cut})
	}
	if x.base == s.base && x.end.size > 0 && (x.end.next > s.end.next || x.end.size > s.end.size || s.sealed && x.end != s.end && len(s.holes) == 0) {
		v.tell(Finding{FoundIndex, idxName(s.base), 0, x.end.next, x.end.next,
			fmt.Sprintf("it ends at offset %d, byte %d, the segment at offset %d, byte %d", x.end.next, x.end.size, s.end.next, s.end.size)})
	}
	return s.end, nil
}
