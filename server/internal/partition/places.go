package partition

import (
	"fmt"
	"slices"
	"sync"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerindex"
	"github.com/quoin-io/quoin/server/internal/seglog"
)

// maxIndexBytes bounds the memory of the producer indexes that are kept ready: one takes some
// hundred bytes, or some ten KiB if thousands of producers have written to its segment.
const maxIndexBytes = 4 << 20

// indexBytes is what an index takes besides what it says itself, about.
const indexBytes = 256

// places says where in the log the batches of a producer stand: an index for each segment,
// in memory for the active one, in a file for the others. An index that is missing or does
// not verify is made again from the segment by the look-up that needs it.
type places struct {
	position int64      // in the active segment, counted from where active begins; the owner's
	writing  sync.Mutex // held while a file is written; taken before the other one

	sync.Mutex
	base   batchfmt.Offset                            // of the active segment
	active *producerindex.Builder                     // of the active segment, from the offset from on
	from   batchfmt.Offset                            // above base after a start
	front  finder                                     // of what is before from; nil until somebody needs it
	sealed map[batchfmt.Offset]*producerindex.Builder // whose files are not written yet
	ready  map[batchfmt.Offset]*producerindex.Index
	bytes  int64 // of those that are ready
}

// finder is an index, wherever it is.
type finder interface {
	find(pid batchfmt.ProducerID, seq batchfmt.Seq) (producerindex.Run, bool, error)
	Versions() producerindex.Versions
}

type inMemory struct{ *producerindex.Builder }

func (b inMemory) find(pid batchfmt.ProducerID, seq batchfmt.Seq) (producerindex.Run, bool, error) {
	r, ok := b.Find(pid, seq)
	return r, ok, nil
}

type inFile struct{ *producerindex.Index }

func (x inFile) find(pid batchfmt.ProducerID, seq batchfmt.Seq) (producerindex.Run, bool, error) {
	if !x.MayHave(pid) {
		return producerindex.Run{}, false, nil
	}
	return x.Find(pid, seq)
}

// openPlaces begins with what is appended from now on, and removes the indexes of segments
// that are gone.
func (p *Partition) openPlaces() error {
	x := &p.places
	x.base, x.from, x.active = p.log.ActiveBase(), p.log.End(), new(producerindex.Builder)
	x.sealed = make(map[batchfmt.Offset]*producerindex.Builder)
	x.ready = make(map[batchfmt.Offset]*producerindex.Index)
	there := make(map[batchfmt.Offset]bool)
	for _, s := range p.log.Segments() {
		there[s.Base] = true
		if s.Base == x.base && x.from > x.base {
			// There is one if the last owner closed the partition, and it fits if nothing
			// was appended since.
			if index, err := producerindex.Open(p.cfg.FS, p.cfg.Dir, segmentOf(s)); err == nil {
				x.front = inFile{index}
			}
		}
	}
	_, err := producerindex.Sweep(p.cfg.FS, p.cfg.Dir, func(base batchfmt.Offset) bool { return there[base] })
	return err
}

func segmentOf(s seglog.SegmentInfo) producerindex.Segment {
	return producerindex.Segment{Base: s.Base, Check: s.Check, Next: s.Next}
}

// savePlaces writes the index of the active segment, so that the next owner need not walk
// over it. It is called when the owner is gone, and may fail.
func (p *Partition) savePlaces() error {
	x := &p.places
	segments := p.log.Segments()
	s := segments[len(segments)-1]
	if x.active.Versions() == 0 {
		return nil // nothing was appended
	}
	built := x.active
	if x.from != s.Base {
		built = new(producerindex.Builder)
		_, _, err := p.log.Headers(s.Base, s.Next, func(b batchfmt.Batch, pos int64) bool {
			built.Add(placeOf(b, pos))
			return true
		})
		if err != nil {
			return err
		}
	}
	if _, err := built.Write(p.cfg.FS, p.cfg.Dir, segmentOf(s)); err != nil {
		return err
	}
	return p.cfg.FS.SyncDir(p.cfg.Dir)
}

