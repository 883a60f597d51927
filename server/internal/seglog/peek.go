package seglog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// SegmentHeaderBytes is what stands in front of the batches of a segment file.
const SegmentHeaderBytes = segHeaderSize

// IsSegment reports whether b begins as a segment file does, whatever else it holds.
func IsSegment(b []byte) bool {
	return len(b) >= segHeaderSize && string(b[:4]) == segMagic
}

// A Piece is a batch in a segment file, or what stands where one should be.
type Piece struct {
	File     string // name of the segment
	Position int64  // in the file, in bytes
	Size     int64  // in bytes; 0 where the file or its end is missing
	// From and Next are the records in it, or those that were lost in it. Both are the same
	// for a control batch.
	From, Next Offset
	Fault      string // why it is no good batch; empty for one that is good
	// Torn says that it stands at the end and nothing tells that it was acknowledged: an
	// Open takes it off, or a server is about to write it.
	Torn bool
}

// Peek calls visit with the control batches in front of the batch that holds from, with that
// batch, and with those behind it as long as visit says more. Whatever is damaged there is
// visited too, in its place; b is what the file holds of a piece, at most as much as the
// largest batch. b is valid until visit returns.
//
// It reads segments and nothing else, batch by batch, and takes an index only for a witness
// of how far the log went. It changes nothing, and the log may be open meanwhile, in another
// process too: then it sees what was written when it came there. An error of visit ends it
// and is returned as it is. An offset that the log does not have is [ErrOutOfRange], a missing
// directory fs.ErrNotExist; a *CorruptError says that a log whose end is not known to
// anybody may have had it.
func Peek(fsys vfs.FS, dir string, from Offset, visit func(p Piece, b []byte) (more bool, err error)) error {
	k := &peeker{recovery: recovery{fs: fsys, dir: dir, cfg: Config{}.withDefaults()}, from: from, visit: visit}
	err := k.run()
	if errors.Is(err, errSeen) {
		return nil
	}
	return err
}

// errSeen ends a peek that has seen enough.
var errSeen = errors.New("seen enough")

type peeker struct {
	recovery
	from   Offset
	visit  func(Piece, []byte) (bool, error)
	before []Piece // control batches, and damage without records, in front of what comes next
	found  bool
	// unknown is set if what could tell where the log ends is lost.
	unknown *CorruptError
}

func (k *peeker) run() error {
	if err := k.list(); err != nil && !errors.As(err, &k.unknown) {
		return err
	}
	for _, s := range k.segs { // those that are missing at the start
		for _, h := range s.holes {
			if err := k.piece(nil, Piece{File: segName(s.base), From: h.from, Next: h.next, Fault: h.reason}); err != nil {
				return err
			}
		}
	}
	first := 0
	for i, base := range k.bases {
		// Control batches may stand at the end of the segment before.
		if base <= k.from {
			first = max(i-1, 0)
		}
	}
	var end segEnd
	for i := first; i < len(k.bases); i++ {
		var err error
		if end, err = k.segment(i); err != nil {
			return err
		}
	}
	switch {
	case k.found:
		return nil
	case k.atEnd():
		return k.showAll()
	case k.unknown != nil && k.from >= end.next:
		return k.unknown
	case len(k.bases) > 0 && k.from < k.bases[0]:
		return fmt.Errorf("%w: %d is below the start of the log, %d", ErrOutOfRange, k.from, k.bases[0])
	}
	return fmt.Errorf("%w: %d is not below the end of the log, %d", ErrOutOfRange, k.from, max(end.next, k.claimed))
}

// atEnd reports whether the log ends at from and control batches stand there.
func (k *peeker) atEnd() bool {
	k.before = slices.DeleteFunc(k.before, func(p Piece) bool { return p.From != k.from })
	return len(k.before) > 0
}

