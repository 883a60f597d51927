package transport

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
	"github.com/quoin-io/quoin/wire/copies"
)

const (
	// writeStall is how long a frame may wait for the server to take it. Beyond that the
	// stream is given up: its lanes open again elsewhere, which loses nothing.
	writeStall = 10 * time.Second
	readBuffer = 16 << 10
	// maxOpenings is how many lanes a stream carries over its life.
	maxOpenings = 256
)

// A LaneSink takes what the server says about one opening of a lane, from the reader of
// the stream: its methods must not block. After LaneLost nothing more comes.
type LaneSink interface {
	LaneOpened(*wire.LaneOpened)
	LaneRefused(*wire.Error)
	LaneResult(*wire.ProduceResult) // valid during the call only
	LaneLost(error)
}

// laneStream is a stream that carries lanes. Its reader goroutine ends with the stream.
// A stream without lanes is ended, and one that had many is given to no further lane: a
// server keeps every opening until the stream ends.
type laneStream struct {
	conn   *Conn
	slot   int
	stream *quic.Stream

	writing chan struct{} // holds a token while nobody writes
	written uint64        // bytes of whole frames; of who has the token
	over    chan struct{} // closed when mu.err is set
	taking  struct {      // held while a frame is given to its lanes; before mu
		sync.Mutex
		next    uint64 // where the next frame to be taken begins, in bytes of the stream
		results wire.ProduceResults
	}
	mu struct {
		sync.Mutex
		lanes map[uint32]*Lane
		next  uint32 // openings so far: each has a new number
		worn  bool   // no further lane may come
		err   error  // set when the stream is over
	}
}

// A Lane is one opening of a lane on a connection. Its methods may be called from
// different goroutines, but Open and Produce not concurrently with themselves or each
// other.
type Lane struct {
	on     *laneStream
	number uint32
	sink   LaneSink
}

// NewLane finds a stream for an opening. key spreads the lanes when they are more than
// the streams. Unless it was closed before, the sink hears LaneOpened or LaneRefused after
// Open, sooner or later LaneLost.
func (c *Conn) NewLane(key uint64, sink LaneSink) (*Lane, error) {
	c.acquire()
	for {
		s, err := c.laneStream(key)
		if err != nil {
			c.release(1)
			return nil, err
		}
		l := &Lane{on: s, sink: sink}
		err = s.add(l)
		if err == nil {
			return l, nil
		}
		if c.Err() != nil {
			c.release(1)
			return nil, c.Err()
		}
		c.leave(s) // it ended just now, or had its last opening: take another one
	}
}

// laneStream returns a new stream while there are fewer than slots, else that of key.
func (c *Conn) laneStream(key uint64) (*laneStream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slot := int(key % laneSlots)
	for i, s := range c.mu.slots {
		if s == nil {
			slot = i
			break
		}
	}
	if s := c.mu.slots[slot]; s != nil {
		return s, nil
	}
	q, err := c.quic.OpenStream()
	if err != nil {
		if cause := c.Err(); cause != nil {
			return nil, cause
		}
		return nil, lost(err)
	}
	s := &laneStream{conn: c, slot: slot, stream: q, writing: make(chan struct{}, 1), over: make(chan struct{})}
	s.writing <- struct{}{}
	s.mu.lanes = make(map[uint32]*Lane)
	c.mu.slots[slot] = s
	c.manager.wg.Go(s.read)
	return s, nil
}

var errWorn = errors.New("the stream takes no further lane")

func (s *laneStream) add(l *Lane) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.err != nil:
		return s.mu.err
	case s.mu.worn:
		return errWorn
	}
	l.number = s.mu.next
	s.mu.next++
	s.mu.worn = s.mu.next >= maxOpenings
	s.mu.lanes[l.number] = l
	return nil
}

// Open opens the lane: m.Lane is set here. A write that takes until deadline gives up
// the stream.
func (l *Lane) Open(m *wire.OpenLane, deadline time.Time) error {
	m.Lane = l.number
	return l.on.write(wire.Append(nil, m), deadline)
}

// Produce sends a batch. frame holds the sealed batch behind room for the frame's head,
// which is written here; nothing is copied and nothing is kept after the return. A write
// that takes until deadline gives up the stream.
func (l *Lane) Produce(frame []byte, head wire.Produce, deadline time.Time) error {
	head.Lane = l.number
	wire.PutProduceFrame(frame, &head)
	return l.on.write(frame, deadline)
}

// Confirm says up to where every outcome was given to the application, unless another lane is
// writing: then it reports false, as it is not worth waiting for. A write that takes as long as
// a frame may take gives up the stream.
func (l *Lane) Confirm(through batchfmt.Seq) (said bool, err error) {
	select {
	case <-l.on.writing:
	default:
		return false, l.on.ended()
	}
	defer l.on.unlock()
	var room [wire.HeaderSize + 12]byte
	err = l.on.put(wire.Append(room[:0], &wire.Confirmed{Lane: l.number, Through: through}), time.Now().Add(writeStall))
	return err == nil, err
}

// Close forgets the lane: its sink hears nothing more. It does not end what the server
// works on. With its last lane the stream ends, behind everything that was written.
func (l *Lane) Close() { l.on.remove(l.number) }

// Interrupt makes an Open or a Produce that waits for the server return, by giving up the
// stream.
func (l *Lane) Interrupt() { l.on.fail(errors.New("given up here")) }

