package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// What a connection costs and how soon its loss is noticed.
const (
	streamWindow     = 4 << 20
	connWindow       = 16 << 20
	maxConnWindow    = 64 << 20
	idleTimeout      = 10 * time.Second
	keepAlive        = 3 * time.Second
	handshakeTimeout = 3 * time.Second
	helloTimeout     = 5 * time.Second
	maxAddresses     = 16 // of one host that are tried
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

func quicConfig(copies bool) *quic.Config {
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
		EnableDatagrams:                copies,
	}
}

// A greeted is a connection on which the server said HelloOK, before anything watches it.
type greeted struct {
	quic    *quic.Conn
	control *quic.Stream
	target  int            // which of the targets it is of
	at      netip.AddrPort // where the server is
	name    string         // the same for people
	hello   *wire.HelloOK
}

// dismiss ends a connection that is not needed.
func dismiss(g *greeted) {
	g.quic.CloseWithError(quic.ApplicationErrorCode(wire.CodeOK), "another address was faster")
}

// An approach is how an attempt at a connection is made.
type approach struct {
	session  [16]byte      // what the last server called this connection
	patience time.Duration // for each address, and for each name to be resolved; 0 for no bound but ctx
}

// dialAny races the addresses of all targets and returns the first connection that says
// Hello, or all errors. Whoever answered the last time is asked first; then each host in
// turn is asked at its first address, before any is asked at a further one.
func (m *Manager) dialAny(ctx context.Context, how approach) (*Conn, error) {
	first := m.firstTarget()
	var queue []entrant[*greeted]
	for i := range m.config.Targets {
		queue = append(queue, m.host((first+i)%len(m.config.Targets), how))
	}
	g, err := race(ctx, queue, dismiss)
	if err != nil {
		return nil, err
	}
	m.prefer(g.target, g.at)
	return m.newConn(g), nil
}

// host is the entrant that finds the addresses of a target.
func (m *Manager) host(target int, how approach) entrant[*greeted] {
	return func(ctx context.Context) (*greeted, []entrant[*greeted], error) {
		ctx, cancel := how.limit(ctx)
		defer cancel()
		t := m.config.Targets[target]
		ips, err := resolve(ctx, t.Host)
		if err != nil {
			return nil, nil, &Error{StageResolve, t.String(), err}
		}
		var found []entrant[*greeted]
		for _, ip := range inOrder(ips, m.lastAddress()) {
			found = append(found, m.address(target, netip.AddrPortFrom(ip, t.Port), how))
		}
		return nil, found, nil
	}
}

// address is the entrant that dials one address.
func (m *Manager) address(target int, at netip.AddrPort, how approach) entrant[*greeted] {
	return func(ctx context.Context) (*greeted, []entrant[*greeted], error) {
		ctx, cancel := how.limit(ctx)
		defer cancel()
		g, err := m.dialAddr(ctx, target, at, how.session)
		return g, nil, err
	}
}

func (how approach) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if how.patience == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, how.patience)
}

// resolve gives the addresses of a host, at least one.
func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(ips) == 0 {
		err = fmt.Errorf("host %q has no address", host)
	}
	return ips, err
}

// inOrder is the order in which the addresses of a host are tried, at most maxAddresses of
// them, each once.
//
//	the last one that answered   first, if it is there
//	loopback of IP version 4     then: a server that listens on one loopback address only
//	                             nearly always listens there
//	the rest                     as the resolver gave them, but with the versions of IP in
//	                             turn (RFC 8305, section 4), so that one that leads nowhere
//	                             costs one stagger and not one for each of its addresses
func inOrder(ips []netip.Addr, last netip.Addr) []netip.Addr {
	var front, four, six []netip.Addr
	seen := make(map[netip.Addr]bool)
	fourFirst := len(ips) > 0 && ips[0].Unmap().Is4()
	for _, ip := range ips {
		ip = ip.Unmap()
		switch {
		case seen[ip]:
		case ip == last:
			front = append([]netip.Addr{ip}, front...)
		case ip.Is4() && ip.IsLoopback():
			front = append(front, ip)
		case ip.Is4():
			four = append(four, ip)
		default:
			six = append(six, ip)
		}
		seen[ip] = true
	}
	for even := fourFirst; len(four)+len(six) > 0; even = !even {
		from := &six
		if even && len(four) > 0 || len(six) == 0 {
			from = &four
		}
		front = append(front, (*from)[0])
		*from = (*from)[1:]
	}
	return front[:min(len(front), maxAddresses)]
}

func (m *Manager) dialAddr(ctx context.Context, target int, at netip.AddrPort, session [16]byte) (*greeted, error) {
	t := m.config.Targets[target]
	name := t.String()
	if at.Addr().String() != t.Host {
		name += " (" + at.String() + ")"
	}
	q, err := m.sockets.dial(ctx, at, m.config.Trust.tlsConfig(t.Host), quicConfig(!m.config.WithoutCopies))
	if err != nil {
		if errors.Is(err, ErrClosed) {
			return nil, err
		}
		return nil, dialError(ctx, name, err)
	}
	g := &greeted{quic: q, target: target, at: at, name: name}
	if err := m.greet(ctx, g, session); err != nil {
		q.CloseWithError(quic.ApplicationErrorCode(wire.CodeHandshakeTimeout), "no Hello")
		return nil, err
	}
	return g, nil
}

// greet opens the control stream and says Hello.
func (m *Manager) greet(ctx context.Context, g *greeted, session [16]byte) error {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	control, err := g.quic.OpenStreamSync(ctx)
	if err != nil {
		return dialError(ctx, g.name, err)
	}
	deadline, _ := ctx.Deadline()
	control.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { control.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var features uint64
	if !m.config.WithoutCopies {
		features = wire.FeatureCopies
	}
	err = wire.Write(control, &wire.Hello{
		MinProtocol: wire.MinProtocol, MaxProtocol: wire.MaxProtocol, Features: features,
		BatchVersions: []batchfmt.Version{batchfmt.Version1, batchfmt.Version2},
		SDKName:       m.config.Name, SDKVersion: m.config.Version, Session: session,
	})
	var reply wire.Message
	if err == nil {
		reply, err = wire.Read(control)
	}
	if err != nil {
		return helloError(ctx, g.name, err)
	}
	switch r := reply.(type) {
	case *wire.HelloOK:
		if err := checkProtocol(r.Protocol); err != nil {
			return &Error{StageVersion, g.name, err}
		}
		if !stop() {
			return helloError(ctx, g.name, ctx.Err())
		}
		control.SetDeadline(time.Time{})
		g.control, g.hello = control, r
		return nil
	case *wire.Refused:
		return refusedError(g.name, r)
	}
	return &Error{StageHandshake, g.name, fmt.Errorf("the server answered Hello with %v", reply.Kind())}
}

// checkProtocol refuses a server that answers in a protocol that was not offered: whatever it
// means by its frames, it is not what this client reads.
func checkProtocol(chosen uint16) error {
	switch {
	case chosen > wire.MaxProtocol:
		return wire.Errorf(wire.CodeUnsupportedVersion, "the server chose protocol %d, the client speaks none above %d: upgrade the client", chosen, wire.MaxProtocol)
	case chosen < wire.MinProtocol:
		return wire.Errorf(wire.CodeUnsupportedVersion, "the server chose protocol %d, the client speaks none below %d: upgrade the server", chosen, wire.MinProtocol)
	}
	return nil
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
