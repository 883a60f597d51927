package session

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/buffers"
	"github.com/quoin-io/quoin/wire"
	"github.com/quoin-io/quoin/wire/copies"
)

// readBuffer is the buffer in front of a stream. Payloads that are larger go straight
// into their own memory.
const readBuffer = 32 << 10

// What one connection may have of the memory for frames at a time: enough for a fast one,
// and little enough that a few that hold on to theirs do not starve the rest.
const (
	inShare  = 64 << 20
	outShare = 24 << 20
)

// A session is one connection. serve owns it; its streams run in goroutines that serve
// waits for, and all of them end when the connection does.
type session struct {
	l       *Listener
	conn    *quic.Conn
	address netip.Addr // of the client when it came
	log     *slog.Logger
	peer    wire.Hello // set before any other stream is accepted
	streams sync.WaitGroup
	lanes   atomic.Int64   // over all streams
	in, out *buffers.Share // of the memory for frames

	control struct {
		sync.Mutex // held while a frame is written
		stream     *quic.Stream
		greeted    bool // HelloOK is written: only then may anything else be
	}
	copies struct {
		sync.Mutex
		of map[quic.StreamID]*laneStream // whose frames may come as copies
	}
	copier *copies.Sender // of answers; nil when the client takes none; set like peer

	news struct {
		sync.Mutex
		waiting []*wire.TopicChanged // to be told, one a topic
		telling bool                 // somebody is at it
	}
}

func newSession(l *Listener, conn *quic.Conn) *session {
	b := l.cfg.Broker
	return &session{
		l: l, conn: conn, address: addressOf(conn.RemoteAddr()), log: l.cfg.Log.With("peer", conn.RemoteAddr().String()),
		in: b.In().Share(inShare), out: b.Out().Share(outShare),
	}
}

// String says for people who the client is.
func (s *session) String() string {
	return fmt.Sprintf("%s %s at %s", s.peer.SDKName, s.peer.SDKVersion, s.conn.RemoteAddr())
}

// close ends the connection with a code that the client can name.
func (s *session) close(code wire.Code, text string) {
	s.conn.CloseWithError(quic.ApplicationErrorCode(code), text)
}

// cut ends the connection the way a broken network does, as far as the work is concerned:
// whatever has not arrived will not.
func (s *session) cut() { s.close(wire.CodeInternal, "cut by a test") }

func (s *session) serve() {
	defer s.streams.Wait()
	defer s.close(wire.CodeShutdown, "")
	s.streams.Go(func() { copies.Receive(s.conn, s.copied) }) // also of who says no Hello
	control, err := s.hello()
	if err != nil {
		s.log.Debug("handshake failed", "error", err)
		return
	}
	if s.peer.Features&wire.FeatureCopies != 0 {
		s.copier = copies.NewSender(s.conn, func() { s.l.cfg.Counters.Copies.Sent.Add(1) })
		s.streams.Go(s.copier.Run)
	}
	s.streams.Go(func() { s.serveControl(control) })
	s.log.Debug("connected", "sdk", s.peer.SDKName, "version", s.peer.SDKVersion)
	for {
		stream, err := s.conn.AcceptStream(s.conn.Context())
		if err != nil {
			s.log.Debug("disconnected", "reason", err)
			return
		}
		s.streams.Go(func() { s.serveStream(stream) })
	}
}

// hello reads the first frame of the first stream and answers it.
func (s *session) hello() (*bufio.Reader, error) {
	ctx, cancel := context.WithTimeout(s.conn.Context(), firstFrameTimeout)
	defer cancel()
	stream, err := s.conn.AcceptStream(ctx)
	if err != nil {
		s.close(wire.CodeHandshakeTimeout, "no Hello came")
		return nil, err
	}
	stream.SetReadDeadline(time.Now().Add(firstFrameTimeout))
	r := bufio.NewReaderSize(stream, 4<<10)
	m, err := readOnly(r, wire.KindHello)
	if err != nil {
		s.close(protocolCode(err), "the first frame is not a Hello")
		return nil, err
	}
	hello := m.(*wire.Hello)
	stream.SetReadDeadline(time.Time{})
	s.control.Lock()
	s.control.stream = stream
	s.control.Unlock()
	s.peer = *hello
	version, refused := wire.Negotiate(hello)
	if refused != nil {
		s.send(refused)
		s.refuse(refused.Err.Code, refused.Err.Detail)
		return nil, refused
	}
	if err := s.send(s.helloOK(version)); err != nil {
		return nil, err
	}
	s.control.Lock()
	s.control.greeted = true
	s.control.Unlock()
	return r, nil
}

// refuse closes after the refusal had its time to arrive: the client closes first, as
// closing drops what is still on its way.
func (s *session) refuse(code wire.Code, text string) {
	timer := time.NewTimer(firstFrameTimeout)
	defer timer.Stop()
	select {
	case <-s.conn.Context().Done():
	case <-timer.C:
		s.close(code, text)
	}
}

func (s *session) helloOK(protocol uint16) *wire.HelloOK {
	b := s.l.cfg.Broker
	m := &wire.HelloOK{
		Protocol: protocol, Features: wire.FeatureCopies, BatchVersions: []batchfmt.Version{batchfmt.Version1, batchfmt.Version2},
		ServerName: s.l.cfg.Name, ServerVersion: s.l.cfg.Version,
		ClusterID: b.ClusterID(), Incarnation: b.Incarnation(),
		MaxBatchBytes: batchfmt.MaxBatchBytes, MaxInFlight: maxInFlight, MaxLanes: maxLanes,
	}
	rand.Read(m.Session[:])
	return m
}

