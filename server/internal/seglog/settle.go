package seglog

import (
	"errors"
	"path/filepath"

	"github.com/quoin-io/quoin/server/internal/vfs"
)

// settle is the half of recovery that writes.
func (r *recovery) settle() (*Log, error) {
	l := &Log{fs: r.fs, dir: r.dir, cfg: r.cfg, handles: newHandles(r.fs, r.dir, r.cfg.MaxOpenFiles)}
	l.handles.entries = l.rebuilt
	if len(r.segs) == 0 {
		f, check, err := l.create(0)
		if err != nil {
			return nil, err
		}
		r.segs = []surveyed{{check: check, begun: true, fileSize: segHeaderSize, walked: walked{end: segEnd{size: segHeaderSize}}, from: segHeaderSize}}
		r.open(l, f)
		return l, nil
	}
	last := &r.segs[len(r.segs)-1]
	f, err := r.fs.Open(filepath.Join(r.dir, segName(last.base)))
	if err != nil {
		return nil, err
	}
	if err := r.repair(f, last); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r.info.IndexError = r.tidy()
	r.open(l, f)
	return l, nil
}

// repair makes the cut and makes what is left durable (steps 6 and 7).
func (r *recovery) repair(f vfs.File, s *surveyed) error {
	switch {
	case !s.begun:
		if err := r.begin(f, s); err != nil {
			return err
		}
	case s.bad != "":
		if err := f.Truncate(s.end.size); err != nil {
			return err
		}
		s.fileSize = s.end.size
	}
	if s.bad != "" {
		kept := s.end.size
		if !s.begun {
			kept = 0
		}
		r.info.Cut = &Cut{
			Segment: segName(s.base), Offset: s.end.next, Position: s.end.size,
			Bytes: s.dataEnd - kept, Reason: s.bad,
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return r.fs.SyncDir(r.dir)
}

// begin writes the header of a segment whose roll was cut short.
func (r *recovery) begin(f vfs.File, s *surveyed) error {
	header := appendSegHeader(nil, s.base, r.cfg.Now().UnixMilli())
	h, err := parseSegHeader(header, s.base)
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.WriteAt(header, 0); err != nil {
		return err
	}
	s.check, s.fileSize = h.check, segHeaderSize
	return nil
}

// tidy writes the indexes that old segments lack and removes leftovers (step 8). Nothing
// depends on it, so its errors do not keep the log from being opened.
func (r *recovery) tidy() error {
	var errs []error
	for _, name := range r.tmps {
		errs = append(errs, removeIfThere(r.fs, filepath.Join(r.dir, name)))
	}
	for _, s := range r.segs[:len(r.segs)-1] {
		if !s.reindex {
			continue
		}
		r.info.Reindexed++
		errs = append(errs, writeIndex(r.fs, r.dir, index{base: s.base, check: s.check, end: s.end, entries: s.entries}))
	}
	if len(errs) > 0 {
		errs = append(errs, r.fs.SyncDir(r.dir))
	}
	return errors.Join(errs...)
}

// open makes the log from what was found; f is the file of the last segment.
func (r *recovery) open(l *Log, f vfs.File) {
	for i, s := range r.segs {
		seg := &segment{base: s.base, next: s.end.next, size: s.end.size, check: s.check}
		if i == len(r.segs)-1 {
			seg.index = s.entries
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
}
