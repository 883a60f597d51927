package udp

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
)

const transferBytes = 4 << 20

// TestQUICTransfer carries megabytes over real connections and compares checksums. The
// unspecified binds need packet info to answer from the right address.
func TestQUICTransfer(t *testing.T) {
	plain := Options{PlainReceive: true}
	tests := []struct {
		name           string
		network        string
		bind, host     string
		server, client Options
	}{
		{"IPv4", "udp4", "127.0.0.1:0", "127.0.0.1", Options{}, Options{}},
		{"IPv6", "udp6", "[::1]:0", "::1", Options{}, Options{}},
		{"unspecified bind, IPv4 peer", "udp", ":0", "127.0.0.1", Options{}, Options{}},
		{"unspecified bind, IPv6 peer", "udp", ":0", "::1", Options{}, Options{}},
		{"unspecified bind, second address", "udp4", ":0", "127.0.0.2", Options{}, Options{}},
		{"plain server", "udp4", "127.0.0.1:0", "127.0.0.1", plain, Options{}},
		{"plain client", "udp4", "127.0.0.1:0", "127.0.0.1", Options{}, plain},
		{"plain both", "udp4", "127.0.0.1:0", "127.0.0.1", plain, plain},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client, server := connect(t, sockets{
				server: listen(t, tt.network, tt.bind, tt.server),
				client: listen(t, tt.network, ":0", tt.client),
				host:   tt.host,
			})
			answered := make(chan error, 1)
			go func() { answered <- echoHalf(t.Context(), server) }()
			if err := sendAndCompare(t.Context(), client); err != nil {
				t.Error(err)
			}
			if err := <-answered; err != nil {
				t.Error("server:", err)
			}
		})
	}
}

// sendAndCompare sends a stream of noise, and expects its checksum and then noise back.
func sendAndCompare(ctx context.Context, c *quic.Conn) error {
	s, err := c.OpenStreamSync(ctx)
	if err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(s, sum), noise(1), transferBytes); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	var answer [sha256.Size]byte
	if _, err := io.ReadFull(s, answer[:]); err != nil {
		return err
	}
	if [sha256.Size]byte(sum.Sum(nil)) != answer {
		return errors.New("the server got other bytes than were sent")
	}
	got, want := sha256.New(), sha256.New()
	if _, err := io.Copy(got, s); err != nil {
		return err
	}
	if _, err := io.CopyN(want, noise(2), transferBytes); err != nil {
		return err
	}
	if string(got.Sum(nil)) != string(want.Sum(nil)) {
		return errors.New("the client got other bytes than were sent")
	}
	return nil
}

// echoHalf is the other side of sendAndCompare.
func echoHalf(ctx context.Context, c *quic.Conn) error {
	s, err := c.AcceptStream(ctx)
	if err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, s); err != nil {
		return err
	}
	if _, err := s.Write(sum.Sum(nil)); err != nil {
		return err
	}
	if _, err := io.CopyN(s, noise(2), transferBytes); err != nil {
		return err
	}
	return s.Close()
}

// BenchmarkTransfer compares receiving with and without offload, on one connection with
// one stream, both ends in this process. Compare with: benchstat -col /receive.
func BenchmarkTransfer(b *testing.B) {
	for _, receive := range []struct {
		name string
		o    Options
	}{{"plain", Options{PlainReceive: true}}, {"gro", Options{}}} {
		b.Run("receive="+receive.name, func(b *testing.B) {
			client, server := connect(b, sockets{
				server: listen(b, "udp4", "127.0.0.1:0", receive.o),
				client: listen(b, "udp4", "127.0.0.1:0", receive.o),
				host:   "127.0.0.1",
			})
			drained := make(chan error, 1)
			go func() { drained <- drain(b.Context(), server) }()
			s, err := client.OpenStreamSync(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			block := make([]byte, 64<<10)
			b.SetBytes(int64(len(block)))
			for b.Loop() {
				if _, err := s.Write(block); err != nil {
					b.Fatal(err)
				}
			}
			if err := errors.Join(s.Close(), <-drained); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func drain(ctx context.Context, c *quic.Conn) error {
	s, err := c.AcceptStream(ctx)
	if err != nil {
		return err
	}
	block := make([]byte, 64<<10)
	for {
		if _, err := s.Read(block); err != nil {
			if err == io.EOF {
				return s.Close()
			}
			return err
		}
	}
}

type sockets struct {
	server, client Conn
	host           string // where the client finds the server
}

// connect makes one connection over the two sockets, closed with the test.
func connect(t testing.TB, s sockets) (client, server *quic.Conn) {
	t.Helper()
	t.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
	for _, c := range []Conn{s.server, s.client} {
		// The library takes a passed deadline for a passing trouble and reads on for ever.
		if err := c.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	serverTLS, clientTLS := certificate(t, s.host)
	st, ct := &quic.Transport{Conn: s.server}, &quic.Transport{Conn: s.client}
	t.Cleanup(func() {
		if err := errors.Join(ct.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	config := &quic.Config{MaxIdleTimeout: 10 * time.Second, MaxStreamReceiveWindow: 4 << 20}
	ln, err := st.Listen(serverTLS, config)
	if err != nil {
		t.Fatal(err)
	}
	port := s.server.LocalAddr().(*net.UDPAddr).Port
	client, err = ct.Dial(t.Context(), &net.UDPAddr{IP: net.ParseIP(s.host), Port: port}, clientTLS, config)
	if err != nil {
		t.Fatal(err)
	}
	server, err = ln.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return client, server
}

func certificate(t testing.TB, host string) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.ParseIP(host)},
	}
	der, err := x509.CreateCertificate(crand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	protocols := []string{"udp-test"}
	server = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		NextProtos:   protocols,
	}
	return server, &tls.Config{RootCAs: roots, ServerName: host, NextProtos: protocols}
}

// noise is an endless stream that depends on the seed only.
func noise(seed byte) io.Reader { return rand.NewChaCha8([32]byte{seed}) }
