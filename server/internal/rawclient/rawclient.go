package rawclient

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// Patience bounds every step of a test; it is never reached by one that passes. It is set
// before the first test, if at all.
var Patience = 20 * time.Second

// A Client is one connection.
type Client struct {
	tb      testing.TB
	Conn    *quic.Conn
	Welcome *wire.HelloOK
	control *quic.Stream
	in      *bufio.Reader
}

// Dial connects to the server at rawURL and says Hello. The connection ends with the test.
func Dial(tb testing.TB, rawURL string) *Client {
	tb.Helper()
	return DialAs(tb, rawURL, batchfmt.Version1, batchfmt.Version2)
}

// DialAs is Dial of one who can read batches of these versions.
func DialAs(tb testing.TB, rawURL string, versions ...batchfmt.Version) *Client {
	tb.Helper()
	c := DialBare(tb, rawURL)
	m := c.Hello(&wire.Hello{MinProtocol: 1, MaxProtocol: 1, BatchVersions: versions, SDKName: "rawclient"})
	ok, isOK := m.(*wire.HelloOK)
	if !isOK {
		tb.Fatalf("Hello was answered with %v: %+v", m.Kind(), m)
	}
	c.Welcome = ok
	return c
}

// DialBare connects and says nothing.
func DialBare(tb testing.TB, rawURL string) *Client {
	tb.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	// The tests are about what comes behind TLS.
	conf := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{wire.ALPN}, MinVersion: tls.VersionTLS13}
	conn, err := quic.DialAddr(ctx, u.Host, conf, &quic.Config{MaxIdleTimeout: Patience, KeepAlivePeriod: time.Second, EnableDatagrams: true})
	if err != nil {
		tb.Fatalf("dial: %v", err)
	}
	tb.Cleanup(func() { conn.CloseWithError(0, "") })
	return &Client{tb: tb, Conn: conn}
}

// Hello opens the control stream with m and returns the answer.
func (c *Client) Hello(m wire.Message) wire.Message {
	c.tb.Helper()
	c.control = c.open()
	c.in = bufio.NewReader(c.control)
	c.write(c.control, m)
	return c.read(c.in)
}

// Ping sends a ping and waits for its pong. The error is that the connection is over, which it
// may be at any moment where a test has it cut.
func (c *Client) Ping(nonce uint64) error {
	c.tb.Helper()
	err := wire.Write(c.control, &wire.Ping{Nonce: nonce})
	var m wire.Message = new(wire.TopicChanged)
	for err == nil && m.Kind() == wire.KindTopicChanged {
		m, err = wire.Read(c.in)
	}
	if errors.Is(err, net.ErrClosed) { // which the errors of the library are that end a connection
		return err
	}
	if pong, ok := m.(*wire.Pong); err != nil || !ok || pong.Nonce != nonce {
		c.tb.Fatalf("ping %d was answered with %+v, %v", nonce, m, err)
	}
	return nil
}

// Control reads the next frame of the control stream.
func (c *Client) Control() wire.Message { c.tb.Helper(); return c.read(c.in) }

func (c *Client) open() *quic.Stream {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	s, err := c.Conn.OpenStreamSync(ctx)
	if err != nil {
		c.tb.Fatalf("open stream: %v", err)
	}
	s.SetDeadline(time.Now().Add(Patience))
	return s
}

func (c *Client) write(s *quic.Stream, m wire.Message) {
	c.tb.Helper()
	if err := wire.Write(s, m); err != nil {
		c.tb.Fatalf("write %v: %v", m.Kind(), err)
	}
}

func (c *Client) read(r *bufio.Reader) wire.Message {
	c.tb.Helper()
	m, err := wire.Read(r)
	if err != nil {
		c.tb.Fatalf("read: %v", err)
	}
	return m
}

// Request sends one request on a stream of its own and returns the reply.
func (c *Client) Request(m wire.Message) wire.Message {
	c.tb.Helper()
	s := c.open()
	c.write(s, m)
	s.Close()
	return c.read(bufio.NewReader(s))
}

// CreateTopic makes a topic.
func (c *Client) CreateTopic(name string, partitions int32) wire.TopicInfo {
	c.tb.Helper()
	m := c.Request(&wire.CreateTopic{Name: name, Partitions: partitions})
	created, ok := m.(*wire.TopicCreated)
	if !ok {
		c.tb.Fatalf("create topic %q: %+v", name, m)
	}
	return created.Topic
}

// NewProducer gets an id for a new instance without a name.
func (c *Client) NewProducer() *wire.ProducerInited {
	c.tb.Helper()
	m := &wire.InitProducer{}
	rand.Read(m.Instance[:])
	reply, ok := c.Request(m).(*wire.ProducerInited)
	if !ok {
		c.tb.Fatalf("init producer: %+v", reply)
	}
	return reply
}

// A Lane is a lane stream with its first lane.
type Lane struct {
	c      *Client
	Stream *quic.Stream
	sent   uint64 // bytes
	in     *bufio.Reader
	queued []wire.ProduceResult
}

// OpenLane opens a stream with m on it and returns the answer too.
func (c *Client) OpenLane(m *wire.OpenLane) (*Lane, wire.Message) {
	c.tb.Helper()
	s := c.open()
	l := &Lane{c: c, Stream: s, in: bufio.NewReader(s)}
	l.Send(m)
	return l, c.read(l.in)
}

