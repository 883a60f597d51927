package outbox

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/quoin-io/quoin/batchfmt"
)

// smallestTwin is the least that damage must cover to hide both copies of what is written
// twice, or a batch: none with a record has an entry that is smaller.
const smallestTwin = 2 * entryBytes

// replay reads a directory. It only reads.
type replay struct {
	ledger
	fs       filesystem
	dir      string
	binding  Binding
	segments []*segment
	damages  []Damage
	more     int                // damages over the limit
	step     int                // counts what was seen
	gaps     []gap              // those that may hide batches
	doubt    int                // the last step at which marks may have been lost
	tails    map[int32]laneTail // where each lane ends so far
	late     []entry            // what stands behind a sync note, in order
}

type gap struct {
	step   int
	damage int // its place in damages; -1 when it is over the limit
}

// maxDamages bounds the list of damages. What is over is only counted.
const maxDamages = 1024

// damaged lists a damage. step is when it was met.
func (r *replay) damaged(d Damage, step int) {
	place := -1
	if len(r.damages) < maxDamages {
		place = len(r.damages)
		r.damages = append(r.damages, d)
	} else {
		r.more++
	}
	if d.Loss == LossUnknown {
		r.doubt = step
	}
	if d.Loss == LossUnknown || d.Loss == LossBatch && d.Batch.Partition < 0 {
		r.gaps = append(r.gaps, gap{step, place})
	}
}

// whole is the step of a damage that may have hidden anything, as a file was not read.
const whole = math.MaxInt

type laneTail struct {
	step int
	next batchfmt.Seq
}

// open opens all segments and reads their fixed parts.
func (r *replay) open() error {
	names, err := r.fs.list(r.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		number, salt, ok := parseSegmentName(name)
		switch {
		case ok:
			if err := r.openSegment(name, segmentHeader{number: number, salt: salt, binding: r.binding}); err != nil {
				return err
			}
		case filepath.Ext(name) == segmentSuffix:
			r.damaged(Damage{File: name, Loss: LossUnknown,
				Reason: "its name is not that of a segment, so it was not read"}, whole)
		}
	}
	slices.SortStableFunc(r.segments, func(a, b *segment) int { return cmp.Compare(a.number, b.number) })
	return nil
}

func (r *replay) openSegment(name string, fallback segmentHeader) error {
	f, err := r.fs.open(filepath.Join(r.dir, name))
	if err != nil {
		return err
	}
	seg := &segment{name: name, f: f}
	r.segments = append(r.segments, seg)
	if seg.size, err = f.size(); err != nil {
		return err
	}
	b := make([]byte, min(seg.size, dataStart))
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return fmt.Errorf("outbox: read %s: %w", name, err)
	}
	h, err := readHeading(name, b, fallback)
	if err != nil {
		return err
	}
	if h.intact && !r.binding.fits(h.header.binding) {
		return &BindingError{Dir: r.dir, Have: h.header.binding, Want: r.binding}
	}
	if h.intact && h.header.binding.ProducerID != batchfmt.NoProducer {
		r.binding.ProducerID = h.header.binding.ProducerID
	}
	if h.intact && (h.header.number != fallback.number || h.header.salt != fallback.salt) {
		h.damages = append(h.damages, Damage{File: name, Loss: LossNone,
			Reason: "it was renamed from " + segmentName(h.header.number, h.header.salt)})
	}
	if !h.intact && h.synced == 0 && seg.size > dataStart { // the header is durable before anything stands behind it
		h.damages = append(h.damages, Damage{File: name, Bytes: seg.size, Loss: LossUnknown,
			Reason: "no copy of the header is intact"})
	}
	seg.segmentHeader, seg.entryStamp, seg.synced = h.header, h.header.stamp(), h.synced
	for _, d := range h.damages {
		r.damaged(d, whole)
	}
	return nil
}

