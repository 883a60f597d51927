package session

import (
	"bufio"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/buffers"
	"github.com/quoin-io/quoin/server/internal/partition"
	"github.com/quoin-io/quoin/server/internal/planted"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/wire"
)

const (
	// maxInFlight is how many batches of a lane may be without a result: as many as the
	// partition remembers with all that a retry needs.
	maxInFlight = producerstate.WindowSize
	// maxLanes bounds the lanes of a connection, over all of its streams.
	maxLanes = 16384
)

// A laneStream is a stream of lanes. Its reader is the goroutine that serves the stream
// and the only one that touches lanes; its writer is results.run.
type laneStream struct {
	s       *session
	stream  *quic.Stream
	in      *bufio.Reader
	lanes   map[uint32]*lane
	out     *resultWriter
	records batchfmt.Reader
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

func serveLanes(s *session, stream *quic.Stream, r *bufio.Reader, first *wire.OpenLane) {
	ls := &laneStream{s: s, stream: stream, in: r, lanes: make(map[uint32]*lane)}
	ls.out = newResultWriter(s, stream)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ls.out.run()
	}()
	if s.frameEnd(true, first) {
		s.cut()
	}
	ls.open(first)
	err := ls.read()
	for _, l := range ls.lanes {
		ls.close(l)
	}
	ls.out.finish(err)
	<-done
}

// close lets go of a lane. The grant is given back when the owner has nothing of the
// lane under way any more: until then whoever takes the id over must wait for it.
func (ls *laneStream) close(l *lane) {
	delete(ls.lanes, l.num)
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

func (ls *laneStream) frame(h wire.Header) error {
	if ls.in.Buffered() < h.Size {
		// The rest of a frame must come at some speed, as it holds memory meanwhile.
		ls.stream.SetReadDeadline(time.Now().Add(frameTimeout(h.Size)))
		defer ls.stream.SetReadDeadline(time.Time{})
	}
	var in io.Reader = ls.in
	if at := ls.s.frameStart(true, h.Kind, wire.HeaderSize+h.Size); at >= 0 {
		in = &cutReader{r: ls.in, left: at - wire.HeaderSize, cut: ls.s.cut}
	}
	switch h.Kind {
	case wire.KindProduce:
		return ls.produce(in, h)
	case wire.KindOpenLane:
		payload, err := wire.ReadPayload(in, h, nil)
		if err != nil {
			return err
		}
		var m wire.OpenLane
		if err := wire.DecodeInto(&m, payload); err != nil {
			return err
		}
		if ls.s.frameEnd(true, &m) {
			ls.s.cut()
		}
		ls.open(&m)
		return nil
	case wire.KindConfirmed:
		payload, err := wire.ReadPayload(in, h, nil)
		if err != nil {
			return err
		}
		var m wire.Confirmed
		if err := wire.DecodeInto(&m, payload); err != nil {
			return err
		}
		if ls.s.frameEnd(true, &m) {
			ls.s.cut()
		}
		if l := ls.lanes[m.Lane]; l != nil && l.open.Load() {
			l.part.Confirm(l.opening, m.Through)
		}
		return nil
	}
	return &wire.FrameError{Kind: h.Kind, Field: "kind", Reason: "does not belong on a lane stream"}
}

// open starts to open a lane; the partition's owner answers when older work of the lane
// is done.
func (ls *laneStream) open(m *wire.OpenLane) {
	refuse := func(e *wire.Error) { ls.out.message(&wire.LaneRefused{Lane: m.Lane, Err: *e}) }
	if l := ls.lanes[m.Lane]; l != nil {
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
	ls.lanes[l.num] = l
	ls.s.lanes.Add(1)
	ls.out.allow(len(ls.lanes))
}

// produce reads one batch into memory from the budget, checks its bytes and hands it to
// the partition's owner. Only a lane that is open is worth the memory.
func (ls *laneStream) produce(in io.Reader, h wire.Header) error {
	head := make([]byte, 0, wire.ProduceHead)
	head, err := wire.ReadPayload(in, wire.Header{Kind: h.Kind, Size: min(h.Size, wire.ProduceHead)}, head)
	if err != nil {
		return err
	}
	if len(head) < wire.ProduceHead {
		return &wire.FrameError{Kind: h.Kind, Field: "size", Reason: "is less than the head"}
	}
	num, confirmed := wire.PeekProduce(head)
	l := ls.lanes[num]
	if l == nil || !l.open.Load() {
		return ls.skip(in, h, num, confirmed, wire.Errorf(wire.CodeInvalidLane, "lane %d is not open on this stream", num))
	}
	buf := ls.s.in.Get(h.Size)
	if buf == nil {
		return ls.skip(in, h, num, confirmed, wire.Errorf(wire.CodeThrottled, "the memory for frames is in use"))
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
	if failure := ls.submit(l, &m, buf); failure != nil {
		ls.refuse(m.Lane, m.Number(), failure)
		buf.Release()
	}
	return nil
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
	if err := batchfmt.CheckRecords(b, &ls.records); err != nil && !planted.RecordsUnchecked {
		return wire.Errorf(wire.CodeCorruptBatch, "%v", err)
	}
	return nil
}

// skip reads the rest of a frame that is not worth memory, and refuses its batch.
func (ls *laneStream) skip(in io.Reader, h wire.Header, num uint32, confirmed batchfmt.Seq, failure *wire.Error) error {
	rest := h.Size - wire.ProduceHead
	batch := make([]byte, min(rest, batchfmt.HeaderSize2))
	if _, err := io.ReadFull(in, batch); err != nil {
		return unexpected(err)
	}
	if _, err := io.CopyN(io.Discard, in, int64(rest-len(batch))); err != nil {
		return unexpected(err)
	}
	m := wire.Produce{ConfirmedThrough: confirmed, Batch: batch}
	ls.refuse(num, m.Number(), failure)
	return nil
}

func (ls *laneStream) refuse(num uint32, base batchfmt.Seq, e *wire.Error) {
	ls.s.l.cfg.Counters.Batches.Answer(e.Code, false)
	ls.out.result(wire.ProduceResult{
		Lane: num, BaseSequence: base, Code: e.Code, Expected: e.Expected, BaseOffset: -1,
		PersistedThrough: -1, RetryAfter: e.RetryAfter, Detail: e.Detail,
	})
}
