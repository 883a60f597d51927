package session

import (
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/wire"
)

const (
	// spareAnswers is how many answers a stream may owe to a client besides those of what
	// its lanes may have in flight, twice over. A client that has more is not reading.
	spareAnswers = 64
	// resultTimeout is how long a write of results may wait for a client to read.
	resultTimeout = 10 * time.Second
)

// A resultWriter is the writing half of a lane stream: partitions' owners put results in,
// which never blocks them, and run writes all that has queued, many a frame.
type resultWriter struct {
	s       *session
	stream  *quic.Stream
	written uint64        // bytes of whole frames; of run alone
	wake    chan struct{} // capacity 1: something is queued, or the stream is finished

	mu struct {
		sync.Mutex
		queue    []answer
		limit    int
		over     bool // the limit was passed: the client does not read
		owed     int  // batches that partitions will still answer
		finished bool
		err      error // why the reader stopped; nil when the client finished
	}
}

// An answer is a result, or another message that must keep its place among them.
type answer struct {
	result  wire.ProduceResult
	message wire.Message // nil for a result
}

func newResultWriter(s *session, stream *quic.Stream) *resultWriter {
	w := &resultWriter{s: s, stream: stream, wake: make(chan struct{}, 1)}
	w.mu.limit = spareAnswers
	return w
}

// allow makes room for the answers of so many lanes.
func (w *resultWriter) allow(lanes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.limit = max(w.mu.limit, spareAnswers+2*maxInFlight*lanes)
}

func (w *resultWriter) result(r wire.ProduceResult) {
	if h := w.s.l.cfg.Hooks; h != nil && h.DropResult != nil && h.DropResult(&r) {
		w.s.cut()
		return
	}
	w.add(answer{result: r})
}

func (w *resultWriter) message(m wire.Message) { w.add(answer{message: m}) }

func (w *resultWriter) add(a answer) {
	w.mu.Lock()
	if len(w.mu.queue) < w.mu.limit {
		w.mu.queue = append(w.mu.queue, a)
	} else {
		w.mu.over = true
	}
	w.mu.Unlock()
	w.signal()
}

// owe counts the batches whose results are still to come: a client may end its side of
// the stream and wait for them.
func (w *resultWriter) owe(n int) {
	w.mu.Lock()
	w.mu.owed += n
	w.mu.Unlock()
	if n < 0 {
		w.signal()
	}
}

// finish tells run that the reader is done. If the client ended the stream in order, run
// writes all that is owed; then it ends the stream.
func (w *resultWriter) finish(err error) {
	w.mu.Lock()
	w.mu.finished, w.mu.err = true, err
	w.mu.Unlock()
	w.signal()
}

func (w *resultWriter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *resultWriter) run() {
	var queue []answer
	var frames []byte
	var results wire.ProduceResults
	for {
		gone := false
		select {
		case <-w.wake:
		case <-w.s.conn.Context().Done():
			gone = true
		}
		w.mu.Lock()
		queue, w.mu.queue = w.mu.queue, queue[:0]
		err, over := w.mu.err, w.mu.over
		last := gone || w.mu.finished && (err != nil || w.mu.owed == 0)
		w.mu.Unlock()
		if over {
			// Here and not in add, which the partition's owner calls: closing waits for
			// the connection.
			w.s.close(wire.CodeProtocol, "the client does not read its results")
		}
		for rest := queue; len(rest) > 0; {
			var m wire.Message
			m, rest = nextMessage(rest, &results)
			frames = wire.Append(frames[:0], m)
			if w.write(frames, m) != nil {
				// The connection or the stream is gone; the reader sees it too.
				w.stream.CancelRead(quic.StreamErrorCode(wire.CodeShutdown))
				break
			}
		}
		clear(queue)
		if last {
			w.s.endLanes(w.stream, err)
			return
		}
	}
}

// nextMessage takes one message from the front of the queue: all results that stand
// together, up to what a frame takes, or another message.
func nextMessage(queue []answer, results *wire.ProduceResults) (wire.Message, []answer) {
	if queue[0].message != nil {
		return queue[0].message, queue[1:]
	}
	n := 0
	results.Results = results.Results[:0]
	for n < len(queue) && queue[n].message == nil && n < wire.MaxResultsPerFrame {
		results.Results = append(results.Results, queue[n].result)
		n++
	}
	return results, queue[n:]
}

// write writes a frame, or the part of it that a test lets through.
func (w *resultWriter) write(frame []byte, m wire.Message) error {
	if at := w.s.frameStart(false, m.Kind(), len(frame)); at >= 0 && at < len(frame) {
		w.stream.Write(frame[:at])
		w.s.cut()
		return errCut
	}
	w.stream.SetWriteDeadline(time.Now().Add(resultTimeout))
	if _, err := w.stream.Write(frame); err != nil {
		w.stream.CancelWrite(quic.StreamErrorCode(wire.CodeThrottled)) // a frame may be half written
		return err
	}
	w.s.copier.Add(w.stream.StreamID(), w.written, frame)
	w.written += uint64(len(frame))
	if w.s.frameEnd(false, m) {
		w.s.cut()
		return errCut
	}
	return nil
}

// endLanes ends a lane stream: quietly when the client finished it, with the reason when
// its bytes could not be read on.
func (s *session) endLanes(stream *quic.Stream, err error) {
	if err == nil {
		stream.Close()
		return
	}
	s.endStream(stream, err)
}
