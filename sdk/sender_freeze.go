package sdk

import (
	"errors"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/outbox"
)

// sendDue freezes and sends what is due while the lane has room for it.
func (s *sender) sendDue() {
	for {
		now := time.Now()
		switch batch := s.takeDue(now); {
		case batch == nil:
			return
		case batch.Refused != nil:
			s.endUnsent(batch, batch.Refused)
		case !s.freeze(now, batch):
			return
		default:
			s.perform()
		}
	}
}

// takeDue takes the batch whose turn it is; nil for none. One that is refused has its turn when
// those in front of it have ended, whether there is a connection or not.
func (s *sender) takeDue(now time.Time) *records {
	room, idle := s.core.Room(now), s.core.Idle()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stopping != nil { // since this step began: nothing may come behind what was not stored
		return nil
	}
	parked, refuses := s.mu.parked, s.mu.batcher.Refuses()
	s.mu.room, s.mu.idle = room && parked == nil && !refuses, idle
	switch {
	case parked != nil && room:
		s.mu.parked = nil
		return parked
	case parked != nil, s.core.Stopped() != nil:
		return nil
	case refuses && idle:
		return s.mu.batcher.Take()
	case refuses, !room, !s.mu.batcher.Due(now, idle):
		return nil
	}
	return s.mu.batcher.Take()
}

// freeze gives a batch its sequences and its bytes, for good, and sends it. It reports false
// when the batch has to wait until there is room in the outbox.
func (s *sender) freeze(now time.Time, batch *records) bool {
	frame := s.p.frames.Get().(*[]byte)
	f := &frozen{sender: s, records: batch, frame: frame}
	f.Base, f.Count = s.core.Next(), len(batch.Tags)
	f.Deadline = batch.First.Add(s.p.config.deliveryTimeout)
	f.Tag = f
	err := s.sealAs(f, s.p.epoch.current())
	if err == nil {
		err = s.keep(f)
	}
	switch {
	case errors.Is(err, ErrOutboxFull), errors.Is(err, outbox.ErrNoSpace):
		s.waitsFor.Store(&err)
		s.recycle(frame)
		return !s.park(batch)
	case err != nil: // a limit of the format, or the outbox: no sequence is spent
		s.recycle(frame)
		batch.Refused = err
		s.putBack(batch)
		return true
	}
	for i := range batch.Tags {
		if w := batch.Tags[i].wait; w != nil {
			w.record = i
			w.frozen.Store(f)
		}
	}
	s.mu.Lock()
	s.mu.moved.Broadcast()
	s.mu.Unlock()
	s.core.Enqueue(now, &f.Batch)
	return true
}

// park keeps a batch until the outbox has room, unless it is over a limit that was lowered
// meanwhile.
func (s *sender) park(batch *records) bool {
	s.mu.Lock()
	fits := s.mu.batcher.Fits(batch)
	if fits {
		s.mu.parked = batch
		s.mu.moved.Broadcast()
	}
	s.mu.Unlock()
	if !fits {
		s.putBack(batch)
	}
	return fits
}

// putBack puts a batch that was not frozen in front of what waits.
func (s *sender) putBack(batch *records) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.batcher.Return(batch)
	s.mu.moved.Broadcast()
}

// sealAs gives f its bytes under an epoch, and with them its digest and its token. Plain
// ones have no epoch and no token.
func (s *sender) sealAs(f *frozen, epoch batchfmt.Epoch) error {
	f.Epoch, s.lastEpoch = epoch, max(s.lastEpoch, epoch)
	sealed, err := s.seal((*f.frame)[:0], f.records, f.Base, epoch)
	*f.frame = sealed
	if err != nil {
		return err
	}
	parsed, err := batchfmt.Parse(sealed[frameRoom:])
	if err != nil {
		panic("sdk: a batch that was just sealed cannot be parsed: " + err.Error())
	}
	f.Digest = parsed.Digest()
	if s.p.plain() {
		return nil
	}
	f.token = s.tokenOf(f)
	return nil
}

func (s *sender) tokenOf(f *frozen) Token {
	return Token{topic: s.p.topic, topicID: s.p.topicID, partition: int32(s.partition), producerID: s.p.ID(),
		epoch: uint32(f.Epoch), first: int64(f.Base), records: int32(f.Count), digest: f.Digest, key: s.p.key}
}

// seal builds the frame: room for its head, then the batch. A batch that compression
// made larger than the topic takes is sealed again without.
func (s *sender) seal(frame []byte, batch *records, base batchfmt.Seq, epoch batchfmt.Epoch) ([]byte, error) {
	var room [frameRoom]byte
	frame = append(frame, room[:]...)
	seal := batchfmt.Seal{Version: batchfmt.Version2, Codec: s.p.config.compression.codec(),
		ProducerID: s.p.identity.ProducerID, Epoch: epoch, BaseSequence: base, Position: batch.Position}
	if s.p.plain() {
		seal = batchfmt.Seal{Version: batchfmt.Version1, Codec: seal.Codec}
	}
	sealed, err := batch.Builder.Seal(frame, seal)
	if seal.Codec != batchfmt.CodecNone && (err != nil || int64(len(sealed)-frameRoom) > s.p.limit.Load()) {
		seal.Codec = batchfmt.CodecNone
		sealed, err = batch.Builder.Seal(frame, seal)
	}
	return sealed, err
}

func (c Compression) codec() batchfmt.Codec {
	switch c {
	case Snappy:
		return batchfmt.CodecSnappy
	case Zstd:
		return batchfmt.CodecZstd
	}
	return batchfmt.CodecNone
}

// recycle takes the buffer of a frame back. No write uses it: writes are this
// goroutine's, and a connection keeps nothing of them.
func (s *sender) recycle(frame *[]byte) {
	if cap(*frame) <= keptFrame {
		s.p.frames.Put(frame)
	}
}