// remove takes a lane off the stream and returns it, if it was there.
func (s *laneStream) remove(number uint32) *Lane {
	s.mu.Lock()
	l := s.mu.lanes[number]
	delete(s.mu.lanes, number)
	last := l != nil && len(s.mu.lanes) == 0
	s.mu.worn = s.mu.worn || last
	s.mu.Unlock()
	if last {
		// The slot is free at once; the reader goes on until the server has ended its side.
		s.conn.leave(s)
		s.finish()
	}
	if l != nil {
		s.conn.release(1)
	}
	return l
}

// finish ends our side of the stream, which no lane uses any more. If somebody writes yet,
// for a lane that was refused meanwhile, unlock ends it after that.
func (s *laneStream) finish() {
	select {
	case <-s.writing: // kept: nobody writes any more
	default:
		return
	}
	s.mu.Lock()
	alive := s.mu.err == nil
	if alive {
		s.mu.err = lost(errors.New("the stream has ended, no lane was left on it"))
		close(s.over)
	}
	s.mu.Unlock()
	if alive {
		_ = s.stream.Close() // fails only if the stream is over
	}
}

// write writes a frame until deadline, or as long as a frame may take, whichever is
// sooner.
func (s *laneStream) write(frame []byte, deadline time.Time) error {
	if stall := time.Now().Add(writeStall); stall.Before(deadline) {
		deadline = stall
	}
	if !time.Now().Before(deadline) {
		return lost(errors.New("it is too late to write"))
	}
	if err := s.lock(deadline); err != nil {
		return err
	}
	defer s.unlock()
	return s.put(frame, deadline)
}

// put is write for who has the lock.
func (s *laneStream) put(frame []byte, deadline time.Time) error {
	if err := s.ended(); err != nil {
		return err
	}
	s.stream.SetWriteDeadline(deadline)
	if _, err := s.stream.Write(frame); err != nil {
		s.fail(err)
		return s.ended()
	}
	s.conn.copier.Add(s.stream.StreamID(), s.written, frame)
	s.written += uint64(len(frame))
	return nil
}

func (s *laneStream) lock(deadline time.Time) error {
	select {
	case <-s.writing:
		return nil
	default:
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-s.writing:
		return nil
	case <-s.over:
		return s.ended()
	case <-timer.C:
		return lost(errors.New("other lanes kept the stream busy for too long"))
	}
}

func (s *laneStream) unlock() {
	s.writing <- struct{}{}
	s.mu.Lock()
	unused := len(s.mu.lanes) == 0
	s.mu.Unlock()
	if unused {
		s.finish()
	}
}

func (s *laneStream) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.err
}

// read dispatches what comes back to the lanes, until the stream ends.
func (s *laneStream) read() {
	in := copies.NewReader(s.stream, readBuffer)
	var payload []byte
	for {
		h, err := wire.ReadHeader(in)
		at := in.At() - wire.HeaderSize
		if err == nil {
			payload, err = wire.ReadPayload(in, h, payload)
		}
		if err == nil {
			s.conn.heard()
			err = s.take(at, h, payload)
		}
		if err != nil {
			s.fail(err)
			s.stream.CancelRead(quic.StreamErrorCode(wire.CodeOK)) // also of a stream that was ended here
			return
		}
	}
}

// dispatch gives a frame to its lanes. taking is held.
func (s *laneStream) dispatch(kind wire.Kind, payload []byte) error {
	results := &s.taking.results
	if kind == wire.KindProduceResults {
		if err := wire.DecodeInto(results, payload); err != nil {
			return err
		}
		for i := range results.Results {
			if l := s.lane(results.Results[i].Lane); l != nil {
				l.sink.LaneResult(&results.Results[i])
			}
		}
		return nil
	}
	m, err := wire.Decode(kind, payload)
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case *wire.LaneOpened:
		if l := s.lane(m.Lane); l != nil {
			m.Position = append([]byte(nil), m.Position...)
			l.sink.LaneOpened(m)
		}
	case *wire.LaneRefused:
		if l := s.remove(m.Lane); l != nil {
			l.sink.LaneRefused(&m.Err)
		}
	case *wire.Error:
		return m
	default:
		return &wire.FrameError{Kind: kind, Field: "kind", Reason: "does not belong on a lane stream"}
	}
	return nil
}

func (s *laneStream) lane(number uint32) *Lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.lanes[number]
}

// fail ends the stream, once, and tells its lanes.
func (s *laneStream) fail(err error) {
	if cause := s.conn.Err(); cause != nil {
		err = cause
	} else {
		err = lost(err)
	}
	s.mu.Lock()
	if s.mu.err != nil {
		s.mu.Unlock()
		return
	}
	s.mu.err = fmt.Errorf("lane stream: %w", err)
	lanes := s.mu.lanes
	s.mu.lanes = nil
	close(s.over)
	s.mu.Unlock()
	s.conn.leave(s)
	// Either of the two wakes whoever reads or writes.
	s.stream.CancelRead(quic.StreamErrorCode(wire.CodeOK))
	s.stream.CancelWrite(quic.StreamErrorCode(wire.CodeOK))
	for _, l := range lanes {
		l.sink.LaneLost(err)
	}
	s.conn.release(len(lanes))
}

// leave frees the slot of a stream that is over.
func (c *Conn) leave(s *laneStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.slots[s.slot] == s {
		c.mu.slots[s.slot] = nil
	}
}