// place notes where the batches of a group stand that was just appended. A group never
// spans two segments, so if the log has begun a new one they are all in it.
func (p *Partition) place(batches []batchfmt.Batch) {
	x := &p.places
	if base := p.log.ActiveBase(); base != x.base {
		p.sealPlaces(base)
	}
	for _, b := range batches {
		if !b.IsControl() {
			x.active.Add(placeOf(b, x.position))
		}
		x.position += int64(b.Size())
	}
}

func placeOf(b batchfmt.Batch, position int64) producerindex.Batch {
	x := producerindex.Batch{
		PID: b.ProducerID(), Epoch: b.Epoch(), Base: b.BaseSequence(), Last: b.LastSequence(),
		Offset: b.BaseOffset(), Position: position,
	}
	if !b.IsControl() {
		x.Version = b.Version()
	}
	return x
}

// sealPlaces ends the index of the active segment: a helper writes it to its file.
func (p *Partition) sealPlaces(base batchfmt.Offset) {
	x := &p.places
	x.Lock()
	defer x.Unlock()
	old := x.base
	if x.from == old {
		x.sealed[old] = x.active
	}
	x.base, x.from, x.active, x.front = base, base, new(producerindex.Builder), nil
	x.position = 0
	p.helpers.Add(1)
	go func() { // ends when the file is written; end waits for it
		defer p.helpers.Done()
		for _, s := range p.log.Segments() {
			if s.Base == old {
				if _, err := p.indexOf(s); err != nil && !p.ending.Load() {
					p.cfg.Logger.Warn("producer index not made", "topic", p.cfg.Topic, "partition", p.cfg.Number, "segment", old, "error", err)
				}
			}
		}
	}()
}

// indexesOf are the indexes of one segment, newest part first.
func (p *Partition) indexesOf(s seglog.SegmentInfo) ([]finder, error) {
	x := &p.places
	x.Lock()
	active, front, from := x.active, x.front, x.from
	isActive := s.Base == x.base
	x.Unlock()
	if !isActive {
		f, err := p.indexOf(s)
		return []finder{f}, err
	}
	if from == s.Base {
		return []finder{inMemory{active}}, nil
	}
	if front == nil {
		built, err := p.walk(s.Base, from)
		if err != nil {
			return nil, err
		}
		front = inMemory{built}
		x.Lock()
		if x.base == s.Base {
			x.front = front
		}
		x.Unlock()
	}
	return []finder{inMemory{active}, front}, nil
}

// indexOf is the index of a segment that is not written any more. Where there is none that
// verifies it is made, and put into its file if that can be.
func (p *Partition) indexOf(s seglog.SegmentInfo) (finder, error) {
	x := &p.places
	x.Lock()
	index, built := x.ready[s.Base], x.sealed[s.Base]
	x.Unlock()
	if index != nil {
		return inFile{index}, nil
	}
	begun := s.Base == p.log.ActiveBase() // and the owner has not taken note of it yet
	s, there := p.log.Segment(s.Base)     // it may have grown since it was listed, and does not any more
	switch {
	case !there:
		return nil, fmt.Errorf("segment %d: %w", s.Base, seglog.ErrOutOfRange)
	case begun:
		built, err := p.walk(s.Base, s.Next)
		return inMemory{built}, err // for this time only: more will be appended
	}
	of := segmentOf(s)
	if built == nil {
		index, err := producerindex.Open(p.cfg.FS, p.cfg.Dir, of)
		if err == nil {
			x.keep(s.Base, index)
			return inFile{index}, nil
		}
		if !producerindex.MustRebuild(err) {
			p.cfg.Logger.Warn("producer index not read", "topic", p.cfg.Topic, "partition", p.cfg.Number, "segment", s.Base, "error", err)
		}
		if built, err = p.walk(s.Base, s.Next); err != nil {
			return nil, err
		}
	}
	x.writing.Lock() // two would use the same temporary file
	defer x.writing.Unlock()
	_, err := built.Write(p.cfg.FS, p.cfg.Dir, of)
	if err == nil {
		err = p.cfg.FS.SyncDir(p.cfg.Dir)
	}
	if err == nil {
		index, err = producerindex.Open(p.cfg.FS, p.cfg.Dir, of)
	}
	if err != nil { // the next look-up tries again
		return inMemory{built}, nil
	}
	x.keep(s.Base, index)
	return inFile{index}, nil
}

