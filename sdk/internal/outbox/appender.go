package outbox

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// appender writes the log. Only whoever runs the round uses it, without Outbox.mu, which it
// takes where it touches what others see.
type appender struct {
	outbox     *Outbox
	active     *segment // the one that is written; nil before the first write
	lastNumber uint64
	total      int64 // bytes of all segments
	crowded    bool  // there is a new segment, and room was not made for it yet
	buf        []byte
}

// write writes items and syncs them, in new segments where one is full, and removes
// segments that are not needed. It returns how many items are written, synced or not.
// ErrNoSpace leaves everything as good as it was; any other error is the end.
func (a *appender) write(items []item) (written int, err error) {
	for written < len(items) {
		if err := a.room(items[written].bytes()); err != nil {
			return written, err
		}
		n := a.fits(items[written:])
		if err := a.writeRun(items[written : written+n]); err != nil {
			return written, err
		}
		written += n
	}
	if err := a.sync(); err != nil {
		return written, err
	}
	return written, a.removeDead()
}

func (i *item) bytes() int64 {
	if i.twice {
		return 2 * i.entry.size()
	}
	return i.entry.size()
}

// fits is how many of the items go into the active segment at once, at least one.
func (a *appender) fits(items []item) int {
	end := a.active.size + items[0].bytes()
	n := 1
	for ; n < len(items); n++ {
		end += items[n].bytes()
		if end > a.outbox.options.SegmentBytes || end-a.active.size > maxRun {
			break
		}
	}
	return n
}

// room makes a new segment if there is none that n more bytes go into. What a full disk
// interrupted is done before anything else.
func (a *appender) room(n int64) error {
	if s := a.active; s == nil || s.begun && s.size > s.headEnds && s.size+n > a.outbox.options.SegmentBytes {
		if err := a.roll(); err != nil {
			return err
		}
		a.crowded = true
	}
	if err := a.begin(); err != nil {
		return err
	}
	if !a.crowded {
		return nil
	}
	err := a.clean()
	a.crowded = err != nil
	return err
}

// writeRun writes items one behind the other into the active segment.
func (a *appender) writeRun(items []item) error {
	seg := a.active
	places := make([]int64, len(items))
	b := a.buf[:0]
	for i := range items {
		it := &items[i]
		places[i] = seg.size + int64(len(b))
		b = it.entry.append(b, seg.entryStamp)
		b = append(b, it.body...)
		if it.twice {
			b = it.entry.append(b, seg.entryStamp)
		}
	}
	if cap(b) <= keptRun {
		a.buf = b
	}
	if err := a.append(b); err != nil {
		return err
	}
	a.located(items, places)
	return nil
}

// append writes b at the end. When it fails nothing of b counts.
func (a *appender) append(b []byte) error {
	seg := a.active
	if _, err := seg.f.WriteAt(b, seg.size); err != nil {
		// What was written of b must not be taken for entries when less is written over it.
		if cut := seg.f.Truncate(seg.size); cut != nil {
			return fmt.Errorf("write %s: %w; cut what was written: %w", seg.name, err, cut)
		}
		return writeError(seg.name, err)
	}
	seg.size += int64(len(b))
	a.total += int64(len(b))
	return nil
}

// writeError tells a full disk from other errors of a write.
func writeError(name string, err error) error {
	for _, full := range noSpace {
		if errors.Is(err, full) {
			return fmt.Errorf("%w: write %s: %w", ErrNoSpace, name, err)
		}
	}
	return fmt.Errorf("write %s: %w", name, err)
}

// located notes where items are, and what they end once they are synced.
func (a *appender) located(items []item, places []int64) {
	o := a.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range items {
		it := &items[i]
		if h := it.has; h != nil {
			h.moveTo(a.active, places[i], it.entry.size(), it.entry.kind == kindBatch)
		}
		if it.ends != nil {
			o.mu.ended = append(o.mu.ended, it.ends)
		}
		if len(o.mu.free) < maxFree && it.body != nil && cap(it.body) <= keptBody {
			o.mu.free = append(o.mu.free, it.body)
		}
		it.body = nil
	}
}

// moveTo notes that the batch is at another place, where it must stay.
func (h *held) moveTo(seg *segment, at, size int64, body bool) {
	if h.seg != nil {
		h.seg.live -= h.stored
	}
	h.seg, h.at, h.stored, h.body, h.waiting = seg, at, size, body, nil
	seg.live += size
}

// sync makes the active segment durable. What it ends need not stay any more.
func (a *appender) sync() error {
	seg := a.active
	if seg == nil {
		return nil
	}
	if err := seg.f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", seg.name, err)
	}
	_ = seg.note() // see there
	o := a.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range o.mu.ended {
		delete(o.mu.ending, h.entry.id)
		if h.seg != nil {
			h.seg.live -= h.stored
		}
	}
	clear(o.mu.ended)
	o.mu.ended = o.mu.ended[:0]
	return nil
}

// finish makes the last sync note durable.
func (a *appender) finish() error {
	seg := a.active
	if seg == nil {
		return nil
	}
	_ = seg.note() // see there
	if err := seg.f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", seg.name, err)
	}
	return nil
}

// roll ends the active segment and makes the next one.
func (a *appender) roll() error {
	if a.active != nil && a.active.synced < a.active.size {
		if err := a.sync(); err != nil {
			return err
		}
		if err := a.finish(); err != nil {
			return err
		}
		a.active.synced = a.active.size
	}
	seg, err := a.create()
	if err != nil {
		return err
	}
	o := a.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.segments = append(o.mu.segments, seg)
	a.active = seg
	a.total += seg.size
	return nil
}

