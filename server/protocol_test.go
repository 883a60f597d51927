package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// wantClosed waits for the connection to end and checks the code that it was closed with.
func wantClosed(t *testing.T, c *rawclient.Client, code wire.Code) {
	t.Helper()
	<-c.Conn.Context().Done()
	var app *quic.ApplicationError
	if err := context.Cause(c.Conn.Context()); !errors.As(err, &app) || wire.Code(app.ErrorCode) != code {
		t.Fatalf("the connection ended with %v, want %v", err, code)
	}
}

func TestHelloIsRefused(t *testing.T) {
	s := servertest.Start(t)
	c := rawclient.DialBare(t, s.URL())
	m := c.Hello(&wire.Hello{MinProtocol: 7, MaxProtocol: 9, BatchVersions: []batchfmt.Version{2}})
	r, ok := m.(*wire.Refused)
	if !ok || r.Err.Code != wire.CodeUnsupportedVersion || r.MaxProtocol != wire.MaxProtocol {
		t.Fatalf("answered with %+v", m)
	}
	wantClosed(t, c, wire.CodeUnsupportedVersion)
}

func TestFirstFrameIsNotHello(t *testing.T) {
	s := servertest.Start(t)
	c := rawclient.DialBare(t, s.URL())
	stream, err := c.Conn.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	wire.Write(stream, &wire.Ping{Nonce: 1})
	wantClosed(t, c, wire.CodeProtocol)
}

func TestSilentConnectionIsClosed(t *testing.T) {
	s := servertest.Start(t)
	c := rawclient.DialBare(t, s.URL())
	wantClosed(t, c, wire.CodeHandshakeTimeout)
}

// A stream that breaks the protocol is ended with a named error; the connection and its
// other streams go on.
func TestBrokenStreams(t *testing.T) {
	huge := make([]byte, wire.HeaderSize)
	wire.PutHeader(huge, wire.KindInitProducer, 1<<30)
	unknown := make([]byte, wire.HeaderSize)
	wire.PutHeader(unknown, 0x3333, 0)
	rows := []struct {
		name  string
		bytes []byte
		code  wire.Code
	}{
		{"a frame over its limit", huge, wire.CodeProtocol},
		{"an unknown kind", unknown, wire.CodeUnknownKind},
		{"garbage", bytes.Repeat([]byte{0x41}, 64), wire.CodeUnknownKind},
		{"a reply as a request", wire.Append(nil, &wire.TopicDeleted{}), wire.CodeProtocol},
		{"produce before a lane is open", wire.Append(nil, &wire.Produce{}), wire.CodeProtocol},
	}
	f := setUp(t)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			stream, err := f.c.Conn.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			stream.Write(row.bytes)
			m, err := wire.Read(stream)
			if err != nil {
				t.Fatalf("no answer: %v", err)
			}
			wantError(t, m, row.code)
			stream.Close()
			f.c.Ping(1)
		})
	}
	f.lane.Produce(f.batch(t, 0, "a"))
	wantStored(t, f.lane.Result(), 0, false)
}

func TestWrongFrameOnALaneStream(t *testing.T) {
	f := setUp(t)
	f.lane.Send(&wire.Ping{})
	wantError(t, f.lane.Read(), wire.CodeUnknownKind)
	f.reconnect(t, -1)
	f.lane.Produce(f.batch(t, 0, "a"))
	wantStored(t, f.lane.Result(), 0, false)
}

