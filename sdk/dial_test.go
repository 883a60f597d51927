package sdk_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

const otherPin = "sha256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// wantDialError dials and wants to fail in a stage, with words for a person.
func wantDialError(t *testing.T, ctx context.Context, url string, stage sdk.Stage, words ...string) error {
	t.Helper()
	c, err := sdk.Dial(ctx, url)
	if err == nil {
		c.Close(ctx)
		t.Fatal("connected")
	}
	var de *sdk.DialError
	if !errors.As(err, &de) || de.Stage != stage {
		t.Fatalf("stage is not %s: %v", stage, err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error does not say %q: %v", word, err)
		}
	}
	return err
}

func TestDialErrorsNameTheStage(t *testing.T) {
	s := servertest.Start(t)
	ctx := testContext(t)
	addr, _, _ := strings.Cut(strings.TrimPrefix(s.URL(), "quoin://"), "?")
	_, pin, _ := strings.Cut(s.URL(), "pin=")

	t.Run("URL", func(t *testing.T) { wantDialError(t, ctx, "http://x", sdk.StageURL, "quoin://") })
	t.Run("host that does not exist", func(t *testing.T) {
		wantDialError(t, ctx, "quoin://nobody.invalid", sdk.StageResolve, "nobody.invalid")
	})
	t.Run("pin of another server shows both", func(t *testing.T) {
		err := wantDialError(t, ctx, "quoin://"+addr+"?pin="+otherPin, sdk.StageTLS, otherPin, pin)
		if !errors.Is(err, sdk.ErrPinMismatch) {
			t.Errorf("not ErrPinMismatch: %v", err)
		}
	})
	t.Run("certificate that nobody signed", func(t *testing.T) {
		wantDialError(t, ctx, "quoin://"+addr, sdk.StageTLS, "certificate")
	})
	t.Run("nobody there", func(t *testing.T) {
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		err := wantDialError(t, short, "quoin://127.0.0.1:1", sdk.StageUDP, "no answer", "127.0.0.1:1")
		if !errors.Is(err, sdk.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("another protocol", func(t *testing.T) {
		other := fakeServer(t, "other/1", nil)
		wantDialError(t, ctx, other, sdk.StageALPN, wire.ALPN)
	})
	t.Run("another version", func(t *testing.T) {
		older := fakeServer(t, wire.ALPN, &wire.Refused{MinProtocol: 7, MaxProtocol: 8,
			Err: *wire.Errorf(wire.CodeUnsupportedVersion, "upgrade the client")})
		wantDialError(t, ctx, older, sdk.StageVersion, "upgrade the client")
	})
	t.Run("an answer in a protocol that was not offered", func(t *testing.T) {
		newer := fakeServer(t, wire.ALPN, &wire.HelloOK{Protocol: wire.MaxProtocol + 1})
		wantDialError(t, ctx, newer, sdk.StageVersion, "UNSUPPORTED_VERSION", "upgrade the client")
		older := fakeServer(t, wire.ALPN, &wire.HelloOK{Protocol: wire.MinProtocol - 1})
		wantDialError(t, ctx, older, sdk.StageVersion, "UNSUPPORTED_VERSION", "upgrade the server")
	})
	t.Run("refused by the server", func(t *testing.T) {
		full := fakeServer(t, wire.ALPN, &wire.Refused{Err: *wire.Errorf(wire.CodeThrottled, "full")})
		wantDialError(t, ctx, full, sdk.StageHandshake, "THROTTLED", "full")
	})
	t.Run("nonsense instead of a greeting", func(t *testing.T) {
		mad := fakeServer(t, wire.ALPN, &wire.Pong{})
		wantDialError(t, ctx, mad, sdk.StageHandshake, "Pong")
	})
	t.Run("several servers, none of which will do", func(t *testing.T) {
		wantDialError(t, ctx, "quoin://nobody.invalid,"+addr+"?pin="+otherPin, sdk.StageTLS, "nobody.invalid", otherPin)
	})
	t.Run("context that is over", func(t *testing.T) {
		over, cancel := context.WithCancel(ctx)
		cancel()
		if err := wantDialError(t, over, s.URL(), sdk.StageUDP); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestDialTriesServersInTurn(t *testing.T) {
	s := servertest.Start(t)
	ctx := testContext(t)
	c, err := sdk.Dial(ctx, strings.Replace(s.URL(), "quoin://", "quoin://nobody.invalid,", 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ListTopics(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Close(ctx); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if _, err := c.ListTopics(ctx); !errors.Is(err, sdk.ErrClosed) {
		t.Errorf("request after Close: %v", err)
	}
	if _, err := c.Producer("t").Idempotent().Build(ctx); !errors.Is(err, sdk.ErrClosed) {
		t.Errorf("build after Close: %v", err)
	}
}

// TestDeadHostFailsNoAttempt: the next host is tried beside it, at the first connection and
// at every later one, so that no attempt as a whole is told to have failed.
func TestDeadHostFailsNoAttempt(t *testing.T) {
	dead, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	s := servertest.Start(t)
	onEvent, events := watch()
	ctx := testContext(t)
	c, err := sdk.Dial(ctx, strings.Replace(s.URL(), "quoin://", "quoin://"+dead.LocalAddr().String()+",", 1), onEvent)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := c.ListTopics(ctx); err != nil {
			t.Error(err)
		}
		s.CutConnection()
	}
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
	for len(events) > 0 {
		if e := <-events; e.Kind == sdk.EventRetry {
			t.Errorf("attempt %d failed: %v", e.Attempt, e.Err)
		}
	}
}

func TestDialWithAnAuthority(t *testing.T) {
	cert, pool := certificate(t)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, certFile, "CERTIFICATE", cert.Certificate[0])
	writePEM(t, keyFile, "PRIVATE KEY", key)
	s := servertest.Start(t, servertest.Configure(func(c *server.Config) { c.CertFile, c.KeyFile = certFile, keyFile }))
	addr, _, _ := strings.Cut(s.URL(), "?")
	ctx := testContext(t)
	for name, opt := range map[string]sdk.DialOption{"pool": sdk.WithRootCAs(pool), "file": sdk.WithCAFile(certFile)} {
		c, err := sdk.Dial(ctx, addr, opt, sdk.WithClientName("tester"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c.Close(ctx)
	}
}

func writePEM(t *testing.T, path, kind string, bytes []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// certificate makes one for 127.0.0.1 that signs itself.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

// fakeServer is a peer of another kind: it speaks a protocol name and answers a Hello
// with a message of the test's choice. It returns its URL, with its pin.
func fakeServer(t *testing.T, alpn string, reply wire.Message) string {
	t.Helper()
	cert, _ := certificate(t)
	l, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{alpn}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			if stream, err := conn.AcceptStream(conn.Context()); err == nil {
				if _, err := wire.Read(stream); err == nil && wire.Write(stream, reply) == nil {
					<-conn.Context().Done()
				}
			}
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return "quoin://" + l.Addr().String() + "?pin=" + pinOf(cert.Leaf)
}
