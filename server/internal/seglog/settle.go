package seglog

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"github.com/quoin-io/quoin/server/internal/planted"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// settle is the half of recovery that writes.
func (r *recovery) settle() (*Log, error) {
	l := &Log{fs: r.fs, dir: r.dir, cfg: r.cfg, handles: newHandles(r.fs, r.dir, r.cfg.MaxOpenFiles)}
	l.handles.entries = l.rebuilt
	for _, name := range r.tmps {
		if err := removeIfThere(r.fs, filepath.Join(r.dir, name)); err != nil {
			return nil, err
		}
	}
	if len(r.bases)+len(r.orphans) == 0 && len(r.segs) > 0 {
		// Only the caller knows that there was a log. An index without a segment is how the
		// next Open knows it too.
		if err := writeIndex(r.fs, r.dir, index{end: r.segs[0].end}); err != nil {
			return nil, err
		}
	}
	if err := r.renew(l); err != nil { // steps 7 and 8
		return nil, err
	}
	if err := l.syncDir(); err != nil { // step 9
		return nil, err
	}
	if err := r.takeOff(); err != nil { // step 10
		return nil, err
	}
	last := &r.segs[len(r.segs)-1]
	f, err := r.fs.Open(filepath.Join(r.dir, segName(last.base)))
	if err != nil {
		return nil, err
	}
	r.info.IndexError = errors.Join(r.info.IndexError, r.tidy()) // step 11
	r.open(l, f)
	return l, nil
}

// renew writes the end of the log anew unless it is known to be synced: its batches go to a
// segment of their own, which begins where that knowledge ends. A segment of which nothing
// is known is replaced by its copy. A damaged segment is not appended to either.
func (r *recovery) renew(l *Log) error {
	if len(r.segs) == 0 {
		r.segs = []surveyed{{missing: true, verdict: verdict{end: segEnd{size: segHeaderSize}}}}
		old := r.segs[0]
		r.segs[0].missing = false
		return r.copyTail(&r.segs[0], &old)
	}
	old := &r.segs[len(r.segs)-1]
	whole := old.proven == old.end && len(old.holes) == 0 && old.head == ""
	if whole && (old.indexed || old.end.size > segHeaderSize) || planted.TrustUnsyncedTail && old.head == "" {
		r.noteCut(old)
		return nil
	}
	if planted.ReuseOffsets && len(old.holes) > 0 && old.proven == old.end {
		old.proven.next = old.holes[len(old.holes)-1].from
	}
	r.noteCut(old)
	if old.proven.next == old.base {
		old.proven = old.start // control batches alone begin no segment of another name
	}
	at := old.proven
	s := surveyed{base: at.next}
	s.end = segEnd{next: at.next, size: segHeaderSize, term: at.term, lastTime: at.lastTime}
	if planted.TruncateFirst && old.base != at.next {
		if err := r.shorten(old.base, at.size); err != nil {
			return err
		}
	}
	kept := old.entries
	for len(kept) > 0 && kept[len(kept)-1].pos >= at.size {
		kept = kept[:len(kept)-1]
	}
	if s.base != old.base && !old.damaged() {
		r.mark(index{base: old.base, check: old.check, end: at, entries: kept})
	}
	switch err := r.copyTail(&s, old); {
	case isFull(err) && !old.damaged():
		return r.rewrite(old)
	case err != nil:
		return err
	}
	if s.base == old.base {
		*old = s
		return nil
	}
	if old.end.size > at.size || old.cut != "" {
		old.leftover = old.fileSize > at.size
	}
	old.end, old.cut, old.entries = at, "", kept
	r.segs = append(r.segs, s)
	return nil
}

// mark writes where a segment will end before its successor is there. If this recovery is
// killed, the next one can tell what is left behind that place from something damaged.
// Without the mark it takes all but a plain copy for damage, and leaves it.
func (r *recovery) mark(x index) {
	err := writeIndex(r.fs, r.dir, x)
	if err == nil {
		err = r.fs.SyncDir(r.dir)
	}
	r.segs[len(r.segs)-1].indexed = err == nil
	r.info.IndexError = err
}

// noteCut says what is taken off.
func (r *recovery) noteCut(s *surveyed) {
	if s.cut != "" {
		r.info.Cut = &Cut{
			Segment: segName(s.base), Offset: s.end.next, Position: s.end.size,
			Bytes: s.dataEnd - s.end.size, Reason: s.cut,
		}
	}
}

// copyTail makes segment s out of what is behind the proven place of old, by way of a
// temporary file that is synced and read back before it gets its name.
func (r *recovery) copyTail(s, old *surveyed) error {
	name := filepath.Join(r.dir, segName(s.base))
	f, err := r.fs.Create(name + tmpSuffix)
	if err != nil {
		return err
	}
	err = r.writeCopy(f, s, old)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name+tmpSuffix, err), removeIfThere(r.fs, name+tmpSuffix))
	}
	s.fileSize, s.from = s.end.size, s.end.size
	r.info.Rewritten += s.end.size - segHeaderSize
	return r.fs.Rename(name+tmpSuffix, name)
}

