package ceiling

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/quic-go/quic-go"
)

const protocol = "quoin-ceiling/1"

// quicConfig has the settings that the product uses too. keepAlive is for the client.
func quicConfig(keepAlive time.Duration) *quic.Config {
	return &quic.Config{
		HandshakeIdleTimeout:           3 * time.Second,
		MaxIdleTimeout:                 10 * time.Second,
		KeepAlivePeriod:                keepAlive,
		InitialStreamReceiveWindow:     1 << 20,
		MaxStreamReceiveWindow:         4 << 20,
		InitialConnectionReceiveWindow: 16 << 20,
		MaxConnectionReceiveWindow:     64 << 20,
		MaxIncomingStreams:             1024,
		MaxIncomingUniStreams:          -1,
	}
}

// selfSigned makes a certificate for the loopback address that lives in memory only.
func selfSigned() (*tls.Config, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		NextProtos:   []string{protocol},
		MinVersion:   tls.VersionTLS13,
	}, der, nil
}

// dialQUIC connects to a child and trusts the certificate that it greeted with.
func dialQUIC(ctx context.Context, tr *quic.Transport, g greeting) (*quic.Conn, error) {
	cert, err := x509.ParseCertificate(g.Cert)
	if err != nil {
		return nil, fmt.Errorf("read the server's certificate: %w", err)
	}
	addr, err := net.ResolveUDPAddr("udp4", g.Addr)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return tr.Dial(ctx, addr, &tls.Config{
		RootCAs:    roots,
		ServerName: addr.IP.String(),
		NextProtos: []string{protocol},
		MinVersion: tls.VersionTLS13,
	}, quicConfig(3*time.Second))
}
