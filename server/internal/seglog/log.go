package seglog

import (
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/quoin-io/quoin/server/internal/planted"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// Log is the log of one partition. One goroutine at a time appends; Sync, Read, Scan and
// FindBack may be called by any others meanwhile.
//
// Locks, in the order in which they are taken: appendMu, syncMu, mu, handles.mu. The
// last two are never held over I/O.
type Log struct {
	fs      vfs.FS
	dir     string
	cfg     Config
	handles *handles

	// appendMu is held by the one who appends, rolls or closes. It guards the four
	// fields below it.
	appendMu sync.Mutex
	active   *handle
	filled   int64 // the file of the active segment is zero from its size up to here
	noFill   bool  // filling failed in this segment: go without
	buf      []byte

	// syncMu is held over every sync of a segment: the kernel reports a failed write to
	// one sync only, and a second one at the same time must not take it for a success.
	syncMu sync.Mutex

	// perSync is about how many bytes the last syncs had to write.
	perSync atomic.Int64

	mu struct {
		sync.RWMutex
		segs    []*segment // at least one, bases rising; the last is the active one
		tail    segEnd     // of the log; size is that of the active segment
		durable Offset     // a sync returned with this end
		synced  int64      // the active segment is durable up to this position
		broken  error      // sticky, wraps ErrBroken
		closed  bool
	}
}

// view is a segment as it was at one moment.
type view struct {
	base, next Offset
	size       int64
	check      uint64
	index      []entry // if held
	held       bool
	holes      []hole
	missing    bool
}

func (l *Log) view(i int) view {
	s := l.mu.segs[i]
	return view{s.base, s.next, s.size, s.check, s.index, s.held, s.holes, s.missing}
}

// views are the segments from the one that holds from, and what follows.
func (l *Log) views(from Offset) ([]view, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.mu.closed {
		return nil, ErrClosed
	}
	views := make([]view, 0, 8)
	for i := l.find(from); i < len(l.mu.segs); i++ {
		views = append(views, l.view(i))
	}
	return views, nil
}

// find is the number of the last segment that begins at or below from, or 0.
func (l *Log) find(from Offset) int {
	i := sort.Search(len(l.mu.segs), func(i int) bool { return l.mu.segs[i].base > from })
	return max(i-1, 0)
}

// Start is the lowest offset that the log has or, when it is empty, will have.
func (l *Log) Start() Offset {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.mu.segs[0].base
}

// End is the offset behind the last record that was appended, durable or not.
func (l *Log) End() Offset {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.mu.tail.next
}

// Err is nil, or what broke the log; it wraps ErrBroken.
func (l *Log) Err() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.mu.broken
}

// SegmentInfo describes a segment.
type SegmentInfo struct {
	Base, Next Offset // the records in it are [Base, Next), but for what is damaged
	Bytes      int64  // without the zeros behind the last batch; 0 if the file is missing
	Check      uint64 // in the header, another in each segment; 0 if the header is damaged
}

// Segments describes all segments, oldest first.
func (l *Log) Segments() []SegmentInfo {
	l.mu.RLock()
	defer l.mu.RUnlock()
	infos := make([]SegmentInfo, len(l.mu.segs))
	for i, s := range l.mu.segs {
		infos[i] = s.info()
	}
	return infos
}

// Segment describes the segment that begins at an offset; false is none.
func (l *Log) Segment(base Offset) (SegmentInfo, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	s := l.mu.segs[l.find(base)]
	return s.info(), s.base == base
}

func (s *segment) info() SegmentInfo {
	i := SegmentInfo{s.base, s.next, s.size, s.check}
	if s.missing {
		i.Bytes = 0
	}
	return i
}

// usable says why the log takes no appends and no syncs; l.mu is held.
func (l *Log) usable() error {
	if l.mu.closed {
		return ErrClosed
	}
	return l.mu.broken
}

// fail breaks the log. The first cause stays.
func (l *Log) fail(act string, cause error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.broken == nil {
		l.mu.broken = fmt.Errorf("%w: %s: %w", ErrBroken, act, cause)
	}
	return l.mu.broken
}