// Lane opens a lane of p that must open.
func (c *Client) Lane(p *wire.ProducerInited, topic wire.TopicInfo, partition int32, sent batchfmt.Seq) *Lane {
	c.tb.Helper()
	m := &wire.OpenLane{Lane: 1, ProducerID: p.ProducerID, Key: p.Key, Epoch: p.Epoch, TopicID: topic.ID, Partition: partition}
	if sent >= 0 {
		m.Sent = &sent
	}
	l, reply := c.OpenLane(m)
	if _, ok := reply.(*wire.LaneOpened); !ok {
		c.tb.Fatalf("lane was not opened: %+v", reply)
	}
	return l
}

// Produce sends a batch on lane 1.
func (l *Lane) Produce(batch []byte) {
	l.c.tb.Helper()
	l.Send(&wire.Produce{Lane: 1, Durability: wire.Synced, ConfirmedThrough: -1, Batch: batch})
}

// Send sends any frame. What comes next has Patience again.
func (l *Lane) Send(m wire.Message) {
	l.c.tb.Helper()
	l.Stream.SetDeadline(time.Now().Add(Patience))
	l.c.write(l.Stream, m)
	l.sent += uint64(len(wire.Append(nil, m)))
}

// SendCopy sends a copy of the frame that is sent next, or of one that is sent later by so
// many bytes.
func (l *Lane) SendCopy(m wire.Message, later int) {
	l.c.tb.Helper()
	l.c.Datagram(wire.AppendCopy(nil, wire.Copy{
		Stream: uint64(l.Stream.StreamID()), At: l.sent + uint64(later), Frame: wire.Append(nil, m),
	}))
}

// Datagram sends a datagram.
func (c *Client) Datagram(b []byte) {
	c.tb.Helper()
	if err := c.Conn.SendDatagram(b); err != nil {
		c.tb.Fatalf("send datagram: %v", err)
	}
}

// Leave ends the stream and waits until the server has ended it too: then the partitions
// of its lanes have been told, and whatever they are asked next finds the lanes free.
func (l *Lane) Leave() {
	l.c.tb.Helper()
	l.Stream.Close()
	if _, err := io.Copy(io.Discard, l.in); err != nil {
		l.c.tb.Fatalf("the lane stream did not end: %v", err)
	}
}

// Read reads any frame.
func (l *Lane) Read() wire.Message { l.c.tb.Helper(); return l.c.read(l.in) }

// Result returns the next result, whatever frame it comes in.
func (l *Lane) Result() wire.ProduceResult {
	l.c.tb.Helper()
	for len(l.queued) == 0 {
		m := l.Read()
		results, ok := m.(*wire.ProduceResults)
		if !ok {
			l.c.tb.Fatalf("got %v, want results: %+v", m.Kind(), m)
		}
		l.queued = results.Results
	}
	r := l.queued[0]
	l.queued = l.queued[1:]
	return r
}

// Subscribe reads all records of a partition that are durable now; each is its value.
func (c *Client) Subscribe(topic wire.TopicInfo, partition int32) (values []string, next batchfmt.Offset) {
	c.tb.Helper()
	batches, end := c.Fetch(topic, partition, wire.FromEarliest)
	reached, ok := end.(*wire.EndReached)
	if !ok {
		c.tb.Fatalf("subscription: %+v", end)
	}
	for _, b := range batches {
		values = append(values, c.values(b)...)
	}
	return values, reached.Next
}

// Fetch reads the batches of a partition that are durable now, from an offset on, and what
// ends the subscription.
func (c *Client) Fetch(topic wire.TopicInfo, partition int32, from batchfmt.Offset) (batches [][]byte, end wire.Message) {
	c.tb.Helper()
	s := c.open()
	defer s.Close()
	r := bufio.NewReader(s)
	c.write(s, &wire.Subscribe{TopicID: topic.ID, Partition: partition, From: from, StopAtEnd: true, Credit: wire.MaxCredit})
	for {
		switch m := c.read(r).(type) {
		case *wire.Subscribed:
		case *wire.Batches:
			for b := m.Batches; len(b) > 0; b = b[len(batches[len(batches)-1]):] {
				batch, err := batchfmt.Parse(b)
				if err != nil {
					c.tb.Fatalf("batch: %v", err)
				}
				batches = append(batches, batch.Bytes())
			}
		default:
			return batches, m
		}
	}
}

func (c *Client) values(b []byte) (values []string) {
	c.tb.Helper()
	var reader batchfmt.Reader
	for len(b) > 0 {
		batch, err := batchfmt.Parse(b)
		if err != nil {
			c.tb.Fatalf("batch: %v", err)
		}
		if batch.VerifyFront() != nil || batch.Verify() != nil || reader.Reset(batch) != nil {
			c.tb.Fatalf("batch at offset %d does not verify", batch.BaseOffset())
		}
		for reader.Next() {
			values = append(values, string(reader.Record().Value))
		}
		b = b[batch.Size():]
	}
	return values
}

// Batch seals a batch of these values.
func Batch(tb testing.TB, p *wire.ProducerInited, base batchfmt.Seq, values ...string) []byte {
	tb.Helper()
	var b batchfmt.Builder
	for _, v := range values {
		if err := b.Add(&batchfmt.Record{Timestamp: 1, Value: []byte(v)}); err != nil {
			tb.Fatal(err)
		}
	}
	sealed, err := b.Seal(nil, batchfmt.Seal{
		Version: batchfmt.Version2, ProducerID: p.ProducerID, Epoch: p.Epoch, BaseSequence: base,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return sealed
}

// Values makes n different values.
func Values(prefix string, n int) []string {
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return values
}
