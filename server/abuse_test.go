package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// What a client does that means harm, or is broken, costs bounded memory and nothing to
// anybody else.

// stream opens a stream whose reads and writes end at last.
func stream(t *testing.T, conn *quic.Conn) *quic.Stream {
	t.Helper()
	s, err := conn.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	s.SetDeadline(time.Now().Add(20 * time.Second))
	return s
}

func readFrame(t *testing.T, s *quic.Stream) wire.Message {
	t.Helper()
	m, err := wire.Read(s)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return m
}

// hugeHeader announces a batch of the largest size and sends nothing of it.
func hugeHeader() []byte {
	h := make([]byte, wire.HeaderSize)
	wire.PutHeader(h, wire.KindProduce, batchfmt.MaxBatchBytes)
	return h
}

func TestHeadersAloneTakeNoMemoryFromOthers(t *testing.T) {
	f := setUp(t)
	evil := rawclient.Dial(t, f.URL())
	for range 32 { // twice the server's memory for frames, if headers counted
		s := stream(t, evil.Conn)
		wire.Write(s, &wire.OpenLane{Lane: 1, ProducerID: 1})
		wantError(t, readFrame(t, s), wire.CodeUnknownTopicID)
		s.Write(hugeHeader())
	}
	evil.Ping(1)
	f.lane.Produce(f.batch(t, 0, "a"))
	wantStored(t, f.lane.Result(), 0, false)
}

// Even with a lane that is open, one connection gets its share and not more.
func TestUnfinishedBatchesOfOneConnection(t *testing.T) {
	f := setUp(t)
	evil := rawclient.Dial(t, f.URL())
	head := append(hugeHeader(), make([]byte, wire.ProduceHead)...)
	head[wire.HeaderSize] = 1 // the lane
	for range 32 {
		l := evil.Lane(evil.NewProducer(), f.topic, 0, -1)
		l.Stream.Write(head)
	}
	evil.Ping(1)
	f.lane.Produce(f.batch(t, 0, "a"))
	wantStored(t, f.lane.Result(), 0, false)
}

func TestBatchesWhereTheyDoNotBelong(t *testing.T) {
	f := setUp(t)
	f.lane.Produce(f.batch(t, 0, "a"))
	wantStored(t, f.lane.Result(), 0, false)
	t.Run("as the first frame", func(t *testing.T) {
		s := stream(t, f.c.Conn)
		s.Write(hugeHeader())
		wantError(t, readFrame(t, s), wire.CodeProtocol)
	})
	t.Run("on a subscription", func(t *testing.T) {
		s := stream(t, f.c.Conn)
		wire.Write(s, &wire.Subscribe{TopicID: f.topic.ID, From: wire.FromLatest, Credit: 1})
		readFrame(t, s)
		s.Write(hugeHeader())
		wantError(t, readFrame(t, s), wire.CodeProtocol)
	})
	t.Run("an unknown kind on a subscription", func(t *testing.T) {
		s := stream(t, f.c.Conn)
		wire.Write(s, &wire.Subscribe{TopicID: f.topic.ID, From: wire.FromLatest, Credit: 1})
		readFrame(t, s)
		h := make([]byte, wire.HeaderSize)
		wire.PutHeader(h, 0x3333, 0)
		s.Write(h)
		wantError(t, readFrame(t, s), wire.CodeUnknownKind)
	})
	f.c.Ping(1) // none of them has cost the connection
	t.Run("before Hello", func(t *testing.T) {
		c := rawclient.DialBare(t, f.URL())
		stream(t, c.Conn).Write(hugeHeader())
		wantClosed(t, c, wire.CodeProtocol)
	})
	t.Run("on the control stream", func(t *testing.T) {
		c := rawclient.DialBare(t, f.URL())
		s := stream(t, c.Conn)
		wire.Write(s, &wire.Hello{MinProtocol: 1, MaxProtocol: 1, BatchVersions: []batchfmt.Version{2}})
		readFrame(t, s)
		s.Write(hugeHeader())
		wantClosed(t, c, wire.CodeProtocol)
	})
}

func TestHalfAHello(t *testing.T) {
	s := servertest.Start(t)
	c := rawclient.DialBare(t, s.URL())
	stream(t, c.Conn).Write([]byte{1, 0, 0})
	wantClosed(t, c, wire.CodeHandshakeTimeout)
}