func TestLaneNumbers(t *testing.T) {
	f := setUp(t)
	f.lane.Send(&wire.Produce{Lane: 5, Durability: wire.Synced, Batch: f.batch(t, 0, "a")})
	wantCode(t, f.lane.Result(), wire.CodeInvalidLane)
	f.lane.Send(&wire.Produce{Lane: 1, Durability: 9, Batch: f.batch(t, 0, "a")})
	wantCode(t, f.lane.Result(), wire.CodeInvalidDurability)
	f.lane.Send(&wire.OpenLane{Lane: 1, ProducerID: f.p.ProducerID, Key: f.p.Key, TopicID: f.topic.ID})
	wantError(t, f.lane.Read(), wire.CodeInvalidLane)
	// A second lane on the same stream has a number of its own.
	other := f.c.NewProducer()
	f.lane.Send(&wire.OpenLane{Lane: 2, ProducerID: other.ProducerID, Key: other.Key, TopicID: f.topic.ID})
	if m, ok := f.lane.Read().(*wire.LaneOpened); !ok || m.Lane != 2 {
		t.Fatalf("the second lane was answered with %+v", m)
	}
	f.lane.Send(&wire.Produce{Lane: 2, Durability: wire.Synced, Batch: rawclient.Batch(t, other, 0, "b")})
	r := f.lane.Result()
	wantStored(t, r, 0, false)
	if r.Lane != 2 {
		t.Fatalf("the result names lane %d", r.Lane)
	}
}

func TestInitProducerRefusals(t *testing.T) {
	s := servertest.Start(t)
	c := rawclient.Dial(t, s.URL())
	instance := [16]byte{1}
	wantError(t, c.Request(&wire.InitProducer{Instance: instance, TransactionalID: "tx"}), wire.CodeTransactionalUnsupported)
	wantError(t, c.Request(&wire.InitProducer{}), wire.CodeInvalidRequest)
}

func TestTopics(t *testing.T) {
	s := servertest.Start(t)
	c := rawclient.Dial(t, s.URL())
	a := c.CreateTopic("a", 3)
	c.CreateTopic("b", 1)
	wantError(t, c.Request(&wire.CreateTopic{Name: "a", Partitions: 1}), wire.CodeTopicExists)
	wantError(t, c.Request(&wire.CreateTopic{Name: "../x", Partitions: 1}), wire.CodeInvalidTopic)
	wantError(t, c.Request(&wire.CreateTopic{Name: "c", Partitions: 0}), wire.CodeInvalidPartitions)
	wantError(t, c.Request(&wire.CreateTopic{Name: "c", Partitions: 1, MaxBatchBytes: 1}), wire.CodeInvalidTopic)
	wantError(t, c.Request(&wire.CreateTopic{Name: "c", Partitions: 1, MaxBatchBytes: 1 << 31}), wire.CodeInvalidTopic)
	wantError(t, c.Request(&wire.DeleteTopic{Name: "c"}), wire.CodeUnknownTopic)
	wantError(t, c.Request(&wire.DeleteTopic{Name: "a", ID: [16]byte{1}}), wire.CodeUnknownTopicID)
	wantError(t, c.Request(&wire.DescribeTopics{Names: []string{"a", "c"}}), wire.CodeUnknownTopic)

	all := c.Request(&wire.DescribeTopics{}).(*wire.TopicsDescribed)
	if len(all.Topics) != 2 || all.Topics[0].Name != "a" || len(all.Topics[0].Partitions) != 3 || all.More {
		t.Fatalf("described %+v", all)
	}
	behind := c.Request(&wire.DescribeTopics{After: "a"}).(*wire.TopicsDescribed)
	if len(behind.Topics) != 1 || behind.Topics[0].Name != "b" {
		t.Fatalf("behind a: %+v", behind)
	}
	if m, ok := c.Request(&wire.DeleteTopic{Name: "a", ID: a.ID}).(*wire.TopicDeleted); !ok || m.ID != a.ID {
		t.Fatalf("delete: %+v", m)
	}
	s.Restart()
	c = rawclient.Dial(t, s.URL())
	all = c.Request(&wire.DescribeTopics{}).(*wire.TopicsDescribed)
	if len(all.Topics) != 1 || all.Topics[0].Name != "b" {
		t.Fatalf("after the restart: %+v", all)
	}
}

