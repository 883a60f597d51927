package session

import (
	"errors"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/wire"
)

// replyTimeout bounds how long a reply may wait for a client that does not read.
const replyTimeout = 10 * time.Second

// serveRequest carries out the one request of a stream and writes its one reply.
func (s *session) serveRequest(stream *quic.Stream, m wire.Message) {
	defer stream.Close()
	defer stream.CancelRead(0) // else the stream would count as open until its end is read
	reply, failure := s.request(m)
	if failure != nil {
		reply = failure
	}
	stream.SetWriteDeadline(time.Now().Add(replyTimeout))
	err := wire.Write(stream, reply)
	if errors.Is(err, wire.ErrFrame) { // the reply is larger than a frame may be
		s.log.Error("reply not sent", "request", m.Kind().String(), "error", err)
		err = wire.Write(stream, wire.Errorf(wire.CodeInternal, "the reply is too large: %v", err))
	}
	if err != nil {
		stream.CancelWrite(quic.StreamErrorCode(wire.CodeInternal))
	}
}

func (s *session) request(m wire.Message) (wire.Message, *wire.Error) {
	b := s.l.cfg.Broker
	switch m := m.(type) {
	case *wire.InitProducer:
		return b.InitProducer(s.conn.Context(), m, s.String())
	case *wire.BumpEpoch:
		return b.BumpEpoch(m)
	case *wire.CloseProducer:
		return b.CloseProducer(s.conn.Context(), m)
	case *wire.Resolve:
		return b.Resolve(s.conn.Context(), m)
	case *wire.DescribeProducers:
		return b.DescribeProducers(s.conn.Context(), m)
	case *wire.ExplainProducers:
		return b.ExplainProducers(m)
	case *wire.CreateTopic:
		return b.CreateTopic(m)
	case *wire.AlterTopic:
		return b.AlterTopic(m)
	case *wire.DeleteTopic:
		return b.DeleteTopic(m)
	case *wire.DescribeTopics:
		return b.DescribeTopics(m)
	}
	return nil, wire.Errorf(wire.CodeProtocol, "%v is not a request", m.Kind())
}