// send writes a frame on the control stream.
func (s *session) send(m wire.Message) error {
	s.control.Lock()
	defer s.control.Unlock()
	return wire.Write(s.control.stream, m)
}

// serveControl answers pings until the control stream ends, and the connection with it.
func (s *session) serveControl(r *bufio.Reader) {
	for {
		m, err := readOnly(r, wire.KindPing)
		if err != nil {
			s.close(protocolCode(err), "the control stream ended")
			return
		}
		if s.send(&wire.Pong{Nonce: m.(*wire.Ping).Nonce}) != nil {
			return
		}
	}
}

// drain tells the client that the server is about to stop.
func (s *session) drain(retryAfter time.Duration) {
	if s.ready() {
		s.send(&wire.Drain{RetryAfter: retryAfter, Reason: "the server is shutting down"})
	}
}

// maxNews bounds the topics of which a client is told one by one.
const maxNews = 64

// changed tells the client that a topic has changed. It does not block: what a client that
// does not read is not told yet is kept, once for each topic, or as one word for all.
func (s *session) changed(m *wire.TopicChanged) {
	s.news.Lock()
	defer s.news.Unlock()
	waiting := slices.DeleteFunc(s.news.waiting, func(x *wire.TopicChanged) bool { return x.ID == m.ID })
	if len(waiting) >= maxNews {
		waiting, m = nil, new(wire.TopicChanged)
	}
	s.news.waiting = append(waiting, m)
	if s.news.telling {
		return
	}
	s.news.telling = true
	s.l.running.Go(s.tell) // ends with the connection at the latest
}

// tell sends what waits to be told.
func (s *session) tell() {
	for {
		s.news.Lock()
		waiting := s.news.waiting
		s.news.waiting, s.news.telling = nil, len(waiting) > 0
		s.news.Unlock()
		if len(waiting) == 0 {
			return
		}
		for _, m := range waiting {
			if s.ready() && s.send(m) != nil {
				return // the connection is gone, and nobody will tell it anything
			}
		}
	}
}

// ready reports whether the client has got so far that it can be told something.
func (s *session) ready() bool {
	s.control.Lock()
	defer s.control.Unlock()
	return s.control.greeted
}

// serveStream reads the first frame and goes where it belongs.
func (s *session) serveStream(stream *quic.Stream) {
	stream.SetReadDeadline(time.Now().Add(firstFrameTimeout))
	r := copies.NewReader(stream, readBuffer)
	m, err := readOnly(r, firstKinds...)
	if err != nil {
		s.endStream(stream, err)
		return
	}
	stream.SetReadDeadline(time.Time{})
	switch m := m.(type) {
	case *wire.OpenLane:
		serveLanes(s, stream, r, m)
	case *wire.Subscribe:
		serveSubscription(s, stream, r.Uncounted(), m)
	default:
		s.serveRequest(stream, m)
	}
}

// firstKinds are the frames that a stream may begin with.
var firstKinds = []wire.Kind{
	wire.KindOpenLane, wire.KindSubscribe,
	wire.KindInitProducer, wire.KindBumpEpoch, wire.KindCloseProducer, wire.KindResolve,
	wire.KindDescribeProducers, wire.KindExplainProducers, wire.KindCreateTopic, wire.KindAlterTopic,
	wire.KindDeleteTopic, wire.KindDescribeTopics,
}

// readOnly reads a frame of one of these kinds. Others are refused by their header, as
// some kinds may be so large that reading them where they have no place would cost memory
// outside of every budget.
func readOnly(r io.Reader, kinds ...wire.Kind) (wire.Message, error) {
	h, err := wire.ReadHeader(r)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(kinds, h.Kind) {
		return nil, &wire.FrameError{Kind: h.Kind, Field: "place", Reason: "does not belong here"}
	}
	payload, err := wire.ReadPayload(r, h, nil)
	if err != nil {
		return nil, err
	}
	return wire.Decode(h.Kind, payload)
}

// endStream answers bytes that are not a frame or did not come, and gives the stream back.
func (s *session) endStream(stream *quic.Stream, err error) {
	code := protocolCode(err)
	if errors.Is(err, wire.ErrFrame) || code == wire.CodeHandshakeTimeout {
		stream.SetWriteDeadline(time.Now().Add(replyTimeout))
		wire.Write(stream, wire.Errorf(code, "%v", err))
	}
	stream.CancelRead(quic.StreamErrorCode(code))
	stream.Close()
}

// protocolCode is the code for a stream that cannot be read on.
func protocolCode(err error) wire.Code {
	var bad *wire.FrameError
	switch {
	case errors.As(err, &bad) && bad.Field == "kind":
		return wire.CodeUnknownKind
	case errors.Is(err, wire.ErrFrame), errors.Is(err, io.ErrUnexpectedEOF):
		return wire.CodeProtocol
	case errors.Is(err, os.ErrDeadlineExceeded):
		return wire.CodeHandshakeTimeout
	}
	return wire.CodeShutdown
}