func TestSubscriptionEndsWithItsTopic(t *testing.T) {
	f := setUp(t)
	stream, err := f.c.Conn.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	wire.Write(stream, &wire.Subscribe{TopicID: f.topic.ID, From: wire.FromLatest, Credit: 1 << 20})
	if m, err := wire.Read(stream); err != nil || m.Kind() != wire.KindSubscribed {
		t.Fatalf("subscribe: %v %v", m, err)
	}
	f.c.Request(&wire.DeleteTopic{Name: "orders"})
	m, err := wire.Read(stream)
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, m, wire.CodeUnknownTopicID)
	if _, err := wire.Read(stream); err != io.EOF {
		t.Fatalf("the stream goes on: %v", err)
	}
}

func TestSubscribeRefusals(t *testing.T) {
	f := setUp(t)
	f.lane.Produce(f.batch(t, 0, "a"))
	f.lane.Result()
	wantError(t, f.c.Request(&wire.Subscribe{TopicID: [16]byte{1}}), wire.CodeUnknownTopicID)
	wantError(t, f.c.Request(&wire.Subscribe{TopicID: f.topic.ID, Partition: 4}), wire.CodeUnknownPartition)
	wantError(t, f.c.Request(&wire.Subscribe{TopicID: f.topic.ID, From: 2}), wire.CodeOffsetOutOfRange)
	wantError(t, f.c.Request(&wire.Subscribe{TopicID: f.topic.ID, From: -9}), wire.CodeOffsetOutOfRange)
}

func TestSubscriptionKeepsToItsCredit(t *testing.T) {
	f := setUp(t)
	for i := range 4 {
		f.lane.Produce(f.batch(t, batchfmt.Seq(i), string(make([]byte, 1000))))
		wantStored(t, f.lane.Result(), batchfmt.Offset(i), false)
	}
	stream, err := f.c.Conn.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	read := func() wire.Message {
		t.Helper()
		m, err := wire.Read(stream)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	wire.Write(stream, &wire.Subscribe{TopicID: f.topic.ID, From: 0, Credit: 1})
	read()
	for i := range 4 {
		b, ok := read().(*wire.Batches)
		if !ok {
			t.Fatal("no batches")
		}
		batch, err := batchfmt.Parse(b.Batches)
		if err != nil || batch.BaseOffset() != batchfmt.Offset(i) || batch.Size() != len(b.Batches) {
			t.Fatalf("push %d holds more than its one batch, or another: %v", i, err)
		}
		// Credit of a byte over what was pushed allows exactly one more batch.
		wire.Write(stream, &wire.Credit{Bytes: uint32(len(b.Batches))})
	}
	stream.Close()
}

// A subscription that stops at the end gives nothing from behind that end.
func TestStopAtEndStopsThere(t *testing.T) {
	f := setUp(t)
	f.lane.Produce(f.batch(t, 0, "a"))
	wantStored(t, f.lane.Result(), 0, false)
	stream, err := f.c.Conn.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(stream)
	wire.Write(stream, &wire.Subscribe{TopicID: f.topic.ID, From: wire.FromEarliest, StopAtEnd: true})
	m, err := wire.Read(in)
	if err != nil {
		t.Fatal(err)
	}
	end := m.(*wire.Subscribed).HighWatermark
	f.lane.Produce(f.batch(t, 1, "b"))
	wantStored(t, f.lane.Result(), 1, false)
	wire.Write(stream, &wire.Credit{Bytes: 1 << 20})
	var got batchfmt.Offset
	for {
		m, err := wire.Read(in)
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case *wire.Batches:
			for rest := m.Batches; len(rest) > 0; {
				b, err := batchfmt.Parse(rest)
				if err != nil {
					t.Fatal(err)
				}
				got, rest = b.NextOffset(), rest[b.Size():]
			}
		case *wire.EndReached:
			if got != end || m.Next != end {
				t.Errorf("the end was at %d, batches came up to %d, EndReached says %d", end, got, m.Next)
			}
			return
		}
	}
}
