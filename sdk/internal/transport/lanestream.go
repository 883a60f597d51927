package transport

import (
	"bufio"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/wire"
)

const (
	// writeStall is how long a frame may wait for the server to take it. Beyond that the
	// stream is given up: its lanes open again elsewhere, which loses nothing.
	writeStall = 10 * time.Second
	readBuffer = 16 << 10
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
type laneStream struct {
	conn   *Conn
	slot   int
	stream *quic.Stream

	writing sync.Mutex // held during a Write
	mu      struct {
		sync.Mutex
		lanes map[uint32]*Lane
		next  uint32
		err   error // set when the stream is over
	}
}

// A Lane is one opening of a lane on a connection. Its methods may be called from
// different goroutines, but Produce not concurrently with itself.
type Lane struct {
	on     *laneStream
	number uint32
	sink   LaneSink
}

// OpenLane opens a lane: m.Lane is set here. key spreads the lanes when they are more
// than the streams. The sink hears LaneOpened or LaneRefused, sooner or later LaneLost.
func (c *Conn) OpenLane(key uint64, m *wire.OpenLane, sink LaneSink) (*Lane, error) {
	c.acquire()
	s, err := c.laneStream(key)
	if err != nil {
		c.release(1)
		return nil, err
	}
	l := &Lane{on: s, sink: sink}
	if err := s.add(l); err != nil {
		c.release(1)
		return nil, err
	}
	m.Lane = l.number
	if err := s.write(wire.Append(nil, m)); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// laneStream returns a stream that no lane uses yet, or when all are in use that of key.
func (c *Conn) laneStream(key uint64) (*laneStream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slot := int(key % laneSlots)
	for i, s := range c.mu.slots {
		if s == nil || s.idle() {
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
	s := &laneStream{conn: c, slot: slot, stream: q}
	s.mu.lanes = make(map[uint32]*Lane)
	c.mu.slots[slot] = s
	c.manager.wg.Go(s.read)
	return s, nil
}

func (s *laneStream) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.lanes) == 0 && s.mu.err == nil
}

func (s *laneStream) add(l *Lane) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.err != nil {
		return s.mu.err
	}
	l.number = s.mu.next
	s.mu.next++
	s.mu.lanes[l.number] = l
	return nil
}

// Produce sends a batch. frame holds the sealed batch behind room for the frame's head,
// which is written here; nothing is copied and nothing is kept after the return.
func (l *Lane) Produce(frame []byte, head wire.Produce) error {
	head.Lane = l.number
	wire.PutProduceFrame(frame, &head)
	return l.on.write(frame)
}

// Close forgets the lane: its sink hears nothing more. It does not end what the server
// works on.
func (l *Lane) Close() {
	if l.on.remove(l.number) != nil {
		l.on.conn.release(1)
	}
}

// Interrupt makes a Produce that waits for the server return, by giving up the stream.
func (l *Lane) Interrupt() { l.on.fail(errors.New("given up here")) }

func (s *laneStream) remove(number uint32) *Lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.mu.lanes[number]
	delete(s.mu.lanes, number)
	return l
}

func (s *laneStream) write(frame []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.ended(); err != nil {
		return err
	}
	s.stream.SetWriteDeadline(time.Now().Add(writeStall))
	if _, err := s.stream.Write(frame); err != nil {
		s.fail(err)
		return s.ended()
	}
	return nil
}

func (s *laneStream) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.err
}

// read dispatches what comes back to the lanes, until the stream ends.
func (s *laneStream) read() {
	in := bufio.NewReaderSize(s.stream, readBuffer)
	var results wire.ProduceResults
	var payload []byte
	for {
		h, err := wire.ReadHeader(in)
		if err == nil {
			payload, err = wire.ReadPayload(in, h, payload)
		}
		if err == nil {
			err = s.dispatch(h.Kind, payload, &results)
		}
		if err != nil {
			s.fail(err)
			return
		}
	}
}

func (s *laneStream) dispatch(kind wire.Kind, payload []byte, results *wire.ProduceResults) error {
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
			s.conn.release(1)
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
