package matrix

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
)

// A script is what a server that is played with frozen bytes answers. Frames are named by
// their files.
type script struct {
	alpn    string   // empty is that of this protocol
	hello   string   // the answer to Hello
	topics  string   // the answer to DescribeTopics; empty is an Error that came later
	results string   // the answer to a batch
	pushes  []string // what a subscription from the start gets
	behind  string   // what one from behind the version that the client does not know gets
	end     int64    // of the partition
	newer   bool     // frames have fields that came later, and optional frames stand between

	spoil func(name string, frame []byte) []byte // changes frames, for controls; nil for none
}

// An oldServer plays a script to any client. Its goroutines end with it, and its end waits for
// them.
type oldServer struct {
	t        testing.TB
	release  release
	script   script
	listener *quic.Listener
	pin      string
	running  sync.WaitGroup
	ctx      context.Context
}

func serve(t testing.TB, r release, play script) *oldServer {
	t.Helper()
	if play.alpn == "" {
		play.alpn = alpn1
	}
	cert, pin := certificate(t)
	conf := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{play.alpn}, MinVersion: tls.VersionTLS13}
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	socket := &quic.Transport{Conn: udp}
	l, err := socket.Listen(conf, &quic.Config{MaxIdleTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &oldServer{t: t, release: r, script: play, listener: l, pin: pin, ctx: ctx}
	s.running.Go(s.accept)
	t.Cleanup(func() {
		cancel()
		l.Close()
		s.running.Wait()
		socket.Close()
		udp.Close()
	})
	return s
}

func (s *oldServer) url() string { return "quoin://" + s.listener.Addr().String() + "?pin=" + s.pin }

// certificate makes one that signs itself, and its pin.
func certificate(t testing.TB) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, "sha256:" + base64.RawURLEncoding.EncodeToString(sum[:])
}

func (s *oldServer) accept() {
	for {
		conn, err := s.listener.Accept(s.ctx)
		if err != nil {
			return
		}
		s.running.Go(func() { s.connection(conn) })
	}
}

func (s *oldServer) connection(conn *quic.Conn) {
	defer conn.CloseWithError(0, "")
	for first := true; ; first = false {
		stream, err := conn.AcceptStream(s.ctx)
		if err != nil {
			return
		}
		if first {
			s.running.Go(func() { s.control(stream) })
			continue
		}
		s.running.Go(func() { s.stream(stream) })
	}
}

// control answers Hello, and pings until the client leaves.
func (s *oldServer) control(stream *quic.Stream) {
	in := bufio.NewReader(stream)
	f, err := readFrame(in)
	if err != nil {
		return
	}
	if h, err := f.hello(); err != nil || h.minProtocol > 1 || h.maxProtocol < 1 || string(h.versions) != "\x01\x02" || h.name == "" {
		s.t.Errorf("the Hello is %+v: %v", h, err)
	}
	s.answer(stream, s.script.hello, nil)
	for {
		f, err := readFrame(in)
		if err != nil {
			return
		}
		ping := f.want(kindPing)
		nonce := ping.take(8)
		if ping.err != nil {
			s.t.Error(ping.err)
			return
		}
		s.answer(stream, "server/pong", holes{"nonce": nonce})
	}
}

// answer writes a frozen frame. A client that is gone misses nothing.
func (s *oldServer) answer(w io.Writer, name string, fill holes) {
	if fill == nil {
		fill = holes{}
	}
	fill.set64("end", s.script.end)
	b := s.release.frame(s.t, name, fill)
	if s.script.spoil != nil {
		b = s.script.spoil(name, b)
	}
	if s.script.newer {
		b = append(s.release.frame(s.t, "newer-client/optional", nil), withTail(b)...)
	}
	_, _ = w.Write(b)
}

// stream answers the frames of any other stream until it ends.
func (s *oldServer) stream(stream *quic.Stream) {
	defer stream.CancelRead(0)
	defer stream.Close()
	in := bufio.NewReader(stream)
	for {
		f, err := readFrame(in)
		if err != nil || !s.react(stream, f) {
			return
		}
	}
}

// react answers a frame, and reports whether the stream goes on.
func (s *oldServer) react(w io.Writer, f frame) bool {
	switch f.kind {
	case kindDescribeTopics:
		s.describe(w, f)
	case kindInitProducer:
		s.answer(w, "server/producer-inited", nil)
	case kindCloseProducer:
		s.answer(w, "server/producer-closed", nil)
	case kindOpenLane:
		s.openLane(w, f)
		return true
	case kindProduce:
		s.produce(w, f)
		return true
	case kindSubscribe:
		s.subscribe(w, f)
	case kindCredit:
		return true
	default:
		s.t.Errorf("a frame of kind %d: %x", f.kind, f.payload)
	}
	return false
}

func (s *oldServer) describe(w io.Writer, f frame) {
	d, err := f.describe()
	if err != nil || len(d.names) != 1 || d.names[0] != "matrix" || d.after != "" {
		s.t.Errorf("topics are asked for with %+v: %v", d, err)
	}
	s.answer(w, s.script.topics, nil)
}

// topicID is that of server/topics-described.
var topicID = [16]byte{0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f}

func (s *oldServer) openLane(w io.Writer, f frame) {
	o, err := f.openLane()
	isSeven := o.producer.id == 7 && o.producer.epoch == 1 && o.producer.key[0] == 0xd0
	if err != nil || o.topic != topicID || o.part != 0 || o.producer.id != 0 && !isSeven {
		s.t.Errorf("a lane is opened with %+v: %v", o, err)
	}
	s.answer(w, "server/lane-opened", holes{"lane": le32(o.lane)})
}

func (s *oldServer) produce(w io.Writer, f frame) {
	p, err := f.produce()
	if err != nil || p.durability != 1 || p.batch[offVersion] > 2 || recordCount(p.batch) != 1 {
		s.t.Errorf("a batch comes with %+v: %v", p, err)
		return
	}
	fill := holes{"lane": le32(p.lane)}
	fill.set64("number", p.number())
	s.answer(w, s.script.results, fill)
}

// subscribe pushes what the script has. A refusal among it is the last frame.
func (s *oldServer) subscribe(w io.Writer, f frame) {
	sub, err := f.subscribe()
	if err != nil || sub.topic != topicID || sub.part != 0 || !sub.toEnd || sub.credit == 0 {
		s.t.Errorf("a subscription with %+v: %v", sub, err)
	}
	pushes, fill := s.script.pushes, holes{}
	if fill.set64("start", max(sub.from, 0)); sub.from > 0 {
		pushes = []string{s.script.behind}
	}
	s.answer(w, "server/subscribed", fill)
	for _, name := range pushes {
		s.answer(w, name, nil)
		if name == errorVersion3 {
			return
		}
	}
	s.answer(w, "server/end-reached", nil)
}

const errorVersion3 = "newer-server/error-version-3"
