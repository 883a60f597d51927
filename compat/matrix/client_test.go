package matrix

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/wire/udp"
)

const (
	alpn1 = "quoin/1" // of this protocol
	alpn2 = "quoin/2" // that nobody speaks yet
)

// window is how many bytes of a stream may be on their way: enough for the server never to
// wait for a benchmark.
const window = 4 << 20

// A peer is a client by what it says of itself.
type peer struct {
	hello string   // the frozen frame
	alpn  []string // nil is that of this protocol alone
	newer bool     // its frames have fields that came later, and optional frames stand between
}

// A client plays a peer with frozen frames on a connection of its own.
type client struct {
	t       testing.TB
	release release
	newer   bool
	fill    holes // what the server told it
	socket  *quic.Transport
	conn    *quic.Conn
	control *quic.Stream
	in      *bufio.Reader
}

// connect makes the connection, up to TLS, and says nothing. The error is that of the dial.
func connect(t testing.TB, r release, rawURL string, p peer) (*client, error) {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	server, err := net.ResolveUDPAddr("udp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	socket, err := udp.Listen("udp", "127.0.0.1:0", udp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, release: r, newer: p.newer, fill: holes{}, socket: &quic.Transport{Conn: socket}}
	t.Cleanup(c.close)
	protocols := p.alpn
	if protocols == nil {
		protocols = []string{alpn1}
	}
	// Whether the server's key is the right one is not what the matrix is about.
	conf := &tls.Config{InsecureSkipVerify: true, NextProtos: protocols, MinVersion: tls.VersionTLS13}
	c.conn, err = c.socket.Dial(within(t), server, conf, &quic.Config{MaxIdleTimeout: patience,
		InitialStreamReceiveWindow: window, InitialConnectionReceiveWindow: 4 * window})
	return c, err
}

// close ends the connection and its socket, and waits for the goroutines of both.
func (c *client) close() {
	if c.conn != nil {
		c.conn.CloseWithError(0, "")
	}
	c.socket.Close()
	c.socket.Conn.Close()
}

// greet opens the control stream with a Hello and gives the answer.
func (c *client) greet(hello string) frame {
	c.t.Helper()
	c.control = c.open()
	c.in = bufio.NewReader(c.control)
	c.send(c.control, hello)
	return c.read(c.in)
}

// dial connects a client that must be welcome.
func dial(t testing.TB, r release, url string, p peer) *client {
	t.Helper()
	c, err := connect(t, r, url, p)
	if err != nil {
		t.Fatal(err)
	}
	c.welcome(c.greet(p.hello))
	return c
}

// welcome checks what a server of today says of itself in the words of the first release.
func (c *client) welcome(f frame) {
	c.t.Helper()
	w, err := f.welcome()
	if err != nil || w.protocol != 1 || string(w.versions) != "\x01\x02" || w.maxBatch != 16<<20 || w.inFlight < 1 || w.lanes < 1 || w.incarnation < 1 {
		c.t.Fatalf("%+v: %v", w, err)
	}
}

func (c *client) open() *quic.Stream {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := c.conn.OpenStreamSync(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	s.SetDeadline(time.Now().Add(patience))
	return s
}

// send writes a frozen frame, as this client has it.
func (c *client) send(w io.Writer, name string) {
	c.t.Helper()
	b := c.release.frame(c.t, name, c.fill)
	if c.newer {
		b = append(c.release.frame(c.t, "newer-client/optional", nil), withTail(b)...)
	}
	if _, err := w.Write(b); err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
}

func (c *client) read(r io.Reader) frame {
	c.t.Helper()
	f, err := readFrame(r)
	if err != nil {
		c.t.Fatal(err)
	}
	return f
}

// request sends one request on a stream of its own.
func (c *client) request(name string) frame {
	c.t.Helper()
	s := c.open()
	c.send(s, name)
	s.Close()
	return c.read(bufio.NewReader(s))
}

// alive asks for a sign of life: whatever was refused, the connection goes on.
func (c *client) alive() {
	c.t.Helper()
	c.send(c.control, "client/ping")
	f := c.read(c.in)
	if in := f.want(kindPong); in.u64() != 0x1122334455667788 || in.err != nil {
		c.t.Fatalf("a ping was answered with %x: %v", f.payload, in.err)
	}
}

// A laneStream is a stream with one lane.
type laneStream struct {
	*quic.Stream
	in *bufio.Reader
}

// openLane opens a lane that holds nothing.
func (c *client) openLane(name string) *laneStream {
	c.t.Helper()
	s := c.open()
	l := &laneStream{s, bufio.NewReader(s)}
	c.send(s, name)
	if o, err := c.read(l.in).opened(); err != nil || o.lastSequence != -1 || len(o.position) > 0 {
		c.t.Fatalf("%s: %+v, %v", name, o, err)
	}
	return l
}

// produce sends a batch and gives its result.
func (c *client) produce(l *laneStream, name string) result {
	c.t.Helper()
	c.send(l, name)
	results, err := c.read(l.in).results()
	if err != nil || len(results) != 1 {
		c.t.Fatalf("%s: %+v, %v", name, results, err)
	}
	return results[0]
}

// fetch reads a topic from an offset to its end. It gives the batches, and the refusal if one
// comes.
func (c *client) fetch(topic [16]byte, from int64) (batches [][]byte, why *refusal) {
	c.t.Helper()
	c.fill["topic"] = topic[:]
	c.fill.set64("from", from)
	s := c.open()
	defer s.Close()
	in := bufio.NewReader(s)
	c.send(s, "client/subscribe")
	f := c.read(in)
	if sub, err := f.subscribed(); err != nil || sub.start != from || sub.logStart != 0 {
		c.t.Fatalf("subscribed: %+v, %v", sub, err)
	}
	for {
		switch f = c.read(in); f.kind {
		case kindBatches:
			pushed, err := f.push()
			if err != nil {
				c.t.Fatal(err)
			}
			batches = append(batches, pushed.batches...)
		case kindEndReached:
			return batches, nil
		default:
			r, err := f.error()
			if err != nil {
				c.t.Fatal(err)
			}
			return batches, &r
		}
	}
}

func le32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
