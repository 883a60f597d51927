package session

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/buffers"
	"github.com/quoin-io/quoin/server/internal/partition"
	"github.com/quoin-io/quoin/server/internal/planted"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/wire"
	"github.com/quoin-io/quoin/wire/copies"
)

const (
	// maxInFlight is how many batches of a lane may be without a result: as many as the
	// partition remembers with all that a retry needs.
	maxInFlight = producerstate.WindowSize
	// maxLanes bounds the lanes of a connection, over all of its streams.
	maxLanes = 16384
)

// A laneStream is a stream of lanes. Its reader is the goroutine that serves the stream; its
// writer is results.run. A frame is taken once, in the order of the stream: when the reader
// has it as a whole, or when a copy of it comes before.
type laneStream struct {
	s      *session
	stream *quic.Stream
	in     *copies.Reader
	out    *resultWriter

	mu struct { // held while a frame is taken
		sync.Mutex
		next    uint64 // where the next frame to be taken begins, in bytes of the stream
		over    bool   // nothing is taken any more
		lanes   map[uint32]*lane
		records batchfmt.Reader
	}
}

// A lane is one lane of a stream. It is the sink for the results of its batches.
type lane struct {
	num      uint32
	out      *resultWriter
	part     *partition.Partition
	grant    *partition.Grant // nil in a plain lane
	opening  *partition.Opening
	open     atomic.Bool // set by the partition's owner
	refused  atomic.Bool // likewise
	inFlight atomic.Int32
}

// Result takes the result of a batch from the partition's owner. It does not block.
func (l *lane) Result(r wire.ProduceResult) {
	l.inFlight.Add(-1)
	r.Lane = l.num
	l.out.result(r)
	l.out.owe(-1)
}

// serveLanes serves a stream whose first frame was just read.
func serveLanes(s *session, stream *quic.Stream, r *copies.Reader, first *wire.OpenLane) {
	ls := &laneStream{s: s, stream: stream, in: r}
	ls.mu.lanes = make(map[uint32]*lane)
	ls.mu.next = r.At()
	ls.out = newResultWriter(s, stream)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ls.out.run()
	}()
	if s.frameEnd(true, first) {
		s.cut()
	}
	ls.mu.Lock()
	ls.open(first)
	ls.mu.Unlock()
	s.carries(ls)
	err := ls.read()
	s.carriesNoMore(ls)
	ls.end()
	ls.out.finish(err)
	<-done
}

// end lets go of all lanes. Copies that come yet find nothing to do.
func (ls *laneStream) end() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.mu.over = true
	for _, l := range ls.mu.lanes {
		ls.close(l)
	}
}

// close lets go of a lane; mu is held, as for all that deals with lanes. The grant is given back when the owner has nothing of the
// lane under way any more: until then whoever takes the id over must wait for it.
func (ls *laneStream) close(l *lane) {
	delete(ls.mu.lanes, l.num)
	ls.s.lanes.Add(-1)
	b := ls.s.l.cfg.Broker
	l.part.CloseLane(l.opening, func() {
		if l.grant != nil {
			b.Release(l.grant, l.part)
		}
	})
}

// read takes frames until the stream ends. Its error is nil when the client finished.
func (ls *laneStream) read() error {
	for {
		h, err := wire.ReadHeader(ls.in)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := ls.frame(h); err != nil {
			return err
		}
	}
}

// frame reads the frame whose header was just read, and takes it unless a copy of it was.
func (ls *laneStream) frame(h wire.Header) error {
	if ls.in.Buffered() < h.Size {
		// The rest of a frame must come at some speed, as it holds memory meanwhile.
		ls.stream.SetReadDeadline(time.Now().Add(frameTimeout(h.Size)))
		defer ls.stream.SetReadDeadline(time.Time{})
	}
	at := ls.in.At() - wire.HeaderSize
	var in io.Reader = ls.in
	if cut := ls.s.frameStart(true, h.Kind, wire.HeaderSize+h.Size); cut >= 0 {
		in = &cutReader{r: ls.in, left: cut - wire.HeaderSize, cut: ls.s.cut}
	}
	switch h.Kind {
	case wire.KindProduce:
		return ls.produce(in, h, at)
	case wire.KindOpenLane, wire.KindConfirmed:
		payload, err := wire.ReadPayload(in, h, nil)
		if err != nil {
			return err
		}
		m, err := wire.Decode(h.Kind, payload)
		if err != nil {
			return err
		}
		if ls.s.frameEnd(true, m) {
			ls.s.cut()
		}
		ls.take(at, h, func() { ls.small(m) })
		return nil
	}
	return &wire.FrameError{Kind: h.Kind, Field: "kind", Reason: "does not belong on a lane stream"}
}