// segment walks segment i twice: to find where it is bad, and then to tell of all of it.
func (k *peeker) segment(i int) (end segEnd, err error) {
	s := surveyed{base: k.bases[i], sealed: i < len(k.bases)-1}
	f, err := k.fs.Open(filepath.Join(k.dir, segName(s.base)))
	if errors.Is(err, fs.ErrNotExist) {
		return segEnd{next: s.base}, nil // a server has removed it since the names were read
	}
	if err != nil {
		return end, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if s.fileSize, err = f.Size(); err != nil {
		return end, err
	}
	limit := noLimit
	if s.sealed {
		limit = k.bases[i+1]
	}
	w := &window{f: f, end: s.fileSize, chunk: walkBytes}
	wr := newWalker(w, segEnd{next: s.base, size: segHeaderSize}, limit, k.cfg.IndexEvery)
	if err := wr.walk(); errors.Is(err, errTooMany) {
		// Nothing behind it can be told apart, so it ends here.
		wr.bad = err.Error()
	} else if err != nil {
		return end, err
	}
	s.verdict = judge(wr.walked, k.durable(&s, wr), s.fileSize)
	if err := k.headless(&s, w); err != nil {
		return end, err
	}
	return s.end, k.tell(&s, w)
}

// headless notes that the last segment has no header and no batch: see recovery.headless.
func (k *peeker) headless(s *surveyed, w *window) error {
	if s.sealed || s.end.next > s.base || s.end.size > segHeaderSize {
		return nil
	}
	head, err := w.at(0, segHeaderSize)
	if err != nil {
		return err
	}
	if _, err := parseSegHeader(head, s.base); isNewer(err) {
		return err
	} else if err != nil {
		s.head = err.Error()
		r := recovery{segs: k.segs}
		if len(k.bases) > 1 {
			r.segs = append(r.segs, surveyed{})
		}
		if err := r.headless(s, w); err != nil && !errors.As(err, &k.unknown) {
			return err
		}
	}
	return nil
}

// durable is the offset below which all that a segment had was synced, as far as is left to tell.
func (k *peeker) durable(s *surveyed, wr *walker) Offset {
	if s.sealed {
		return wr.limit
	}
	durable := max(s.base, k.claimed, wr.durable)
	if x, err := readIndex(k.fs, k.dir, s.base); err == nil {
		if head, err := wr.w.at(0, segHeaderSize); err == nil {
			if h, err := parseSegHeader(head, s.base); err != nil || h.check == x.check {
				durable = max(durable, x.end.next)
			}
		}
	}
	return durable
}

// tell goes over a segment of which it is known where it is bad.
func (k *peeker) tell(s *surveyed, w *window) error {
	name := segName(s.base)
	at := segEnd{next: s.base, size: segHeaderSize}
	for {
		if h := holeAt(s.holes, at); h != nil {
			if err := k.damage(w, name, *h); err != nil {
				return err
			}
			at = h.behind(at)
			continue
		}
		if at.size >= s.end.size {
			break
		}
		b, err := w.header(at.size)
		if err != nil {
			return err // it was good a moment ago
		}
		p := Piece{File: name, Position: at.size, Size: int64(b.Size()), From: b.BaseOffset(), Next: nextOf(b)}
		at = at.with(b)
		if err := k.piece(w, p); err != nil {
			return err
		}
	}
	if s.cut == "" || s.sealed {
		return nil
	}
	end, err := w.lastNonZero(s.end.size)
	if err != nil {
		return err
	}
	return k.damage(w, name, hole{from: s.end.next, next: noLimit, pos: s.end.size, end: end, reason: s.cut})
}

// damage tells of the bytes of a hole, or of a torn end: in it too there may be batches with
// a good front, and these say what they are.
func (k *peeker) damage(w *window, name string, h hole) error {
	lost := h.from // the first offset of which nothing was said yet
	tell := func(pos, size int64, from, next Offset) error {
		p := Piece{File: name, Position: pos, Size: size, From: from, Next: next, Fault: h.reason, Torn: h.torn()}
		if pos > h.pos {
			p.Fault = "it stands behind damage: " + h.reason
		}
		lost = next
		return k.piece(w, p)
	}
	for pos := h.pos; pos < h.end; {
		f, err := nextFront(w, h, pos, lost)
		if err != nil {
			return err
		}
		if f.pos > pos || f.from > lost {
			if err := tell(pos, f.pos-pos, lost, f.from); err != nil {
				return err
			}
		}
		if f.size > 0 {
			if err := tell(f.pos, f.size, f.from, f.next); err != nil {
				return err
			}
		}
		pos = f.pos + f.size
	}
	if lost < h.next && !h.torn() {
		return tell(h.end, 0, lost, h.next)
	}
	return nil
}

// A front is one that verifies in a hole, or the end of the hole, which has no size.
type front struct {
	pos, size  int64
	from, next Offset
}

// torn reports whether it is no hole but an end: nothing tells how far that went.
func (h hole) torn() bool { return h.next == noLimit }

// nextFront is where the next batch begins, from pos on, whose front verifies and may stand
// there, whatever its body is. Where the hole ends with the file, or with what was written,
// one may be cut off. Offsets below lost are told of.
func nextFront(w *window, h hole, pos int64, lost Offset) (front, error) {
	reach := h.end
	if h.torn() {
		reach = w.end
	}
	for pos < h.end {
		head, err := w.header(pos)
		if err != nil && !isFormat(err) {
			return front{}, err
		}
		if err == nil {
			f := front{pos: pos, size: int64(head.Size()), from: head.BaseOffset(), next: nextOf(head)}
			cut := max(0, pos+f.size-reach)
			if f.from >= lost && f.next <= h.next && (cut == 0 || reach == w.end) {
				f.size -= cut
				return f, nil
			}
		}
		if pos, err = w.nextMagic(pos + 1); err != nil {
			return front{}, err
		}
	}
	end := front{pos: h.end, from: h.next, next: h.next}
	if h.torn() {
		end.from = lost + 1 // who knows
	}
	return end, nil
}

// piece shows p if it is asked for, with what stands in front of it.
func (k *peeker) piece(w *window, p Piece) error {
	switch {
	case k.found && p.Torn:
		return errSeen // the log ends
	case k.found:
		return k.show(w, p)
	case p.From <= k.from && k.from < p.Next:
		k.found = true
	case p.From == p.Next:
		k.before = append(k.before, p)
		return nil
	default:
		k.before = k.before[:0]
		return nil
	}
	if err := k.showAll(); err != nil {
		return err
	}
	return k.show(w, p)
}

func (k *peeker) showAll() error {
	for _, p := range k.before {
		if err := k.showBefore(p); err != nil {
			return err
		}
	}
	return nil
}

// showBefore shows what stands in front, perhaps in an earlier segment. Whether more is
// wanted is asked behind the batch that was looked for.
func (k *peeker) showBefore(p Piece) (err error) {
	f, err := k.fs.Open(filepath.Join(k.dir, p.File))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	err = k.show(&window{f: f, end: p.Position + p.Size, chunk: lookBytes}, p)
	if errors.Is(err, errSeen) {
		err = nil
	}
	return err
}

func (k *peeker) show(w *window, p Piece) error {
	var b []byte
	if p.Size > 0 {
		var err error
		if b, err = w.at(p.Position, int(min(p.Size, batchfmt.MaxBatchBytes))); err != nil {
			return err
		}
	}
	more, err := k.visit(p, b)
	if err == nil && !more {
		err = errSeen
	}
	return err
}
