package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/wire/udp"
)

// sockets are the UDP sockets of a client, one an IP version, opened when first needed
// and used for every connection after that. A socket that broke is replaced.
type sockets struct {
	logger *slog.Logger
	mu     struct {
		sync.Mutex
		byNetwork map[string]*quic.Transport
		closed    bool
	}
}

// silenceLibrary keeps the QUIC library from writing about buffer sizes to the standard
// logger of the application; the client's own logger says it instead.
var silenceLibrary = sync.OnceFunc(func() {
	const name = "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING"
	if _, set := os.LookupEnv(name); !set {
		os.Setenv(name, "true")
	}
})

func (s *sockets) dial(ctx context.Context, addr netip.AddrPort, t *tls.Config, c *quic.Config) (*quic.Conn, error) {
	network := "udp6"
	if addr.Addr().Unmap().Is4() {
		network = "udp4"
	}
	target := net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()))
	transport, err := s.get(network)
	if err != nil {
		return nil, err
	}
	conn, err := transport.Dial(ctx, target, t, c)
	if err == nil || !isBroken(err) {
		return conn, err
	}
	s.drop(network, transport)
	if transport, err = s.get(network); err != nil {
		return nil, err
	}
	return transport.Dial(ctx, target, t, c)
}

func (s *sockets) get(network string) (*quic.Transport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, ErrClosed
	}
	if t := s.mu.byNetwork[network]; t != nil {
		return t, nil
	}
	silenceLibrary()
	conn, err := udp.Listen(network, ":0", udp.Options{})
	if err != nil {
		return nil, err
	}
	t := &quic.Transport{Conn: conn}
	if s.mu.byNetwork == nil {
		s.mu.byNetwork = make(map[string]*quic.Transport)
	}
	s.mu.byNetwork[network] = t
	return t, nil
}

// reportBuffers says when the kernel gave less than the library wants.
func (s *sockets) reportBuffers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for network, t := range s.mu.byNetwork {
		c, ok := t.Conn.(udp.Conn)
		if !ok {
			continue
		}
		if sizes, err := udp.BufferSizes(c); err == nil && !sizes.Enough() {
			s.logger.Info("the kernel's UDP buffers are smaller than wanted, bursts may be lost",
				"network", network, "receive", sizes.Receive, "send", sizes.Send, "wanted", udp.WantedBuffer)
		}
	}
}

func (s *sockets) drop(network string, t *quic.Transport) {
	s.mu.Lock()
	if s.mu.byNetwork[network] == t {
		delete(s.mu.byNetwork, network)
	}
	s.mu.Unlock()
	closeTransport(t)
}

func (s *sockets) close() {
	s.mu.Lock()
	s.mu.closed = true
	all := s.mu.byNetwork
	s.mu.byNetwork = nil
	s.mu.Unlock()
	for _, t := range all {
		closeTransport(t)
	}
}

// closeTransport stops the transport's goroutines and waits for them, then closes the
// socket, which the transport does not own.
func closeTransport(t *quic.Transport) {
	t.Close()
	t.Conn.Close()
}

// isBroken reports whether the socket itself is gone. Other errors of the library are
// net.ErrClosed too, so that does not tell.
func isBroken(err error) bool { return errors.Is(err, quic.ErrTransportClosed) }