// read takes all segments in.
func (r *replay) read() error {
	for _, seg := range r.segments {
		w := walk{window: window{r: seg.f, size: seg.size}, stamp: seg.entryStamp, synced: seg.synced}
		err := w.run(func(s *seen) error {
			r.step++
			if s.gap > 0 {
				r.sawGap(seg, s)
			} else {
				r.saw(seg, s)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("outbox: read %s: %w", seg.name, err)
		}
	}
	return nil
}

func (r *replay) saw(seg *segment, s *seen) {
	e := &s.entry
	if s.late {
		r.late = append(r.late, *e)
	}
	hadBody := r.live[e.id] != nil && r.live[e.id].body
	h, ended := r.apply(e, e.kind == kindBatch && !s.badBody)
	if ended != nil && ended.seg != nil {
		ended.seg.live -= ended.stored
	}
	if e.kind == kindBatch || e.kind == kindTrace {
		r.follow(e)
	}
	tail := r.tails[e.partition]
	switch e.kind {
	case kindLane:
		r.tails[e.partition] = laneTail{step: r.step, next: max(e.base+1, tail.next)}
	case kindNotStored: // its sequences are free
		r.tails[e.partition] = laneTail{step: tail.step, next: min(tail.next, e.base)}
	}
	if s.badBody {
		r.damaged(Damage{File: seg.name, Offset: s.at, Bytes: e.size(), Loss: LossBatch,
			Reason: "the batch is not what was put", Batch: &Batch{ID: e.id}}, r.step)
	}
	if h == nil || s.badBody && hadBody {
		return
	}
	r.place(h, e, seg, s)
}

// place notes where a batch is: the latest copy counts.
func (r *replay) place(h *held, e *entry, seg *segment, s *seen) {
	if h.seg != nil {
		h.seg.live -= h.stored
	}
	h.seg, h.at, h.stored, h.step = seg, s.at, e.size(), r.step
	h.body = e.kind == kindBatch && !s.badBody
	if e.kind == kindTrace {
		h.state = max(h.state, e.state)
		h.lost = e.state == Pending
	}
	seg.live += h.stored
}

// follow looks whether a batch goes on where its lane ended. When it does not and there was
// a gap since, the gap held what is between.
func (r *replay) follow(e *entry) {
	tail := r.tails[e.partition]
	if tail.step > 0 && e.base < tail.next && e.replaced == 0 {
		return // a copy of an older one
	}
	r.tails[e.partition] = laneTail{step: r.step, next: e.last + 1}
	if len(r.gaps) == 0 || tail.step == 0 || e.base <= tail.next {
		return
	}
	last := r.gaps[len(r.gaps)-1]
	if last.step <= tail.step || last.step == whole || last.damage < 0 {
		return
	}
	d := &r.damages[last.damage]
	if g := d.Batch; g != nil && g.Base == tail.next && g.Last == e.base-1 {
		g.Partition = e.partition
		return
	}
	d.Missing = append(d.Missing, Range{Partition: e.partition, First: tail.next, Last: e.base - 1})
}

func (r *replay) sawGap(seg *segment, s *seen) {
	d := Damage{File: seg.name, Offset: s.at, Bytes: s.gap, Loss: LossUnknown, Batch: s.guess, Reason: "no entry can be read here"}
	switch {
	case s.gap < smallestTwin:
		d.Loss, d.Reason = LossNone, "a mark is not intact"
	case s.guess != nil:
		d.Loss, d.Reason = LossBatch, "the header of a batch is not intact"
	}
	r.damaged(d, r.step)
}

// uncertain reports whether a gap, behind a step, may hide batches of any lane.
func (r *replay) uncertain(step int) bool {
	return slices.ContainsFunc(r.gaps, func(g gap) bool {
		if g.step < step || g.damage < 0 {
			return g.step >= step
		}
		d := &r.damages[g.damage]
		return d.Batch == nil || d.Batch.Partition < 0
	})
}

// found is the report.
func (r *replay) found() *Found {
	for _, h := range r.live {
		h.doubtful = h.state == Pending && h.step < r.doubt
	}
	f := &Found{Binding: r.binding, Lanes: r.ledger.found()}
	r.lostBefore(f)
	for i := range f.Lanes {
		f.Lanes[i].Uncertain = r.uncertain(r.tails[f.Lanes[i].Partition].step)
	}
	for i := range r.damages {
		d := &r.damages[i]
		if b := d.Batch; b != nil && b.ID != 0 {
			d.resolve(r.live[b.ID])
		}
	}
	f.Uncertain = r.uncertain(0)
	if len(r.damages) > 0 {
		f.Damage = &DamageError{Dir: r.dir, Damages: r.damages, More: r.more}
	}
	return f
}

// lostBefore lists the batches whose bytes were damaged when they were moved.
func (r *replay) lostBefore(f *Found) {
	for i := range f.Lanes {
		for _, b := range f.Lanes[i].Batches {
			if h := r.live[b.ID]; h.lost && b.Damaged {
				r.damaged(Damage{File: h.seg.name, Offset: h.at, Bytes: h.stored, Loss: LossBatch,
					Reason: "the bytes of the batch were damaged before", Batch: &Batch{ID: b.ID}}, r.step)
			}
		}
	}
}

// resolve says what the damage to a batch costs, when everything was read.
func (d *Damage) resolve(h *held) {
	switch {
	case h == nil:
		d.Batch, d.Loss, d.Reason = nil, LossNone, d.Reason+"; it has its outcome"
	case h.body:
		d.Batch, d.Loss, d.Reason = nil, LossNone, d.Reason+"; there is a copy"
	default:
		b := h.batch()
		d.Batch = &b
		if h.state == Unknown { // its bytes are not needed any more
			d.Loss = LossNone
		}
	}
}

func (r *replay) close() error {
	var errs []error
	for _, seg := range r.segments {
		errs = append(errs, seg.f.Close())
	}
	return errors.Join(errs...)
}
