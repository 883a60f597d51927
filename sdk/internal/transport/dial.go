package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// What a connection costs and how soon its loss is noticed.
const (
	streamWindow        = 4 << 20
	connWindow          = 16 << 20
	maxConnWindow       = 64 << 20
	idleTimeout         = 10 * time.Second
	keepAlive           = 3 * time.Second
	handshakeTimeout    = 3 * time.Second
	helloTimeout        = 5 * time.Second
	otherAddressTimeout = 750 * time.Millisecond // for an address of a host that has another one
)

// A Target is one host of the URL.
type Target struct {
	Host string
	Port uint16
}

func (t Target) String() string { return net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port))) }

// Trust says which servers are believed.
type Trust struct {
	Pins  []Pin          // when there are any, they alone count
	Roots *x509.CertPool // nil for those of the system
}

func (t Trust) tlsConfig(host string) *tls.Config {
	c := &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{wire.ALPN},
		ServerName: host,
		RootCAs:    t.Roots,
	}
	if len(t.Pins) > 0 {
		pinned(c, t.Pins)
	}
	return c
}

func quicConfig() *quic.Config {
	return &quic.Config{
		HandshakeIdleTimeout:           handshakeTimeout,
		MaxIdleTimeout:                 idleTimeout,
		KeepAlivePeriod:                keepAlive,
		InitialStreamReceiveWindow:     streamWindow,
		MaxStreamReceiveWindow:         streamWindow,
		InitialConnectionReceiveWindow: connWindow,
		MaxConnectionReceiveWindow:     maxConnWindow,
		MaxIncomingStreams:             -1, // the server opens none
		MaxIncomingUniStreams:          -1,
	}
}

// dialAny tries the targets in turn and returns the first connection that says Hello,
// or all errors. Each has an equal share of the time that is left, so that those which
// are silent leave some for the others.
func (m *Manager) dialAny(ctx context.Context) (*Conn, error) {
	var errs []error
	n := len(m.config.Targets)
	for i := range n {
		target := m.config.Targets[(m.first+i)%n]
		attempt, cancel := share(ctx, n-i)
		conn, err := m.dialTarget(attempt, target)
		cancel()
		if err == nil {
			// Whoever answered is asked first the next time.
			m.first = (m.first + i) % n
			return conn, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	if len(errs) == 1 {
		return nil, errs[0]
	}
	return nil, errors.Join(errs...)
}

// share is the part of ctx's time that one of n attempts has, if each of the others shall
// have the same.
func share(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok || n == 1 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Until(deadline)/time.Duration(n))
}

func (m *Manager) dialTarget(ctx context.Context, target Target) (*Conn, error) {
	addrs, err := resolve(ctx, target)
	if err != nil {
		return nil, &Error{StageResolve, target.String(), err}
	}
	var last error
	for i, addr := range addrs {
		attempt, cancel := ctx, context.CancelFunc(func() {})
		if i < len(addrs)-1 {
			attempt, cancel = context.WithTimeout(ctx, otherAddressTimeout)
		}
		conn, err := m.dialAddr(attempt, target, addr)
		cancel()
		if err == nil {
			return conn, nil
		}
		last = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

// resolve gives the addresses of a host, loopback of IP version 4 first: a server that
// listens on one loopback address only nearly always listens there.
func resolve(ctx context.Context, target Target) ([]netip.AddrPort, error) {
	if ip, err := netip.ParseAddr(target.Host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(ip, target.Port)}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", target.Host)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(ips, func(a, b netip.Addr) int { return loopbackRank(a) - loopbackRank(b) })
	var addrs []netip.AddrPort
	for _, ip := range ips {
		addrs = append(addrs, netip.AddrPortFrom(ip.Unmap(), target.Port))
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("host %q has no address", target.Host)
	}
	return addrs, nil
}

func loopbackRank(a netip.Addr) int {
	if a.IsLoopback() && a.Unmap().Is4() {
		return 0
	}
	return 1
}

func (m *Manager) dialAddr(ctx context.Context, target Target, addr netip.AddrPort) (*Conn, error) {
	name := target.String()
	if addr.Addr().String() != target.Host {
		name += " (" + addr.String() + ")"
	}
	q, err := m.sockets.dial(ctx, addr, m.config.Trust.tlsConfig(target.Host), quicConfig())
	if err != nil {
		if errors.Is(err, ErrClosed) {
			return nil, err
		}
		return nil, dialError(ctx, name, err)
	}
	conn, err := m.greet(ctx, q, name)
	if err != nil {
		q.CloseWithError(quic.ApplicationErrorCode(wire.CodeHandshakeTimeout), "no Hello")
		return nil, err
	}
	return conn, nil
}

// greet opens the control stream and says Hello.
func (m *Manager) greet(ctx context.Context, q *quic.Conn, addr string) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	control, err := q.OpenStreamSync(ctx)
	if err != nil {
		return nil, dialError(ctx, addr, err)
	}
	deadline, _ := ctx.Deadline()
	control.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { control.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	err = wire.Write(control, &wire.Hello{
		MinProtocol: wire.MinProtocol, MaxProtocol: wire.MaxProtocol,
		BatchVersions: []batchfmt.Version{batchfmt.Version1, batchfmt.Version2},
		SDKName:       m.config.Name, SDKVersion: m.config.Version, Session: m.session,
	})
	var reply wire.Message
	if err == nil {
		reply, err = wire.Read(control)
	}
	if err != nil {
		return nil, helloError(ctx, addr, err)
	}
	switch r := reply.(type) {
	case *wire.HelloOK:
		if !stop() {
			return nil, helloError(ctx, addr, ctx.Err())
		}
		control.SetDeadline(time.Time{})
		m.session = r.Session
		return m.newConn(q, control, addr, r), nil
	case *wire.Refused:
		return nil, refusedError(addr, r)
	}
	return nil, &Error{StageHandshake, addr, fmt.Errorf("the server answered Hello with %v", reply.Kind())}
}

func helloError(ctx context.Context, addr string, err error) *Error {
	var bad *wire.FrameError
	switch {
	case errors.As(err, &bad):
		return &Error{StageHandshake, addr, bad}
	case ctx.Err() != nil:
		return &Error{StageHandshake, addr, fmt.Errorf("no answer to Hello: %w", context.Cause(ctx))}
	}
	// The library reports a refusal by TLS on the first read when the server checks
	// after the client is done with its part.
	e := dialError(ctx, addr, err)
	if e.Stage == StageUDP {
		e.Stage = StageHandshake
	}
	return e
}

func refusedError(addr string, r *wire.Refused) *Error {
	if r.Err.Code == wire.CodeUnsupportedVersion {
		return &Error{StageVersion, addr, &r.Err}
	}
	return &Error{StageHandshake, addr, &r.Err}
}
