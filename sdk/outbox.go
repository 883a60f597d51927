package sdk

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/lane"
	"github.com/quoin-io/quoin/sdk/internal/outbox"
	"github.com/quoin-io/quoin/sdk/internal/planted"
	"github.com/quoin-io/quoin/wire"
)

// Errors of an outbox, for errors.Is.
var (
	// ErrOutboxInUse says that another producer, of this process or another, has the
	// directory.
	ErrOutboxInUse = outbox.ErrInUse
	// ErrOutboxFull says that batches without an outcome take half of the room that an outbox
	// has, which is 1 GiB. Records wait for it, up to the delivery timeout.
	ErrOutboxFull = outbox.ErrFull
	// ErrOutboxFailed says that the disk of the outbox failed. Nothing more is sent with it;
	// another Build finds what is on the disk.
	ErrOutboxFailed = outbox.ErrFailed
)

// An OutboxDamage lists what could not be read of an outbox: in which file and where, and which
// records of which partition are concerned as far as that is known.
type OutboxDamage = outbox.DamageError

// An OutboxBinding refuses an outbox that belongs to another producer, topic or incarnation of
// the topic; it says both.
type OutboxBinding = outbox.BindingError

// An OutboxFound is what [ProducerBuilder.Build] found in an outbox.
type OutboxFound struct {
	// Pending are batches that had no outcome, and Records those in them: they are sent
	// again, each as it was.
	Pending, Records int
	// Unknown are batches of which the application had been told that their outcome is
	// unknown, or whose bytes are damaged: they are not sent again, but settled.
	Unknown int
	// Damage is what could not be read; nil for nothing.
	Damage *OutboxDamage
}

// Outbox keeps the batches of a [ProducerBuilder.Named] producer on disk, in this directory,
// from before they are sent until they have their outcome. When the application crashes, the
// next Build with the same name and directory sends what is left again, each batch unchanged
// and so stored once. What became of them comes as an [EventSettled], there is no callback to
// call any more. [Producer.Found] says what was found, and Flush and Close wait for it; what
// Close has no time for stays for the next Build.
//
// A record is safe when its callback or Flush says so, as ever; that it was accepted does not
// make it safe. Each batch costs a sync of the local disk. The directory is made if need be; it
// belongs to one producer at a time and holds at most 1 GiB. Errors of Build: [ErrOutboxInUse],
// *[OutboxBinding], and those of the file system. Damage is no error: see [OutboxFound].
func (b *ProducerBuilder) Outbox(dir string) *ProducerBuilder {
	b.config.hasOutbox, b.config.outbox = true, dir
	return b
}

// Found is what Build found in the outbox; zero without an outbox.
func (p *Producer) Found() OutboxFound { return p.found }

// openOutbox opens the outbox of a producer that is about to be built, before its name is
// claimed: who cannot have the outbox fences nobody.
func (b *ProducerBuilder) openOutbox(info *wire.TopicInfo) (*outbox.Outbox, *outbox.Found, error) {
	if !b.config.hasOutbox {
		return nil, nil, nil
	}
	binding := outbox.Binding{Topic: b.topic, TopicID: info.ID, Producer: b.config.name}
	box, found, err := outbox.Open(b.config.outbox, binding, outbox.Options{})
	if err != nil {
		return nil, nil, fmt.Errorf("sdk: outbox %s: %w", b.config.outbox, err)
	}
	if planted.OutboxForgets {
		found.Lanes = nil
	}
	for _, l := range found.Lanes {
		if int(l.Partition) >= len(info.Partitions) {
			_ = box.Close() // nothing was put into it
			return nil, nil, fmt.Errorf("sdk: outbox %s: %w: it holds batches of partition %d, topic %q has %d",
				b.config.outbox, ErrUnknownPartition, l.Partition, b.topic, len(info.Partitions))
		}
	}
	return box, found, nil
}

// adopt starts the senders of the partitions that the outbox knows.
func (p *Producer) adopt(found *outbox.Found) {
	p.found.Damage = found.Damage
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closing { // with its client, meanwhile: what is in the outbox stays there
		return
	}
	for i := range found.Lanes {
		l := &found.Lanes[i]
		for _, b := range l.Batches {
			if mustSettle(l, &b) {
				p.found.Unknown++
				continue
			}
			p.found.Pending++
			p.found.Records += int(b.Last-b.Base) + 1
		}
		p.slots()[l.Partition].Store(newSender(p, int(l.Partition), nil, l))
	}
}