// take does what the frame at a place of the stream asks for, unless it was done when a copy
// of the frame came. It reports whether act was called.
func (ls *laneStream) take(at uint64, h wire.Header, act func()) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if at < ls.mu.next && !planted.CopyTwice {
		return false
	}
	ls.mu.next = at + uint64(wire.HeaderSize+h.Size)
	act()
	return true
}

// small takes a frame that is not a batch. mu is held.
func (ls *laneStream) small(m wire.Message) {
	switch m := m.(type) {
	case *wire.OpenLane:
		ls.open(m)
	case *wire.Confirmed:
		if l := ls.mu.lanes[m.Lane]; l != nil && l.open.Load() {
			l.part.Confirm(l.opening, m.Through)
		}
	}
}

// open starts to open a lane; mu is held. The partition's owner answers when older work of the lane
// is done.
func (ls *laneStream) open(m *wire.OpenLane) {
	refuse := func(e *wire.Error) { ls.out.message(&wire.LaneRefused{Lane: m.Lane, Err: *e}) }
	if l := ls.mu.lanes[m.Lane]; l != nil {
		if !l.refused.Load() {
			refuse(wire.Errorf(wire.CodeInvalidLane, "lane %d is open on this stream already", m.Lane))
			return
		}
		ls.close(l) // its number is free again
	}
	if ls.s.lanes.Load() >= maxLanes {
		refuse(wire.Errorf(wire.CodeThrottled, "the connection has %d lanes already", maxLanes))
		return
	}
	b := ls.s.l.cfg.Broker
	part, failure := b.Partition(m.TopicID, m.Partition)
	if failure != nil {
		refuse(failure)
		return
	}
	l := &lane{num: m.Lane, out: ls.out, part: part}
	if m.ProducerID == batchfmt.NoProducer {
		var opened *wire.LaneOpened
		l.opening, opened = part.OpenPlain()
		l.open.Store(true)
		opened.Lane = m.Lane
		ls.add(l)
		ls.out.message(opened)
		return
	}
	grant, failure := b.Authorize(m, part)
	if failure != nil {
		refuse(failure)
		return
	}
	l.grant = grant
	ls.add(l)
	l.opening = part.OpenLane(partition.OpenRequest{
		Grant: grant, Epoch: m.Epoch, Acked: m.Acked, Sent: m.Sent, Fresh: m.Fresh,
		Reply: func(opened *wire.LaneOpened, failure *wire.Error) {
			if failure != nil {
				l.refused.Store(true)
				refuse(failure)
				return
			}
			l.open.Store(true)
			opened.Lane = m.Lane
			ls.out.message(opened)
		},
	})
}

func (ls *laneStream) add(l *lane) {
	ls.mu.lanes[l.num] = l
	ls.s.lanes.Add(1)
	ls.out.allow(len(ls.mu.lanes))
}

// produce reads one batch into memory from the budget, checks its bytes and hands it to
// the partition's owner. Only a lane that is open is worth the memory, and only a batch that
// was not taken from a copy.
func (ls *laneStream) produce(in io.Reader, h wire.Header, at uint64) error {
	head := make([]byte, 0, wire.ProduceHead)
	head, err := wire.ReadPayload(in, wire.Header{Kind: h.Kind, Size: min(h.Size, wire.ProduceHead)}, head)
	if err != nil {
		return err
	}
	if len(head) < wire.ProduceHead {
		return &wire.FrameError{Kind: h.Kind, Field: "size", Reason: "is less than the head"}
	}
	num, confirmed := wire.PeekProduce(head)
	if !ls.isOpen(num) {
		return ls.skip(in, h, at, num, confirmed, wire.Errorf(wire.CodeInvalidLane, "lane %d is not open on this stream", num))
	}
	buf := ls.s.in.Get(h.Size)
	if buf == nil {
		return ls.skip(in, h, at, num, confirmed, wire.Errorf(wire.CodeThrottled, "the memory for frames is in use"))
	}
	copy(buf.B, head)
	if _, err := io.ReadFull(in, buf.B[len(head):]); err != nil {
		buf.Release()
		return unexpected(err)
	}
	var m wire.Produce
	if err := wire.DecodeInto(&m, buf.B); err != nil {
		buf.Release()
		return err
	}
	if ls.s.frameEnd(true, &m) {
		ls.s.cut()
	}
	if !ls.take(at, h, func() { ls.batch(&m, buf) }) {
		buf.Release()
	}
	return nil
}

func (ls *laneStream) isOpen(num uint32) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.mu.lanes[num]
	return l != nil && l.open.Load()
}

