package seglog

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/planted"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// groupBufferBytes bounds the buffer in which a group is put together for one write. A
// larger group takes more writes.
const groupBufferBytes = 1 << 20

// maxFilledSync is how many bytes a sync has on average, at most, where filling pays.
const maxFilledSync = 128 << 10

// zeros is what the fill is written from.
var zeros [256 << 10]byte

// Append writes a group of batches, which are stamped already, behind the last one. They
// are checked to follow on: base offsets without a gap (a control batch has the base
// offset of what follows it and uses none), terms that do not fall, no durable offset
// above its batch; else ErrOrder, and nothing is written. The group is visible to reads
// as a whole when Append returns, and durable after the next [Log.Sync].
//
// If the disk refuses, the group is undone, durably, so that no crash brings back a part
// of it, and the log can be appended to again. If that fails too the log is broken.
func (l *Log) Append(group []batchfmt.Batch) error {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	l.mu.RLock()
	err, v, tail := l.usable(), l.view(len(l.mu.segs)-1), l.mu.tail
	l.mu.RUnlock()
	if err != nil {
		return err
	}
	end, err := checkGroup(tail, group)
	if err != nil || len(group) == 0 {
		return err
	}
	if mustRoll(v, end.size-tail.size, l.cfg.SegmentBytes) {
		if err := l.roll(tail.next); err != nil {
			return fmt.Errorf("begin segment %s: %w", segName(tail.next), err)
		}
		end.size += segHeaderSize - tail.size
		tail.size = segHeaderSize
	}
	if err := l.write(tail.size, group); err != nil {
		return l.undo(tail, err)
	}
	l.filled = max(l.filled, end.size)
	l.publish(group, tail.size, end)
	l.fill(end.size)
	return nil
}

// checkGroup returns where the log ends behind the group.
func checkGroup(tail segEnd, group []batchfmt.Batch) (segEnd, error) {
	for i, b := range group {
		if err := follows(tail, b); err != nil {
			return tail, fmt.Errorf("%w: batch %d of %d: %w", ErrOrder, i+1, len(group), err)
		}
		tail = tail.with(b)
	}
	return tail, nil
}

// mustRoll says whether a group of n bytes needs a new segment. A segment in which no
// offset was used has no successor, because that would have the same name.
func mustRoll(active view, n, limit int64) bool {
	return active.size+n > limit && active.next > active.base
}

// write puts the group down in as few writes as the buffer allows.
func (l *Log) write(pos int64, group []batchfmt.Batch) error {
	if len(group) == 1 {
		_, err := l.active.file.WriteAt(group[0].Bytes(), pos)
		return err
	}
	l.buf = l.buf[:0]
	flush := func(b []byte) error {
		if len(b) == 0 {
			return nil
		}
		n, err := l.active.file.WriteAt(b, pos)
		pos += int64(n)
		return err
	}
	for _, b := range group {
		if len(l.buf)+b.Size() > groupBufferBytes {
			if err := flush(l.buf); err != nil {
				return err
			}
			l.buf = l.buf[:0]
		}
		if b.Size() <= groupBufferBytes {
			l.buf = append(l.buf, b.Bytes()...)
		} else if err := flush(b.Bytes()); err != nil {
			return err
		}
	}
	return flush(l.buf)
}

// undo takes a group off that was written in part. The sync is part of it: were the part
// to come back after a crash, a batch would be stored that was said not to be.
func (l *Log) undo(tail segEnd, cause error) error {
	if planted.LostUndo {
		return cause
	}
	if err := l.active.file.Truncate(tail.size); err != nil {
		return l.fail("undo of a group", errors.Join(cause, err))
	}
	l.filled = tail.size
	l.mu.RLock()
	v := l.view(len(l.mu.segs) - 1)
	l.mu.RUnlock()
	if err := l.syncActive(v, tail.next); err != nil {
		return errors.Join(err, cause)
	}
	return fmt.Errorf("append to %s: %w", filepath.Join(l.dir, segName(v.base)), cause)
}

// publish makes a group visible to readers.
func (l *Log) publish(group []batchfmt.Batch, pos int64, end segEnd) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.mu.segs[len(l.mu.segs)-1]
	for _, b := range group {
		s.index = addEntry(s.index, b, pos, l.cfg.IndexEvery)
		pos += int64(b.Size())
	}
	s.next, s.size = end.next, end.size
	l.mu.tail = end
}

// fill writes zeros ahead when less than a quarter of the fill is left. It may fail: the
// next append then makes its own blocks, and says so itself if there are none.
//
// A fill saves each sync the time of making blocks, about the same for small syncs and
// large ones, and costs every byte a second write. Large syncs go without.
func (l *Log) fill(end int64) {
	if l.noFill || l.filled-end >= l.cfg.FillBytes/4 || l.perSync.Load() > maxFilledSync {
		return
	}
	to := min(end+l.cfg.FillBytes, l.cfg.SegmentBytes)
	for l.filled < to {
		n := min(to-l.filled, int64(len(zeros)))
		if _, err := l.active.file.WriteAt(zeros[:n], l.filled); err != nil {
			l.noFill = true
			// Some of the zeros may be there, so a length behind filled is possible.
			// The next seal or undo must take them off.
			l.filled += n
			return
		}
		l.filled += n
	}
}

// roll ends the active segment and begins a new one at base. The old one is synced first,
// so that a segment with a successor has no end that could be torn. The new one is
// durable, name and header, before anything is appended to it.
func (l *Log) roll(base Offset) error {
	if err := l.seal(); err != nil {
		return err
	}
	f, check, err := l.create(base)
	if err != nil {
		return err
	}
	old, s := l.active, &segment{base: base, next: base, size: segHeaderSize, check: check, held: true}
	l.active = l.handles.pin(base, f)
	l.filled, l.noFill = segHeaderSize, false
	l.mu.Lock()
	last := l.mu.segs[len(l.mu.segs)-1]
	old.entries = last.index // before the view of it is gone
	last.index, last.held = nil, false
	l.mu.segs = append(l.mu.segs, s)
	l.mu.tail.size, l.mu.synced = segHeaderSize, segHeaderSize
	l.mu.Unlock()
	return l.handles.release(old)
}

// create makes the file of a segment, with its header, durably. If there is no room for
// it the file goes again, durably too, and the log stays as it was.
func (l *Log) create(base Offset) (vfs.File, uint64, error) {
	name := filepath.Join(l.dir, segName(base))
	f, err := l.fs.Create(name)
	if err != nil {
		return nil, 0, err
	}
	header := appendSegHeader(nil, base, l.cfg.Now().UnixMilli())
	if _, err := f.WriteAt(header, 0); err != nil {
		err = errors.Join(err, f.Close())
		// The log goes on in the old segment. If the name came back after a crash, it
		// would stand in the middle of what the old one holds by then.
		undoErr := l.fs.Remove(name)
		if undoErr == nil {
			undoErr = l.fs.SyncDir(l.dir)
		}
		if undoErr != nil {
			return nil, 0, l.fail("undo of a new segment", errors.Join(err, undoErr))
		}
		return nil, 0, err
	}
	if err := f.Sync(); err != nil {
		return nil, 0, l.fail("sync of a new segment", errors.Join(err, f.Close()))
	}
	if err := l.syncDir(); err != nil {
		return nil, 0, l.fail("sync directory", errors.Join(err, f.Close()))
	}
	h, err := parseSegHeader(header, base)
	return f, h.check, err
}

func (l *Log) syncDir() error {
	if planted.NoDirSync {
		return nil
	}
	return l.fs.SyncDir(l.dir)
}