// mustSettle reports whether a batch of the outbox is not sent again.
func mustSettle(l *outbox.Lane, b *outbox.Batch) bool {
	return b.State == outbox.Unknown || b.Damaged || b.Doubtful || l.Uncertain
}

// resume makes the core of a lane that the outbox knows.
func (s *sender) resume(l *outbox.Lane) *lane.Core {
	// Without a batch the name may have been used without this outbox since.
	s.fresh = l.Uncertain || len(l.Batches) == 0
	r := lane.Resume{Next: l.Next, Epoch: l.Epoch, Fresh: s.fresh,
		Told: func(b *lane.Batch) bool { return b.Tag.(*frozen).told }}
	if l.Acked != nil {
		r.Acked = &wire.LanePoint{Sequence: l.Acked.Sequence, Offset: l.Acked.Offset, Digest: l.Acked.Digest}
	}
	deadline := time.Now().Add(s.p.config.deliveryTimeout)
	past := beforeLoss(l)
	if len(past) > 0 {
		r.Next = l.Through + 1
	}
	gap := false
	for i := range l.Batches {
		b := &l.Batches[i]
		if past[b.ID] {
			s.settlePast(b)
			continue
		}
		r.Next = max(r.Next, b.Last+1)
		// Behind what may turn out not to be stored, a position would hide that.
		told := mustSettle(l, b) || gap && s.p.config.position != nil
		gap = gap || told
		f := &frozen{sender: s, resumed: true, kept: b.ID, told: told}
		f.Base, f.Count, f.Epoch, f.Digest = b.Base, int(b.Last-b.Base)+1, b.Epoch, b.Digest
		f.Deadline, f.Tag = deadline, f
		f.token = s.tokenOf(f)
		if told && b.State != outbox.Unknown {
			s.mark(f.kept, s.p.outbox.Unknown)
		}
		r.Batches = append(r.Batches, &f.Batch)
		s.mu.accepted += uint64(f.Count) // Flush and Close wait for them
	}
	s.resumed = len(r.Batches)
	s.known = !s.fresh
	s.fresh = s.fresh || s.p.config.position != nil // it has to be opened at once
	return lane.NewResumed(r)
}

// beforeLoss are batches that were unknown when the lane began anew after a loss of data: what
// was put later, or is stored, has their sequences or lower ones. They say nothing of the lane.
func beforeLoss(l *outbox.Lane) map[outbox.ID]bool {
	past := map[outbox.ID]bool{}
	low := batchfmt.Seq(math.MaxInt64)
	for i := len(l.Batches) - 1; i >= 0; i-- {
		if b := &l.Batches[i]; b.Base >= low || b.Base <= l.Through {
			past[b.ID] = true
		} else {
			low = b.Base
		}
	}
	return past
}

// settlePast has a batch settled apart from the lane.
func (s *sender) settlePast(b *outbox.Batch) {
	if b.State != outbox.Unknown {
		s.mark(b.ID, s.p.outbox.Unknown)
	}
	f := &frozen{}
	f.Base, f.Count, f.Epoch, f.Digest = b.Base, int(b.Last-b.Base)+1, b.Epoch, b.Digest
	token := s.tokenOf(f)
	s.p.client.settler.add(unsettled{s.p, &token, b.ID})
}

// mark writes down what became of a batch, and reports whether that is durable where it has
// to be.
func (s *sender) mark(kept outbox.ID, as func(outbox.ID) error) bool {
	return s.p.mark(s.partition, kept, as)
}

func (p *Producer) mark(partition int, kept outbox.ID, as func(outbox.ID) error) bool {
	err := as(kept)
	if err == nil || errors.Is(err, outbox.ErrNoBatch) { // it has its outcome already
		return true
	}
	if errors.Is(err, outbox.ErrClosed) && p.closing.Load() {
		return false // settled after Close: the next Build asks once more
	}
	p.client.logger.Error("outcome not written to the outbox", "topic", p.topic, "partition", partition,
		"producer", p.ID(), "batch", uint64(kept), "error", err)
	return false
}

// beginAnew tells the outbox where a lane goes on of which it knew something else, or nothing.
func (s *sender) beginAnew(m *wire.LaneOpened) {
	if s.p.outbox == nil {
		return
	}
	var acked *outbox.Point
	if m.LastOffset >= 0 && m.LastDigest != 0 {
		acked = &outbox.Point{Sequence: m.LastSequence, Offset: m.LastOffset, Digest: m.LastDigest}
	}
	if err := s.p.outbox.SetLane(int32(s.partition), m.LastSequence, acked, s.openedAs); err != nil {
		s.p.client.logger.Error("lane not written to the outbox", "topic", s.p.topic, "partition", s.partition, "error", err)
	}
}

