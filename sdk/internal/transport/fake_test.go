package transport

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"go.uber.org/goleak"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A peer is a server that says Hello and then behaves as a test wants. Its goroutines
// end with its listener.
type peer struct {
	listener *quic.Listener
	pin      Pin
	control  func(conn *quic.Conn, control *quic.Stream) // after the greeting
	stream   func(s *quic.Stream)                        // of every other stream
	wg       sync.WaitGroup
	ctx      context.Context
}

func startPeer(t *testing.T, control func(*quic.Conn, *quic.Stream), stream func(*quic.Stream)) *peer {
	t.Helper()
	cert, pin := selfSigned(t)
	conf := quicConfig(true)
	conf.MaxIncomingStreams = 1000
	l, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{wire.ALPN}}, conf)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &peer{listener: l, pin: pin, control: control, stream: stream, ctx: ctx}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		cancel()
		l.Close()
		p.wg.Wait()
	})
	return p
}

func (p *peer) target() Target {
	return Target{"127.0.0.1", p.listener.Addr().(*net.UDPAddr).AddrPort().Port()}
}

func (p *peer) accept() {
	for {
		conn, err := p.listener.Accept(p.ctx)
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(conn) })
	}
}

func (p *peer) serve(conn *quic.Conn) {
	defer conn.CloseWithError(0, "")
	control, err := conn.AcceptStream(p.ctx)
	if err != nil {
		return
	}
	if _, err := wire.Read(control); err != nil {
		return
	}
	hello := &wire.HelloOK{Protocol: 1, BatchVersions: []batchfmt.Version{2}, MaxInFlight: 5, MaxBatchBytes: 1 << 20}
	if wire.Write(control, hello) != nil {
		return
	}
	p.wg.Go(func() { p.control(conn, control) })
	for {
		s, err := conn.AcceptStream(p.ctx)
		if err != nil {
			return
		}
		p.wg.Go(func() { p.stream(s) })
	}
}

// answerPings is what a healthy server does on its control stream.
func answerPings(_ *quic.Conn, control *quic.Stream) {
	for {
		m, err := wire.Read(control)
		if err != nil {
			return
		}
		if ping, ok := m.(*wire.Ping); ok && wire.Write(control, &wire.Pong{Nonce: ping.Nonce}) != nil {
			return
		}
	}
}

func selfSigned(t *testing.T) (tls.Certificate, Pin) {
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
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, Pin(sha256.Sum256(leaf.RawSubjectPublicKeyInfo))
}

// seen is what an observer heard, one string an event.
type seen chan string

func (s seen) observer() Observer {
	return Observer{
		Connected:    func(Change) { s <- "connected" },
		Disconnected: func(_ Change, err error) { s <- "disconnected: " + err.Error() },
		Retrying:     func(Change, int, time.Duration, error) { s <- "retrying" },
		Drained:      func(_ Change, reason string) { s <- "drained: " + reason },
	}
}

func (s seen) want(t *testing.T, event string) {
	t.Helper()
	select {
	case got := <-s:
		if got != event {
			t.Fatalf("event %q, want %q", got, event)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("no event %q", event)
	}
}

// connect makes a manager for p that is closed when the test ends.
func connect(t *testing.T, p *peer) (*Manager, seen) {
	t.Helper()
	events := make(seen, 100)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	m, err := New(ctx, Config{Targets: []Target{p.target()}, Trust: Trust{Pins: []Pin{p.pin}},
		Name: "test", Logger: slog.New(slog.DiscardHandler), Observer: events.observer()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	events.want(t, "connected")
	return m, events
}