// begin writes the states of all lanes where the active segment begins: what is older may
// be removed.
func (a *appender) begin() error {
	seg, o := a.active, a.outbox
	if seg.begun {
		return nil
	}
	var lanes []item
	o.mu.Lock()
	for partition, s := range o.mu.lanes {
		lanes = append(lanes, item{entry: s.entry(partition)})
	}
	o.mu.Unlock()
	if len(lanes) > 0 {
		if err := a.writeRun(append(lanes, lanes...)); err != nil { // all twice, the copies far from each other
			return err
		}
	}
	seg.begun, seg.headEnds = true, seg.size
	return nil
}

// create makes an empty segment that is durable.
func (a *appender) create() (*segment, error) {
	o := a.outbox
	a.lastNumber++
	var salt [8]byte
	rand.Read(salt[:])
	seg := &segment{segmentHeader: segmentHeader{number: a.lastNumber, salt: binary.LittleEndian.Uint64(salt[:])}}
	o.mu.Lock()
	seg.binding = o.mu.binding
	o.mu.Unlock()
	seg.name, seg.entryStamp = segmentName(seg.number, seg.salt), seg.stamp()
	path := filepath.Join(o.dir, seg.name)
	f, err := o.fs.create(path)
	if err != nil {
		return nil, writeError(seg.name, err)
	}
	seg.f = f
	if _, err := f.WriteAt(seg.encodeFront(), 0); err != nil {
		_ = errors.Join(f.Close(), o.fs.remove(path)) // a header that is torn is no damage, wherever it stays
		return nil, writeError(seg.name, err)
	}
	err = errors.Join(f.Sync(), o.fs.syncDir(o.dir))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sync %s: %w", seg.name, err), f.Close())
	}
	seg.size = dataStart
	_ = seg.note()
	return seg, nil
}

// removeDead removes the oldest segments while nothing in them has to stay. They go
// in order, each durably: a mark must not go before the batch that it speaks of.
func (a *appender) removeDead() error {
	for {
		seg := a.oldest()
		if seg == nil {
			return nil
		}
		a.outbox.mu.Lock()
		dead := seg.live == 0
		a.outbox.mu.Unlock()
		if !dead {
			return nil
		}
		if gone, err := a.remove(seg); !gone {
			return err
		}
	}
}

// oldest is the oldest segment, nil when that is the active one.
func (a *appender) oldest() *segment {
	o := a.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.mu.segments) == 0 || o.mu.segments[0] == a.active {
		return nil
	}
	return o.mu.segments[0]
}

// remove removes the oldest segment. A file that cannot be removed stays, and is tried
// again with the next round.
func (a *appender) remove(seg *segment) (gone bool, err error) {
	o := a.outbox
	o.mu.Lock()
	if seg.f != nil {
		_ = seg.f.Close() // nothing in it is needed, and nothing was written to it
		seg.f = nil
	}
	o.mu.Unlock()
	if err := o.fs.remove(filepath.Join(o.dir, seg.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err := o.fs.syncDir(o.dir); err != nil {
		return false, fmt.Errorf("sync %s: %w", o.dir, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.segments = slices.Delete(o.mu.segments, 0, 1)
	a.total -= seg.size
	return true, nil
}

// clean makes room for a segment, and for one more that the copies go into: it copies what
// has to stay in the oldest segments to the active one, and removes them. Everything that
// was written before is synced: a copy behind a mark that ends the batch would bring it back.
func (a *appender) clean() error {
	last := a.active
	for a.total+2*a.outbox.options.SegmentBytes > a.outbox.options.MaxBytes {
		seg := a.oldest()
		if seg == nil || seg.number >= last.number {
			return nil // one pass is all that helps
		}
		if err := a.move(seg); err != nil {
			return err
		}
		if gone, err := a.remove(seg); !gone {
			return err
		}
	}
	return nil
}

// move copies what has to stay in a segment to the active one, durably.
func (a *appender) move(seg *segment) error {
	for _, h := range a.staying(seg) {
		o := a.outbox
		o.mu.Lock()
		i, err := o.copyOf(h)
		o.mu.Unlock()
		if err != nil {
			return err
		}
		if a.active.size > a.active.headEnds && a.active.size+i.bytes() > o.options.SegmentBytes {
			if err := a.roll(); err != nil {
				return err
			}
			if err := a.begin(); err != nil {
				return err
			}
		}
		if err := a.writeRun([]item{i}); err != nil {
			return err
		}
	}
	return a.sync()
}

// staying lists what has to stay in a segment, in its order.
func (a *appender) staying(seg *segment) []*held {
	o := a.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []*held
	for _, m := range []map[ID]*held{o.mu.live, o.mu.ending} {
		for _, h := range m {
			if h.seg == seg {
				all = append(all, h)
			}
		}
	}
	slices.SortFunc(all, func(a, b *held) int { return cmp.Compare(a.at, b.at) })
	return all
}

// copyOf is the entry that keeps a batch: without the bytes when it is never sent again or
// they are damaged.
func (o *Outbox) copyOf(h *held) (item, error) {
	e := h.entry
	if h.state == Pending && h.body {
		e.kind, e.state = kindBatch, 0
		body, err := o.readBody(h)
		return item{entry: e, body: body, has: h}, err
	}
	e.kind, e.state, e.length, e.bodyCheck = kindTrace, h.state, 0, 0
	return item{entry: e, has: h, twice: true}, nil
}
