package ceiling

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/wire/udp"
)

// client is the bare client. Its rounds come one after the other, from one goroutine.
type client struct {
	socket    udp.Conn
	transport *quic.Transport
	conn      *quic.Conn
	stream    *quic.Stream
	server    *child

	free    chan *frame   // every frame that is not in flight
	flying  chan *frame   // in the order in which they were sent
	ended   chan struct{} // closed when no more acks are read; then err is set
	err     error
	frames  uint64 // sent so far
	records uint64 // added to frames so far

	batchLatency  latencies // from sending a frame to its ack
	recordLatency latencies // from the intended start of a record to its ack
	closed        func() error
}

// startClient dials a "ceiling" child and sends as many as inflight frames ahead of acks.
func startClient(tb testing.TB, server *child, inflight int) *client {
	tb.Helper()
	c, err := dialClient(tb.Context(), server, inflight)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

func dialClient(ctx context.Context, server *child, inflight int) (*client, error) {
	socket, err := udp.Listen("udp4", "127.0.0.1:0", udp.Options{})
	if err != nil {
		return nil, err
	}
	c := &client{
		socket:    socket,
		transport: &quic.Transport{Conn: socket},
		server:    server,
		free:      make(chan *frame, inflight),
		flying:    make(chan *frame, inflight),
		ended:     make(chan struct{}),
	}
	c.closed = sync.OnceValue(c.end)
	for range inflight {
		c.free <- newFrame()
	}
	c.conn, err = dialQUIC(ctx, c.transport, server.greeting)
	if err == nil {
		c.stream, err = c.conn.OpenStreamSync(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.transport.Close(), socket.Close())
	}
	// Ends when the server has sent its last ack, or with the connection; close waits.
	go func() {
		defer close(c.ended)
		c.err = c.readAcks()
	}()
	return c, nil
}

var errTooManyAcked = errors.New("more frames acknowledged than were sent")

// readAcks returns io.EOF after the last ack.
func (c *client) readAcks() error {
	var b [8]byte
	for acked := uint64(0); ; {
		if _, err := io.ReadFull(c.stream, b[:]); err != nil {
			return err
		}
		now := time.Now()
		for upTo := binary.LittleEndian.Uint64(b[:]); acked < upTo; acked++ {
			select {
			case f := <-c.flying:
				c.settle(f, now)
			default:
				return errTooManyAcked
			}
		}
	}
}

func (c *client) settle(f *frame, now time.Time) {
	c.batchLatency.record(now.Sub(f.sent))
	for _, t := range f.intended {
		c.recordLatency.record(now.Sub(t))
	}
	c.free <- f
}

// next waits for a frame that may be filled.
func (c *client) next() (*frame, error) {
	select {
	case f := <-c.free:
		f.reset()
		return f, nil
	case <-c.ended:
		return nil, fmt.Errorf("wait for acks: %w", c.err)
	}
}

// add appends the next record to f.
func (c *client) add(f *frame) {
	f.add(c.records)
	c.records++
}

// send takes f over until its ack gives it back. The QUIC library is done with the bytes
// when Write returns; f stays away as it counts as one of the frames in flight.
func (c *client) send(f *frame) error {
	c.frames++
	f.seal(c.frames)
	f.sent = time.Now()
	c.flying <- f // has room for every frame there is
	_, err := c.stream.Write(f.buf)
	return err
}

// drain waits until every frame was acknowledged.
func (c *client) drain() error {
	idle := make([]*frame, 0, cap(c.free))
	for range cap(c.free) {
		f, err := c.next()
		if err != nil {
			return err
		}
		idle = append(idle, f)
	}
	for _, f := range idle {
		c.free <- f
	}
	return nil
}

// saturate is a round of full frames, one for each time that next says yes.
func (c *client) saturate(next func() bool) (outcome, error) {
	return c.round(func() error {
		for next() {
			f, err := c.next()
			if err != nil {
				return err
			}
			for range recordsMax {
				c.add(f)
			}
			if err := c.send(f); err != nil {
				return err
			}
		}
		return nil
	})
}

// paced is a round of perSecond records a second, one for each time that next says yes. A
// record goes out at once when a frame is free, else with all that queued meanwhile.
func (c *client) paced(next func() bool, perSecond int) (outcome, error) {
	return c.round(func() error {
		queue := newBacklog()
		sent := make(chan error, 1)
		go func() { sent <- c.sendBacklog(queue) }() // ends at queue.close, received below
		err := pace(next, perSecond, queue.put)
		queue.close()
		return errors.Join(err, <-sent)
	})
}

func (c *client) sendBacklog(queue *backlog) error {
	for queue.wait() {
		f, err := c.next()
		if err != nil {
			queue.fail(err)
			return err
		}
		f.intended = queue.take(f.intended, recordsMax)
		for range f.intended {
			c.add(f)
		}
		if err := c.send(f); err != nil {
			queue.fail(err)
			return err
		}
	}
	return nil
}

// round measures work, including the wait for its last ack.
func (c *client) round(work func() error) (outcome, error) {
	c.batchLatency.reset()
	c.recordLatency.reset()
	before := c.records
	watch, err := startWatch(c.server)
	if err != nil {
		return outcome{}, err
	}
	if err := errors.Join(work(), c.drain()); err != nil {
		return outcome{}, err
	}
	o, err := watch.stop()
	o.records = int(c.records - before)
	o.batch = c.batchLatency.snapshot()
	o.record = c.recordLatency.snapshot()
	return o, err
}

// close waits for the last ack, as a QUIC connection that is closed drops what it carries.
// Calls after the first return the same.
func (c *client) close() error { return c.closed() }

func (c *client) end() error {
	err := c.stream.Close()
	<-c.ended
	if c.err != io.EOF {
		err = errors.Join(err, c.err)
	}
	return errors.Join(err, c.conn.CloseWithError(0, ""), c.transport.Close(), c.socket.Close())
}
