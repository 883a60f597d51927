package model

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

const (
	maxProducers = 4 // in memory: everybody else is in the retired table
	maxRetired   = 8 // there: everybody else is forgotten
	// surelyRetired is how many the table remembers at least: it drops down to seven
	// eighths.
	surelyRetired = maxRetired - maxRetired/8
	segmentBytes  = 3 << 10
	idle          = time.Hour
)

// A world is one server, what goes on with it, and what must be true of it.
type world struct {
	t    *testing.T
	rng  *rand.Rand
	s    *servertest.Server
	mem  bool
	ref  *reference
	seen *coverage

	conns   [2]*rawclient.Client
	reader  *rawclient.Client
	topics  []wire.TopicInfo // the first is the crowd's and stays; the second comes and goes
	past    []place          // of topics that are deleted
	holders []*holder
	names   map[string]*holder
	streams []*stream
	readers sync.WaitGroup // the goroutines of streams
	crowd   *crowd

	explained map[place]wire.Decision // the last one that was counted

	kept   batchfmt.Offset // what stood there and behind was taken away, see damage
	now    situation
	values int // so many records were made
	step   int

	mu    sync.Mutex
	trace []string
}

func newWorld(t *testing.T, seed uint64, seen *coverage) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), ref: newReference(surelyRetired), seen: seen,
		names: make(map[string]*holder), explained: make(map[place]wire.Decision),
	}
	w.mem = w.rng.IntN(4) > 0
	opts := []servertest.Option{servertest.Configure(func(c *server.Config) {
		c.MaxProducers, c.MaxRetired, c.SegmentBytes, c.ProducerIdle = maxProducers, maxRetired, segmentBytes, idle
		c.Drain, c.Log = time.Millisecond, slog.New(slog.NewTextHandler(traceWriter{w}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	})}
	opts = append(opts, servertest.Busy(2<<10, 20*time.Millisecond))
	if w.mem {
		opts = append(opts, servertest.InMemory())
	}
	w.s = servertest.Start(t, opts...)
	w.now.limit = maxProducers
	w.topics = append(w.topics, w.mustCreate("crowd", 2), w.mustCreate("lonely", 1))
	return w
}

// log notes what happens, for whoever looks for the reason of a finding.
func (w *world) log(format string, args ...any) {
	w.note(fmt.Sprintf("%3d %s", w.step, fmt.Sprintf(format, args...)))
}

func (w *world) note(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, line)
}

// A traceWriter puts what the server logs where it belongs in time.
type traceWriter struct{ w *world }

func (t traceWriter) Write(b []byte) (int, error) {
	t.w.note("    server: " + string(bytes.TrimSpace(b)))
	return len(b), nil
}

// places are the partitions that there are.
func (w *world) places() (all []place) {
	for _, topic := range w.topics {
		for n := range topic.Partitions {
			all = append(all, place{topic.ID, int32(n)})
		}
	}
	return all
}

func (w *world) anyPlace() place { p := w.places(); return p[w.rng.IntN(len(p))] }

func dead(c *rawclient.Client) bool { return c == nil || c.Conn.Context().Err() != nil }

// cut reports whether an error is the end of its connection.
func cut(err error) bool { return errors.Is(err, net.ErrClosed) }

// conn is one of two connections.
func (w *world) conn(n int) *rawclient.Client {
	if dead(w.conns[n]) {
		w.conns[n] = rawclient.Dial(w.t, w.s.URL())
	}
	return w.conns[n]
}

// ask sends a request; it is one that may be asked again when its connection is lost.
func (w *world) ask(m wire.Message) wire.Message {
	for {
		if dead(w.reader) {
			w.reader = rawclient.Dial(w.t, w.s.URL())
		}
		c := w.reader
		reply, err := request(c, m)
		if err == nil {
			return reply
		}
		if !cut(err) {
			w.t.Fatalf("%v: %v", m.Kind(), err)
		}
		w.reader = nil
	}
}

func request(c *rawclient.Client, m wire.Message) (wire.Message, error) {
	s, err := openStream(c)
	if err != nil {
		return nil, err
	}
	defer s.CancelRead(0)
	if err := wire.Write(s, m); err != nil {
		return nil, err
	}
	s.Close()
	return wire.Read(bufio.NewReader(s))
}

func openStream(c *rawclient.Client) (*quic.Stream, error) {
	ctx, cancel := context.WithTimeout(context.Background(), rawclient.Patience)
	defer cancel()
	s, err := c.Conn.OpenStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	return s, s.SetDeadline(time.Now().Add(rawclient.Patience))
}

func (w *world) mustCreate(name string, partitions int32) wire.TopicInfo {
	for {
		switch m := w.ask(&wire.CreateTopic{Name: name, Partitions: partitions}).(type) {
		case *wire.TopicCreated:
			return m.Topic
		case *wire.Error:
			if wrong := w.now.trouble(m.Code); wrong != "" {
				w.t.Fatalf("create topic: %v: %s", m, wrong)
			}
			w.s.FreeDisk() // nothing of it is left: it can be made now
		}
	}
}