// keep puts a frozen batch into the outbox.
func (s *sender) keep(f *frozen) error {
	if s.p.outbox == nil {
		return nil
	}
	id, err := s.p.outbox.Put(int32(s.partition), (*f.frame)[frameRoom:])
	f.kept, f.unsynced = id, true
	return err
}

// keepAnew puts a batch that was sealed anew in the place of the one that it was.
func (s *sender) keepAnew(f *frozen) {
	if s.p.outbox == nil {
		return
	}
	id, err := s.p.outbox.Replace(f.kept, (*f.frame)[frameRoom:])
	if err == nil {
		f.kept, f.unsynced = id, true
		return
	}
	f.keepErr = err
}

// ready has the batch in memory and on disk, as it must be before it is sent.
func (s *sender) ready(f *frozen) error {
	if f.keepErr != nil {
		return f.keepErr
	}
	if f.frame == nil {
		frame := s.p.frames.Get().(*[]byte)
		var room [frameRoom]byte
		loaded, err := s.p.outbox.Load(append((*frame)[:0], room[:]...), f.kept)
		if err != nil {
			s.recycle(frame)
			return err
		}
		*frame, f.frame = loaded, frame
		if batch, err := batchfmt.Parse(loaded[frameRoom:]); err == nil {
			f.position = bytes.Clone(batch.Position())
		}
	}
	if f.unsynced {
		if err := s.p.outbox.Sync(); err != nil {
			return err
		}
		f.unsynced = false
	}
	return nil
}

// reopen takes the records out of a batch of the outbox, so that it can be sealed anew.
func (s *sender) reopen(f *frozen) error {
	if err := s.ready(f); err != nil {
		return err
	}
	batch, err := batchfmt.Parse((*f.frame)[frameRoom:])
	if err != nil {
		return err
	}
	f.records = s.p.batches.Get().(*records)
	f.records.Position = bytes.Clone(batch.Position())
	var r batchfmt.Reader
	if err := r.Reset(batch); err != nil {
		return err
	}
	for r.Next() {
		if err := f.records.Builder.Add(r.Record()); err != nil {
			return err
		}
	}
	return r.Err()
}

// endResumed tells what became of a batch that an earlier process had left.
func (s *sender) endResumed(f *frozen, o *lane.Outcome) {
	s.resumedStored(f, o)
	s.p.client.stats.batchesFromOutbox.Add(1)
	if s.resumed--; s.resumed == 0 {
		close(s.adopted)
	}
	if f.records != nil {
		f.records.Reset()
		s.p.batches.Put(f.records)
		f.records = nil
	}
	if o.Fate != lane.Stored {
		s.p.failures.Add(int64(f.Count))
	}
	if o.Fate == lane.Unknown {
		s.nowUnknown(f, s.publicCause(o.Cause)) // it is told when it is settled
	} else {
		s.p.settled(&f.token, s.resolutionOf(f, o))
	}
	if o.Fate == lane.Stored { // those in front of it had their outcome, and nobody has to be called
		s.confirm(f.Last())
	}
	s.countResumed(f)
}

// leaveResumed leaves a batch of an earlier process, which nobody was told of, to the next one.
func (s *sender) leaveResumed(f *frozen) {
	s.p.failures.Add(int64(f.Count))
	s.countResumed(f)
}

// countResumed has Flush and Close wait for a batch of the outbox no longer.
func (s *sender) countResumed(f *frozen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.decided += uint64(f.Count)
	s.mu.called += uint64(f.Count)
	s.wakeFlushes()
}

// noteSettled writes down what became of a batch that was told to be unknown.
func (p *Producer) noteSettled(partition int, kept outbox.ID, records int, m *wire.Resolved) {
	switch m.Outcome {
	case wire.ResolveStored:
		p.mark(partition, kept, func(id outbox.ID) error { return p.outbox.Stored(id, lastOffset(m.Offset, records)) })
	case wire.ResolveNever, wire.ResolveTopicGone:
		p.mark(partition, kept, p.outbox.NotStored)
	}
}

// lastOffset is that of the last record of a batch; -1 when nobody knows where it is.
func lastOffset(base batchfmt.Offset, records int) batchfmt.Offset {
	if base < 0 {
		return -1
	}
	return base + batchfmt.Offset(records) - 1
}