// rewrite stands in for the copy where there is no room for one: it writes the bytes behind
// the proven place onto themselves, so that the system takes them for unwritten again, and
// syncs them. That needs no new blocks, and whatever a crash leaves of it is what was there.
func (r *recovery) rewrite(s *surveyed) (err error) {
	f, err := r.fs.Open(filepath.Join(r.dir, segName(s.base)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, min(s.end.size-s.proven.size, groupBufferBytes))
	for pos := s.proven.size; pos < s.end.size && !planted.RewriteNothing; pos += int64(len(buf)) {
		b := buf[:min(s.end.size-pos, int64(len(buf)))]
		if err := readFull(f, b, pos); err != nil {
			return err
		}
		if _, err := f.WriteAt(b, pos); err != nil {
			return fmt.Errorf("write the end of %s anew, in its place: %w", segName(s.base), err)
		}
	}
	if err := errors.Join(f.Sync(), vfs.DropCache(f)); err != nil {
		return err
	}
	got := newWalker(&window{f: f, end: s.end.size, chunk: walkBytes}, s.proven, noLimit, r.cfg.IndexEvery)
	why, err := got.stretch()
	if err == nil && (why != nil || got.end != s.end) {
		err = fmt.Errorf("%s, written anew, reads back to byte %d, not %d: %w", segName(s.base), got.end.size, s.end.size, errors.Join(errReadBack, why))
	}
	r.info.Rewritten += s.end.size - s.proven.size
	s.proven = s.end
	return err
}

// isFull reports whether there was no room, of whatever kind.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func (r *recovery) writeCopy(f vfs.File, s, old *surveyed) error {
	header := appendSegHeader(nil, s.base, r.cfg.Now().UnixMilli())
	h, err := parseSegHeader(header, s.base)
	if err != nil {
		return err
	}
	s.check = h.check
	if _, err := f.WriteAt(header, 0); err != nil {
		return err
	}
	want := old.end
	if !old.missing {
		want.size += segHeaderSize - old.proven.size
		if err := r.copyBytes(f, old); err != nil {
			return err
		}
	}
	if err := errors.Join(f.Sync(), vfs.DropCache(f)); err != nil {
		return err
	}
	return r.readBack(s, f, want)
}

// copyBytes copies the batches of old behind its proven place.
func (r *recovery) copyBytes(dst vfs.File, old *surveyed) (err error) {
	src, err := r.fs.Open(filepath.Join(r.dir, segName(old.base)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	from, pos := old.proven.size, int64(segHeaderSize)
	buf := make([]byte, min(old.end.size-from, groupBufferBytes))
	for from < old.end.size {
		b := buf[:min(old.end.size-from, int64(len(buf)))]
		if err := readFull(src, b, from); err != nil {
			return err
		}
		if _, err := dst.WriteAt(b, pos); err != nil {
			return err
		}
		from, pos = from+int64(len(b)), pos+int64(len(b))
	}
	return nil
}

// readBack walks over a copy, which must come to the end of the original.
func (r *recovery) readBack(s *surveyed, f vfs.File, want segEnd) error {
	wr := newWalker(&window{f: f, end: want.size, chunk: walkBytes}, s.end, noLimit, r.cfg.IndexEvery)
	why, err := wr.stretch()
	if err == nil && (why != nil || wr.end != want) {
		err = fmt.Errorf("what was written reads back to offset %d, byte %d, not %d, byte %d: %w",
			wr.end.next, wr.end.size, want.next, want.size, errors.Join(errReadBack, why))
	}
	s.end, s.proven, s.entries = wr.end, wr.end, wr.entries
	return err
}

// takeOff cuts what stands behind the ends: what was torn, and what has a copy elsewhere.
func (r *recovery) takeOff() error {
	for i := range r.segs {
		s := &r.segs[i]
		if !s.leftover && s.cut == "" {
			continue
		}
		if err := r.shorten(s.base, s.end.size); err != nil {
			return err
		}
		s.fileSize, s.leftover = s.end.size, false
	}
	return nil
}

func (r *recovery) shorten(base Offset, size int64) error {
	f, err := r.fs.Open(filepath.Join(r.dir, segName(base)))
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// tidy writes the indexes that are missing: one that is there says that the segment was
// synced that far. Nothing depends on it, so its errors do not keep the log from being
// opened. Damaged segments get none, so that the next Open looks at them again.
func (r *recovery) tidy() error {
	var errs []error
	for i := range r.segs {
		s := &r.segs[i]
		last := i == len(r.segs)-1
		switch {
		case s.indexed || s.damaged():
			continue
		case last && (s.from != s.fileSize || s.end.size == segHeaderSize):
			continue // not written anew, or empty
		case s.sealed:
			r.info.Reindexed++
		}
		errs = append(errs, writeIndex(r.fs, r.dir, index{base: s.base, check: s.check, end: s.end, entries: s.entries}))
	}
	if len(errs) > 0 {
		errs = append(errs, r.fs.SyncDir(r.dir))
	}
	return errors.Join(errs...)
}

func (s *surveyed) damaged() bool { return s.missing || s.head != "" || len(s.holes) > 0 }

// open makes the log from what was found; f is the file of the last segment.
func (r *recovery) open(l *Log, f vfs.File) {
	for i, s := range r.segs {
		seg := &segment{
			base: s.base, next: s.end.next, size: s.end.size, check: s.check,
			head: s.head, holes: s.holes, missing: s.missing,
		}
		last := i == len(r.segs)-1
		if last || s.damaged() {
			seg.index, seg.held = s.entries, true
		}
		if last {
			l.active = l.handles.pin(s.base, f)
			l.filled = max(s.fileSize, s.end.size)
			l.mu.tail, l.mu.durable, l.mu.synced = s.end, s.end.next, s.end.size
		}
		l.mu.segs = append(l.mu.segs, seg)
		r.info.Walked += s.end.size - s.from
	}
	r.info.Segments = len(r.segs)
	r.info.Start, r.info.End = r.segs[0].base, l.mu.tail.next
	r.info.LastTerm, r.info.MaxAppendTime = l.mu.tail.term, l.mu.tail.lastTime
	r.info.Damage = l.Damaged()
}