// read gives the reference what can be read of a partition, from where it was or from the
// beginning, and holds it against all that was said.
func (w *world) read(p place, from batchfmt.Offset) {
	for late := time.Now().Add(rawclient.Patience); ; {
		done, waits := w.readOnce(p, from)
		switch {
		case done && waits == "":
			return
		case done && time.Now().After(late):
			w.ref.mu.Lock()
			w.ref.fail("%s", waits)
			w.ref.mu.Unlock()
			return
		case done:
			from = w.nextOf(p)
		}
	}
}

// readOnce reports whether it came to the end, and what does not show yet that must soon.
func (w *world) readOnce(p place, from batchfmt.Offset) (done bool, waits string) {
	if dead(w.reader) {
		w.reader = rawclient.Dial(w.t, w.s.URL())
	}
	c := w.reader
	w.ref.mu.Lock()
	claims := len(w.ref.at(p).claims)
	w.ref.mu.Unlock()
	next, reached, err := w.subscribe(c, p, from)
	switch {
	case err == nil:
	case cut(err):
		w.reader = nil
		return false, ""
	default:
		w.t.Fatalf("read: %v", err)
	}
	w.ref.mu.Lock()
	defer w.ref.mu.Unlock()
	if h := w.ref.at(p); reached != next || next < h.next {
		w.ref.fail("a reader came to the end at offset %d (the server says %d), there were %d before", next, reached, h.next)
	}
	return true, w.ref.complete(p, claims)
}

func (w *world) subscribe(c *rawclient.Client, p place, from batchfmt.Offset) (next, reached batchfmt.Offset, err error) {
	s, err := openStream(c)
	if err != nil {
		return 0, 0, err
	}
	defer s.Close()
	if err := wire.Write(s, &wire.Subscribe{TopicID: p.topic, Partition: p.part, From: from, StopAtEnd: true, Credit: wire.MaxCredit}); err != nil {
		return 0, 0, err
	}
	next = from
	for in := bufio.NewReader(s); ; {
		m, err := wire.Read(in)
		if err != nil {
			return 0, 0, err
		}
		switch m := m.(type) {
		case *wire.Subscribed:
		case *wire.EndReached:
			return next, m.Next, nil
		case *wire.Batches:
			if next, err = w.takeBatches(p, next, m.Batches); err != nil {
				return 0, 0, err
			}
		case *wire.Error:
			if to := batchfmt.Offset(m.Expected); m.Code == wire.CodeCorruptBatch && w.mayMiss(p, next, to) {
				return w.subscribe(c, p, to)
			}
			return 0, 0, m
		default:
			return 0, 0, fmt.Errorf("unexpected %v", m.Kind())
		}
	}
}

func (w *world) takeBatches(p place, next batchfmt.Offset, b []byte) (batchfmt.Offset, error) {
	var records batchfmt.Reader
	for len(b) > 0 {
		batch, err := batchfmt.Parse(b)
		if err != nil {
			return 0, err
		}
		if batch.VerifyFront() != nil || batch.Verify() != nil || records.Reset(batch) != nil || batch.BaseOffset() != next {
			return 0, fmt.Errorf("the batch at offset %d does not verify, or it is not that at %d", batch.BaseOffset(), next)
		}
		var values []string
		for records.Next() {
			values = append(values, string(records.Record().Value))
		}
		w.ref.mu.Lock()
		w.ref.read(p, identOf(batch), next, values)
		w.ref.mu.Unlock()
		next = batch.NextOffset()
		b = b[batch.Size():]
	}
	return next, nil
}

func identOf(b batchfmt.Batch) ident {
	return ident{b.ProducerID(), b.Epoch(), b.BaseSequence(), b.LastSequence(), b.Digest()}
}

// readOn reads what is new in all partitions.
func (w *world) readOn() {
	for _, p := range w.places() {
		w.read(p, w.nextOf(p))
	}
}

func (w *world) nextOf(p place) batchfmt.Offset {
	w.ref.mu.Lock()
	defer w.ref.mu.Unlock()
	return w.ref.at(p).next
}

// down is called when the server is up again after it was down, however that went: what
// was on its way is lost, or it can be read.
func (w *world) down() {
	w.collect()
	w.streams = nil
	w.ref.mu.Lock()
	for _, h := range w.ref.places {
		h.lives++
	}
	w.ref.mu.Unlock()
	for _, p := range w.places() {
		w.read(p, 0)
	}
	w.ref.mu.Lock()
	w.ref.restarted()
	w.ref.mu.Unlock()
	w.now = situation{limit: maxProducers}
	clear(w.explained)
	w.crowd.newLife()
}

// leave ends the connections of the raw clients.
func (w *world) leave() {
	for i, c := range w.conns {
		if c != nil {
			c.Conn.CloseWithError(0, "")
			w.conns[i] = nil
		}
	}
}

// end closes everything and waits.
func (w *world) end() {
	w.leave()
	if w.reader != nil {
		w.reader.Conn.CloseWithError(0, "")
	}
	w.readers.Wait()
}