// dialSmall connects with so small a window that the server's writes soon block.
func dialSmall(t *testing.T, rawURL string, window uint64) *quic.Conn {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	conf := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{wire.ALPN}, MinVersion: tls.VersionTLS13}
	conn, err := quic.DialAddr(t.Context(), u.Host, conf, &quic.Config{
		MaxIdleTimeout: time.Minute, KeepAlivePeriod: time.Second,
		InitialStreamReceiveWindow: window, MaxStreamReceiveWindow: window,
		InitialConnectionReceiveWindow: 1 << 20, MaxConnectionReceiveWindow: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseWithError(0, "") })
	s := stream(t, conn)
	wire.Write(s, &wire.Hello{MinProtocol: 1, MaxProtocol: 1, BatchVersions: []batchfmt.Version{1, 2}})
	if m := readFrame(t, s); m.Kind() != wire.KindHelloOK {
		t.Fatalf("Hello was answered with %+v", m)
	}
	return conn
}

func TestSubscribersThatDoNotReadStarveNobody(t *testing.T) {
	f := setUp(t)
	for i := range 2 {
		f.lane.Produce(f.batch(t, batchfmt.Seq(i), strings.Repeat("v", 300<<10)))
		wantStored(t, f.lane.Result(), batchfmt.Offset(i), false)
	}
	evil := dialSmall(t, f.URL(), 1<<10)
	for range 600 {
		s, err := evil.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		wire.Write(s, &wire.Subscribe{TopicID: f.topic.ID, From: 0, Credit: 1 << 30})
	}
	if got, _ := f.c.Subscribe(f.topic, 0); len(got) != 2 {
		t.Fatalf("an honest reader got %d records", len(got))
	}
}

func TestBatchLargerThanTheCredit(t *testing.T) {
	f := setUp(t)
	value := strings.Repeat("v", 700<<10)
	f.lane.Produce(f.batch(t, 0, value))
	wantStored(t, f.lane.Result(), 0, false)
	s := stream(t, f.c.Conn)
	wire.Write(s, &wire.Subscribe{TopicID: f.topic.ID, From: 0, Credit: 1, StopAtEnd: true})
	r := bufio.NewReader(s)
	for _, want := range []wire.Kind{wire.KindSubscribed, wire.KindBatches, wire.KindEndReached} {
		m, err := wire.Read(r)
		if err != nil || m.Kind() != want {
			t.Fatalf("got %v, %v; want %v", m, err, want)
		}
		if b, ok := m.(*wire.Batches); ok && len(b.Batches) < len(value) {
			t.Fatalf("pushed %d bytes of a batch", len(b.Batches))
		}
	}
}

func TestResultsThatAreNotRead(t *testing.T) {
	f := setUp(t)
	evil := dialSmall(t, f.URL(), 512)
	s := stream(t, evil)
	wire.Write(s, &wire.OpenLane{Lane: 1, ProducerID: 1})
	frame := wire.Append(nil, &wire.Produce{Lane: 7, Durability: wire.Synced})
	var many []byte
	for range 1000 {
		many = append(many, frame...)
	}
	for evil.Context().Err() == nil { // until the server has had enough
		if _, err := s.Write(many); err != nil {
			break
		}
	}
	<-evil.Context().Done()
	if err := context.Cause(evil.Context()); !strings.Contains(err.Error(), "does not read its results") {
		t.Errorf("the connection ended with %v", err)
	}
	f.lane.Produce(f.batch(t, 0, "a"))
	wantStored(t, f.lane.Result(), 0, false)
}

func TestLaneThatWasRefusedCanBeOpenedLater(t *testing.T) {
	s := servertest.Start(t, servertest.Configure(func(c *server.Config) { c.MaxProducers = 1 }))
	c := rawclient.Dial(t, s.URL())
	topic := c.CreateTopic("orders", 1)
	first := c.Lane(c.NewProducer(), topic, 0, -1)
	p := c.NewProducer()
	open := &wire.OpenLane{Lane: 1, ProducerID: p.ProducerID, Key: p.Key, TopicID: topic.ID}
	l, reply := c.OpenLane(open)
	wantError(t, reply, wire.CodeProducerLimitReached)
	first.Stream.Close()
	first.Stream.Read(make([]byte, 1)) // the server has let go of the lane when this ends
	l.Send(open)
	if m := l.Read(); m.Kind() != wire.KindLaneOpened {
		t.Fatalf("opened again: %+v", m)
	}
	l.Produce(rawclient.Batch(t, p, 0, "a"))
	wantStored(t, l.Result(), 0, false)
}

func TestTopicOfManyPartitions(t *testing.T) {
	s := servertest.Start(t, servertest.InMemory())
	c := rawclient.Dial(t, s.URL())
	if topic := c.CreateTopic("wide", 500); len(topic.Partitions) != 500 {
		t.Fatalf("made with %d partitions", len(topic.Partitions))
	}
}