func (x *places) keep(base batchfmt.Offset, index *producerindex.Index) {
	x.Lock()
	defer x.Unlock()
	x.drop(base)
	for one := range x.ready { // in no order: a search goes through all of them, again and again
		if x.bytes+index.Bytes()+indexBytes <= maxIndexBytes {
			break
		}
		x.drop(one)
	}
	x.ready[base] = index
	x.bytes += index.Bytes() + indexBytes
	delete(x.sealed, base)
}

// drop lets go of an index that is ready, if it is. x is locked.
func (x *places) drop(base batchfmt.Offset) {
	if index := x.ready[base]; index != nil {
		x.bytes -= index.Bytes() + indexBytes
		delete(x.ready, base)
	}
}

// remake makes the index of a segment again, in place of one of which a part has gone bad since
// it was opened. The next one who asks for it puts it into its file.
func (p *Partition) remake(s seglog.SegmentInfo) error {
	x := &p.places
	x.Lock()
	active := s.Base == x.base
	if active {
		x.front = nil // indexesOf makes another one
	}
	x.Unlock()
	s, there := p.log.Segment(s.Base)
	if active || !there {
		return nil
	}
	built, err := p.walk(s.Base, s.Next)
	if err != nil {
		return err
	}
	x.Lock()
	defer x.Unlock()
	x.drop(s.Base)
	x.sealed[s.Base] = built
	return nil
}

// walk makes the index of what stands in a segment below an offset from its headers.
func (p *Partition) walk(base, to batchfmt.Offset) (*producerindex.Builder, error) {
	b := new(producerindex.Builder)
	_, _, err := p.log.Headers(base, to, func(x batchfmt.Batch, pos int64) bool {
		b.Add(placeOf(x, pos))
		return !p.ending.Load()
	})
	if err == nil && p.ending.Load() {
		err = errEnding
	}
	return b, err
}

// inRun is a sequence in the run that holds it.
type inRun struct {
	run producerindex.Run
	seq batchfmt.Seq
}

// findPlace looks for the batch of a lane that holds a sequence, newest segment first.
func (p *Partition) findPlace(pid batchfmt.ProducerID, seq batchfmt.Seq) (offset batchfmt.Offset, found bool, err error) {
	at, found, err := p.findRun(pid, seq)
	if !found || err != nil {
		return 0, false, err
	}
	return p.findInRun(at)
}

// findRun looks for the newest run of a lane that holds one of the sequences; of those in the
// same segment the first one counts.
func (p *Partition) findRun(pid batchfmt.ProducerID, seqs ...batchfmt.Seq) (at inRun, found bool, err error) {
	for _, s := range slices.Backward(p.log.Segments()) {
		at, found, err = p.findInSegment(s, pid, seqs)
		if producerindex.MustRebuild(err) {
			if err = p.remake(s); err == nil {
				at, found, err = p.findInSegment(s, pid, seqs)
			}
		}
		if found || err != nil {
			return at, found, err
		}
	}
	return inRun{}, false, nil
}

func (p *Partition) findInSegment(s seglog.SegmentInfo, pid batchfmt.ProducerID, seqs []batchfmt.Seq) (at inRun, found bool, err error) {
	indexes, err := p.indexesOf(s)
	if err != nil {
		return inRun{}, false, err
	}
	for _, x := range indexes {
		for _, seq := range seqs {
			run, ok, err := x.find(pid, seq)
			if ok || err != nil {
				return inRun{run, seq}, ok && err == nil, err
			}
		}
	}
	return inRun{}, false, nil
}

func (p *Partition) findInRun(at inRun) (offset batchfmt.Offset, found bool, err error) {
	_, _, err = p.log.Headers(at.run.FirstOffset, at.run.LastOffset+1, func(b batchfmt.Batch, _ int64) bool {
		if b.ProducerID() == at.run.PID && b.BaseSequence() <= at.seq && at.seq <= b.LastSequence() {
			offset, found = b.BaseOffset(), true
		}
		return !found && !p.ending.Load()
	})
	return offset, found, err
}
