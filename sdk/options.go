package sdk

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/quoin-io/quoin/sdk/internal/transport"
)

const (
	urlScheme   = "quoin://"
	defaultPort = 7733
	maxHosts    = 64
	maxName     = 255 // bytes
)

type dialOptions struct {
	trust   transport.Trust
	logger  *slog.Logger
	hooks   hooks
	onEvent func(Event)
	name    string
	faults  []error

	connections   int
	withoutCopies bool
}

// A DialOption changes how [Dial] connects.
type DialOption func(*dialOptions)

// WithRootCAs trusts servers whose certificates these authorities signed, instead of
// those of the system.
func WithRootCAs(pool *x509.CertPool) DialOption {
	return func(o *dialOptions) { o.trust.Roots = pool }
}

// WithCAFile is WithRootCAs with the certificates of a PEM file.
func WithCAFile(path string) DialOption {
	return func(o *dialOptions) {
		pem, err := os.ReadFile(path)
		if err != nil {
			o.faults = append(o.faults, fmt.Errorf("WithCAFile: %w", err))
			return
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			o.faults = append(o.faults, fmt.Errorf("WithCAFile: %s holds no certificate", path))
			return
		}
		o.trust.Roots = pool
	}
}

// WithPin trusts the server whose certificate has this public key, whatever its names,
// dates and signers are: "sha256:" and the unpadded base64url of the SHA-256 of the
// SubjectPublicKeyInfo. It can be given several times, and in the URL as pin=.
func WithPin(pin string) DialOption {
	return func(o *dialOptions) {
		p, err := transport.ParsePin(pin)
		if err != nil {
			o.faults = append(o.faults, fmt.Errorf("WithPin: %w", err))
			return
		}
		o.trust.Pins = append(o.trust.Pins, p)
	}
}

// WithLogger logs what happens to the connection. By default nothing is logged.
func WithLogger(l *slog.Logger) DialOption {
	return func(o *dialOptions) {
		if l != nil {
			o.logger = l
		}
	}
}

// OnEvent calls fn for every [Event], one at a time, on a goroutine of its own. fn may
// call anything, but while it runs events queue up, and beyond 256 they are dropped.
func OnEvent(fn func(Event)) DialOption {
	return func(o *dialOptions) { o.onEvent = fn }
}

// WithClientName is the name under which the server shows this client, at most 255
// bytes. Default: the name of the SDK.
func WithClientName(name string) DialOption {
	return func(o *dialOptions) {
		if name == "" || len(name) > maxName {
			o.faults = append(o.faults, fmt.Errorf("WithClientName: %d bytes, 1 to %d are allowed", len(name), maxName))
			return
		}
		o.name = name
	}
}

// Connections is how many QUIC connections the client keeps to its server, 1 to 16.
// Default: 1.
//
// The partitions of producers and consumers are spread over them; each stays on its
// connection until that is lost, and then waits for the next one there if it is likely to
// come within a second or so, else it goes on over one of the others. Requests go over any.
// The client is connected while one connection lives, and each comes back by itself.
// [Dial] returns with the first; the others follow at once.
//
// More than one is for links that lose packets over a distance: after a loss a connection
// sends more slowly, and all that it carries waits. With 1 % loss and a round trip of 40 ms
// one falls behind 400 records of 1 KiB a second, over eight partitions; four acknowledge
// 99 % of them within about 70 ms, as they have room for [SecondCopies]. Each costs the client
// a ping a second and up to 64 MiB of receive window, and the server about 80 KiB and one of
// its 1,024 connections an address.
func Connections(n int) DialOption {
	return func(o *dialOptions) {
		if n < 1 || n > transport.MaxConnections {
			o.faults = append(o.faults, fmt.Errorf("Connections: %d, 1 to %d are allowed", n, transport.MaxConnections))
			return
		}
		o.connections = n
	}
}

// SecondCopies says whether small frames travel twice while the link loses packets. Default:
// true.
//
// A packet that is lost costs two round trips and more, until somebody knows and it came
// again. So from the first loss that a connection sees until half a minute behind the last
// one, a batch or an answer of up to about 1,400 bytes is sent once more in another packet, an
// eighth of a round trip later, by both sides; whichever comes first counts, and nothing is
// stored or told twice. They flow only where the congestion window has room for all frames and
// all copies; where it has not, more [Connections] make some. Links that lose nothing carry none.
//
// false is for links where every byte is paid for.
func SecondCopies(on bool) DialOption {
	return func(o *dialOptions) { o.withoutCopies = !on }
}

// parseURL reads quoin://host[:port][,host[:port]...][?pin=sha256:...].
func parseURL(s string) ([]transport.Target, []transport.Pin, error) {
	rest, ok := strings.CutPrefix(s, urlScheme)
	if !ok {
		return nil, nil, fmt.Errorf("%q does not begin with %q", s, urlScheme)
	}
	hosts, query, _ := strings.Cut(rest, "?")
	hosts = strings.TrimSuffix(hosts, "/")
	var faults []error
	targets, err := parseHosts(hosts)
	faults = append(faults, err)
	values, err := url.ParseQuery(query)
	faults = append(faults, err)
	var pins []transport.Pin
	for key, all := range values {
		if key != "pin" {
			faults = append(faults, fmt.Errorf("parameter %q is not known, only pin is", key))
			continue
		}
		for _, text := range all {
			pin, err := transport.ParsePin(text)
			if err != nil {
				faults = append(faults, err)
				continue
			}
			pins = append(pins, pin)
		}
	}
	return targets, pins, errors.Join(faults...)
}

func parseHosts(s string) ([]transport.Target, error) {
	parts := strings.Split(s, ",")
	if len(parts) > maxHosts {
		return nil, fmt.Errorf("%d hosts, at most %d are allowed", len(parts), maxHosts)
	}
	var targets []transport.Target
	for _, part := range parts {
		t, err := parseHost(part)
		if err != nil {
			return nil, err
		}
		targets = append(targets, t)
	}
	return targets, nil
}

func parseHost(s string) (transport.Target, error) {
	host, port := s, ""
	if _, err := netip.ParseAddr(s); err != nil { // a bare IPv6 address has colons, but no port
		if i := strings.LastIndexByte(s, ':'); i > strings.LastIndexByte(s, ']') {
			host, port = s[:i], s[i+1:]
			if port == "" {
				return transport.Target{}, fmt.Errorf("host %q has a colon but no port", s)
			}
		}
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); !ok {
			return transport.Target{}, fmt.Errorf("host %q lacks a bracket", s)
		}
		host = inner
	}
	if host == "" || strings.ContainsAny(host, "/@[] \t#") {
		return transport.Target{}, fmt.Errorf("%q is not a host or host:port", s)
	}
	t := transport.Target{Host: host, Port: defaultPort}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return transport.Target{}, fmt.Errorf("port %q of host %q is not 1 to 65535", port, host)
		}
		t.Port = uint16(n)
	}
	return t, nil
}