// Sync makes durable everything that was appended before the call, and returns the end
// of the log that is durable now. One Sync runs at a time; others wait for it. If it
// fails the log is broken (ErrBroken): what was appended since the last Sync that
// succeeded may or may not be found by the next Open.
func (l *Log) Sync() (Offset, error) {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.RLock()
	err, v, end := l.usable(), l.view(len(l.mu.segs)-1), l.mu.tail.next
	durable, fresh := l.mu.durable, v.size-l.mu.synced
	l.mu.RUnlock()
	if err != nil {
		return durable, err
	}
	if fresh == 0 {
		return end, nil
	}
	l.perSync.Store((3*l.perSync.Load() + fresh) / 4)
	h, err := l.handles.acquire(v)
	if err != nil {
		return durable, err
	}
	err = l.syncFile(h.file)
	if releaseErr := l.handles.release(h); err == nil {
		err = releaseErr
	}
	if err != nil {
		return durable, l.fail("sync", err)
	}
	l.markDurable(v, end)
	return end, nil
}

// markDurable notes that a segment is durable up to a size, and the log up to end. The
// caller holds syncMu, so that the mark never goes back.
func (l *Log) markDurable(v view, end Offset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.durable = max(l.mu.durable, end)
	if l.mu.segs[len(l.mu.segs)-1].base == v.base {
		l.mu.synced = v.size
	}
}

// Close makes everything durable, takes off the fill, writes the index of the active
// segment and closes the files. Reads that are running end as they would have. A broken
// log is only closed: its error was told already. Close after Close does nothing.
func (l *Log) Close() error {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	l.mu.RLock()
	err, closed := l.usable(), l.mu.closed
	l.mu.RUnlock()
	if closed {
		return nil
	}
	if err == nil {
		err = l.seal()
	} else {
		err = nil
	}
	return errors.Join(err, l.shut())
}

// seal ends the active segment as a roll or a clean close does: without fill, synced in
// full, and described by an index. appendMu is held.
func (l *Log) seal() error {
	l.mu.RLock()
	v, tail := l.view(len(l.mu.segs)-1), l.mu.tail
	l.mu.RUnlock()
	if l.filled > v.size {
		if err := l.active.file.Truncate(v.size); err != nil {
			return l.fail("truncate", err)
		}
		l.filled = v.size
	}
	if err := l.syncActive(v, tail.next); err != nil {
		return err
	}
	// The index is a convenience: a disk without room for it still has the log.
	x := index{base: v.base, check: v.check, end: tail, entries: v.index}
	if err := writeIndex(l.fs, l.dir, x); err == nil {
		if err := l.fs.SyncDir(l.dir); err != nil {
			return l.fail("sync directory", err)
		}
	}
	return nil
}

// syncActive is the sync of the one who appends; appendMu is held.
func (l *Log) syncActive(v view, end Offset) error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	if err := l.Err(); err != nil {
		return err
	}
	if err := l.syncFile(l.active.file); err != nil {
		return l.fail("sync", err)
	}
	l.markDurable(v, end)
	return nil
}

// syncFile syncs once. There is no second try: it would succeed without having written
// what the first could not.
func (l *Log) syncFile(f vfs.File) error {
	err := f.Sync()
	if err != nil && planted.RetryFailedSync {
		return f.Sync()
	}
	return err
}

// shut closes the files without any more ado; appendMu is held.
func (l *Log) shut() error {
	l.syncMu.Lock() // a sync that runs keeps its file to its end
	defer l.syncMu.Unlock()
	l.mu.Lock()
	l.mu.closed = true
	l.mu.Unlock()
	return errors.Join(l.handles.close(), l.handles.release(l.active))
}

// Remove closes the log without syncing it and removes its directory, durably. After an
// error it can be called again, and so can the function [Remove].
func (l *Log) Remove() error {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	l.mu.RLock()
	closed := l.mu.closed
	l.mu.RUnlock()
	var err error
	if !closed {
		err = l.shut()
	}
	return errors.Join(err, removeDir(l.fs, l.dir))
}

// Remove removes the directory of a log that is not open, durably. It is no error that it
// does not exist.
func Remove(fs vfs.FS, dir string) error { return removeDir(fs, dir) }

// rebuilt is the index of an old segment that is opened for reading: its file, or, when
// that is missing or wrong, what a walk over the headers gives. Where the walk ends at a
// bad place, so does the index; a read that comes there says what is wrong.
func (l *Log) rebuilt(v view, f vfs.File) ([]entry, error) {
	x, err := readIndex(l.fs, l.dir, v.base)
	if err == nil && x.check == v.check && x.end.size >= v.size {
		return x.entries, nil
	}
	w := &window{f: f, end: v.size, chunk: lookBytes}
	var entries []entry
	for pos := int64(segHeaderSize); pos < v.size; {
		b, err := w.header(pos)
		if isFormat(err) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", filepath.Join(l.dir, segName(v.base)), err)
		}
		entries = addEntry(entries, b, pos, l.cfg.IndexEvery)
		pos += int64(b.Size())
	}
	return entries, nil
}
