package copies

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"go.uber.org/goleak"

	"github.com/quoin-io/quoin/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair makes a connection and gives its two ends.
func pair(t *testing.T, datagrams bool) (here, there *quic.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	l, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate(t)}, NextProtos: []string{wire.ALPN}},
		&quic.Config{EnableDatagrams: datagrams})
	if err != nil {
		t.Fatal(err)
	}
	here, err = quic.DialAddr(ctx, l.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{wire.ALPN}},
		&quic.Config{EnableDatagrams: true})
	if err == nil {
		there, err = l.Accept(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		here.CloseWithError(0, "")
		there.CloseWithError(0, "")
		l.Close()
	})
	return here, there
}

func certificate(t *testing.T) tls.Certificate {
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
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// sender is one that believes that the link loses packets, until it looks again.
func sender(conn Conn, running *sync.WaitGroup, sent *atomic.Int64) *Sender {
	s := NewSender(conn, func() { sent.Add(1) })
	running.Go(s.Run)
	s.mu.meter = meter{looked: time.Now(), every: time.Hour, room: 1 << 20, delay: time.Millisecond}
	return s
}

func TestCopiesArrive(t *testing.T) {
	here, there := pair(t, true)
	var running sync.WaitGroup
	var sent atomic.Int64
	s := sender(here, &running, &sent)
	frame := wire.Append(nil, &wire.Confirmed{Lane: 1, Through: 2})
	got := make(chan uint64, 2*maxWaiting)
	running.Go(func() {
		Receive(there, func(c wire.Copy, h wire.Header) {
			if c.Stream != 4 || h.Kind != wire.KindConfirmed || !bytes.Equal(c.Frame, frame) {
				t.Errorf("%+v came", c)
			}
			got <- c.At
		})
	})
	if err := here.SendDatagram([]byte("something else")); err != nil {
		t.Fatal(err)
	}
	const n = 20
	for at := range uint64(n) {
		s.Add(4, at, frame)
	}
	for at := range uint64(n) {
		if next := <-got; next != at {
			t.Fatalf("the copy of %d came, want that of %d", next, at)
		}
	}
	// Those that it sends after a rest come too.
	s.Add(4, n, frame)
	if at := <-got; at != n {
		t.Errorf("the copy of %d came", at)
	}
	here.CloseWithError(0, "")
	running.Wait()
	if m := sent.Load(); m != n+1 {
		t.Errorf("%d copies are counted", m)
	}
}

func TestWhatIsNotCopied(t *testing.T) {
	here, _ := pair(t, true)
	var running sync.WaitGroup
	var sent atomic.Int64
	small := make([]byte, 10)
	waiting := func(s *Sender) int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.mu.waiting)
	}
	if s := NewSender(here, func() {}); s == nil {
		t.Fatal("the peer takes datagrams")
	} else if s.Add(0, 0, small); waiting(s) != 0 {
		t.Error("a copy on a link that has lost nothing")
	}
	s := sender(here, &running, &sent)
	s.mu.meter.delay = time.Hour
	s.Add(0, 0, make([]byte, MaxFrame+1))
	if waiting(s) != 0 {
		t.Error("a copy of a large frame")
	}
	for range 2 * maxWaiting {
		s.Add(0, 0, small)
	}
	if n := waiting(s); n > maxWaiting {
		t.Errorf("%d copies wait", n)
	}
	here.CloseWithError(0, "") // which ends the wait of an hour
	running.Wait()
	if n := sent.Load(); n != 0 {
		t.Errorf("%d copies were sent", n)
	}
}

func TestPeerThatTakesNoDatagrams(t *testing.T) {
	here, _ := pair(t, false)
	s := NewSender(here, func() {})
	if s != nil {
		t.Error("it has a sender")
	}
	s.Add(0, 0, make([]byte, 10))
	s.Run()
}