// batch takes a batch; mu is held. From here on buf belongs to the partition, or is given back.
func (ls *laneStream) batch(m *wire.Produce, buf *buffers.Buffer) {
	failure := wire.Errorf(wire.CodeInvalidLane, "lane %d is not open on this stream", m.Lane)
	if l := ls.mu.lanes[m.Lane]; l != nil && l.open.Load() {
		failure = ls.submit(l, m, buf)
	}
	if failure != nil {
		ls.refuse(m.Lane, m.Number(), failure)
		buf.Release()
	}
}

// unexpected is an end of the stream within a frame.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// frameTimeout allows for slow links: 10 s, and a second for every 64 KiB.
func frameTimeout(size int) time.Duration {
	return 10*time.Second + time.Duration(size>>16)*time.Second
}

// submit hands the batch over; from then on buf belongs to the partition.
func (ls *laneStream) submit(l *lane, m *wire.Produce, buf *buffers.Buffer) *wire.Error {
	if m.Durability != wire.Synced && m.Durability != wire.Written {
		return wire.Errorf(wire.CodeInvalidDurability, "durability %d is not offered, only %d (synced) and %d (written)",
			m.Durability, wire.Synced, wire.Written)
	}
	batch, failure := checkBatch(m.Batch, l.opening)
	if failure != nil {
		return failure
	}
	if l.inFlight.Add(1) > maxInFlight {
		l.inFlight.Add(-1)
		return wire.Errorf(wire.CodeTooManyInFlight, "the lane has %d batches in flight already", maxInFlight)
	}
	ls.out.owe(1)
	failure = l.part.Produce(partition.Produce{
		Opening: l.opening, Batch: batch, Buffer: buf, Sink: l, Durability: m.Durability, Arrived: time.Now(),
		Confirmed: m.ConfirmedThrough, Unfit: ls.unfit(batch),
	})
	if failure != nil {
		l.inFlight.Add(-1)
		ls.out.owe(-1)
	}
	return failure
}

// checkBatch is what a batch must pass before the owner sees it.
func checkBatch(b []byte, o *partition.Opening) (batchfmt.Batch, *wire.Error) {
	batch, err := batchfmt.Parse(b)
	format, isFormat := errors.AsType[*batchfmt.FormatError](err)
	switch {
	case isFormat && format.Version != 0:
		return batch, wire.Errorf(wire.CodeVersionUnsupported, "this server takes batches of version 1 and 2, not %d: upgrade the server", format.Version)
	case isFormat && format.Newer && format.Field == "extension":
		return batch, wire.Errorf(wire.CodeVersionUnsupported, "%v: upgrade the server", err)
	case err != nil:
		return batch, wire.Errorf(wire.CodeCorruptBatch, "%v", err)
	case batch.Size() != len(b):
		return batch, wire.Errorf(wire.CodeCorruptBatch, "%d bytes follow the batch", len(b)-batch.Size())
	case batch.IsControl():
		return batch, wire.Errorf(wire.CodeUnsupportedRecords, "control batches are the server's own")
	case batch.ProducerID() != o.ProducerID():
		return batch, wire.Errorf(wire.CodeCorruptBatch, "the batch is sealed for another producer id")
	}
	if err := batch.Verify(); err != nil {
		return batch, wire.Errorf(wire.CodeCorruptBatch, "%v", err)
	}
	return batch, nil
}

// unfit walks the records here, so that the owner need not. The finding counts only if
// the batch would be appended: a retry of a stored batch is answered as a retry.
func (ls *laneStream) unfit(b batchfmt.Batch) *wire.Error {
	if err := batchfmt.CheckRecords(b, &ls.mu.records); err != nil && !planted.RecordsUnchecked {
		return wire.Errorf(wire.CodeCorruptBatch, "%v", err)
	}
	return nil
}

// skip reads the rest of a frame that is not worth memory, and refuses its batch unless that
// was taken from a copy.
func (ls *laneStream) skip(in io.Reader, h wire.Header, at uint64, num uint32, confirmed batchfmt.Seq, failure *wire.Error) error {
	rest := h.Size - wire.ProduceHead
	batch := make([]byte, min(rest, batchfmt.HeaderSize2))
	if _, err := io.ReadFull(in, batch); err != nil {
		return unexpected(err)
	}
	if _, err := io.CopyN(io.Discard, in, int64(rest-len(batch))); err != nil {
		return unexpected(err)
	}
	m := wire.Produce{ConfirmedThrough: confirmed, Batch: batch}
	ls.take(at, h, func() { ls.refuse(num, m.Number(), failure) })
	return nil
}

func (ls *laneStream) refuse(num uint32, base batchfmt.Seq, e *wire.Error) {
	ls.s.l.cfg.Counters.Batches.Answer(e.Code, false)
	ls.out.result(wire.ProduceResult{
		Lane: num, BaseSequence: base, Code: e.Code, Expected: e.Expected, BaseOffset: -1,
		PersistedThrough: -1, RetryAfter: e.RetryAfter, Detail: e.Detail,
	})
}
