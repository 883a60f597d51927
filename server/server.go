package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"sync"

	"github.com/quoin-io/quoin/server/internal/broker"
	"github.com/quoin-io/quoin/server/internal/console"
	"github.com/quoin-io/quoin/server/internal/counters"
	"github.com/quoin-io/quoin/server/internal/credentials"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/seglog"
	"github.com/quoin-io/quoin/server/internal/session"
)

// A Server serves one data directory. Its methods may be called from any goroutine.
type Server struct {
	cfg      Config
	pin      string
	counters *counters.Set
	console  *console.Console // nil without an admin address
	broker   *broker.Broker
	listener *session.Listener
	stop     sync.Once
	stopErr  error
}

// ErrAdminInUse says that something else listens on Config.AdminAddr.
var ErrAdminInUse = console.ErrInUse

// Start opens the data directory, recovers what is in it, and listens. When it returns,
// clients can connect. The admin listener answers from the beginning, as recovery may take
// its time.
func Start(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	s := &Server{cfg: cfg, counters: new(counters.Set)}
	if err := s.listenAdmin(); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		s.closeAdmin()
		return nil, err
	}
	return s, nil
}

// open is Start without the admin listener. If it fails, nothing is left open.
func (s *Server) open() error {
	cfg := s.cfg
	snapshotBytes, idleEvery := cfg.Hooks.Pace()
	// The catalog first: its lock is what keeps a second server out.
	b, err := broker.Open(broker.Config{
		Data: cfg.Data, FS: cfg.Hooks.FileSystem(), Now: cfg.Hooks.Clock(), Log: cfg.Log,
		Segments:  seglog.Config{SegmentBytes: cfg.SegmentBytes, Now: cfg.Hooks.Clock()},
		Producers: producerstate.Limits{MaxLanes: cfg.MaxProducers},
		IdleAfter: cfg.ProducerIdle, MaxRetired: cfg.MaxRetired, Uptime: cfg.Hooks.UptimeClock(), Counters: s.counters,
		SnapshotBytes: snapshotBytes, IdleEvery: idleEvery,
	})
	if err != nil {
		return fmt.Errorf("open %s: %w", cfg.Data, err)
	}
	creds, err := loadCredentials(cfg)
	if err != nil {
		return errors.Join(err, b.Close())
	}
	if len(creds.Tightened) > 0 {
		cfg.Log.Warn("others could read secret files; their mode is 0600 now", "files", creds.Tightened)
	}
	s.pin, s.broker = creds.Pin, b
	s.listener, err = session.Listen(session.Config{
		Addr: cfg.Addr, Certificate: creds.Certificate,
		StatelessResetKey: creds.StatelessResetKey, TokenKey: creds.TokenKey,
		Counters: s.counters, Broker: b, Log: cfg.Log, Hooks: cfg.Hooks, Name: "quoin", Version: Version,
	})
	if err != nil {
		return errors.Join(err, b.Close())
	}
	s.report(creds.Certificate)
	s.serveAdmin()
	return nil
}

func loadCredentials(cfg Config) (credentials.Credentials, error) {
	if cfg.CertFile == "" && cfg.KeyFile == "" {
		return credentials.Load(cfg.Data)
	}
	return credentials.LoadWith(cfg.Data, cfg.CertFile, cfg.KeyFile)
}

// report logs what an operator wants to see of a start.
func (s *Server) report(cert tls.Certificate) {
	s.cfg.Log.Info("serving", "addr", s.Addr().String(), "data", s.cfg.Data, "pin", s.pin)
	if sizes, err := s.listener.Buffers(); err == nil && !sizes.Enough() {
		s.cfg.Log.Warn("UDP socket buffers are small, expect loss under load: raise net.core.rmem_max and wmem_max",
			"receive_bytes", sizes.Receive, "send_bytes", sizes.Send)
	}
	if !s.Addr().IP.IsLoopback() {
		s.cfg.Log.Warn("the address is not loopback, and everybody who can reach it may read and write")
	}
}

// listenAdmin opens the admin listener, if there is to be one.
func (s *Server) listenAdmin() (err error) {
	if s.cfg.AdminAddr == "" {
		return nil
	}
	s.console, err = console.Listen(console.Config{
		Addr: s.cfg.AdminAddr, Version: Version, Counters: s.counters, Log: s.cfg.Log,
	})
	if err != nil {
		return err
	}
	s.cfg.Log.Info("admin listener", "url", s.console.URL())
	if !s.console.Addr().IP.IsLoopback() {
		s.cfg.Log.Warn("the admin address is not loopback, and everybody who can reach it may read metrics and take profiles")
	}
	return nil
}

// serveAdmin tells the admin listener that clients are served, and what it may ask.
func (s *Server) serveAdmin() {
	if s.console != nil {
		s.console.Serving(console.Source{Gauges: s.gauges, Stopped: s.broker.Stopped})
	}
}

func (s *Server) gauges() console.Gauges {
	t := s.broker.Totals()
	return console.Gauges{
		Connections: s.Connections(), Topics: t.Topics, Partitions: t.Partitions, StoppedPartitions: t.Stopped,
		DamagedRanges: t.DamagedRanges, DamagedRecords: t.DamagedRecords,
		FrameBytesIn: s.broker.In().Out(), FrameBytesOut: s.broker.Out().Out(),
	}
}

func (s *Server) closeAdmin() {
	if s.console != nil {
		s.console.Close()
	}
}

// Addr is the address that the server listens on.
func (s *Server) Addr() *net.UDPAddr { return s.listener.Addr() }

// Pin is "sha256:" and the digest of the certificate's public key.
func (s *Server) Pin() string { return s.pin }

// URL is all that a client needs to connect. A server that listens on every address
// gives its loopback one.
func (s *Server) URL() string {
	addr := *s.Addr()
	if addr.IP.IsUnspecified() {
		addr.IP = net.IPv4(127, 0, 0, 1)
	}
	u := url.URL{Scheme: "quoin", Host: addr.String(), RawQuery: "pin=" + s.pin}
	return u.String()
}

// AdminURL is where the admin listener is found on this machine; empty if there is none.
func (s *Server) AdminURL() string {
	if s.console == nil {
		return ""
	}
	return s.console.URL()
}

// Connections is how many clients are connected.
func (s *Server) Connections() int { return s.listener.Connections() }

// Cut ends all connections at once; the server goes on. Clients reconnect.
func (s *Server) Cut() { s.listener.Cut() }

// Shutdown stops in good order: new clients are refused, those that are there are told,
// what is in flight is synced and answered, and everything is closed. When ctx ends,
// clients that have not left by then are cut off; what was appended is synced all the
// same. The admin listener says at once that the server is not ready, and is the last to
// go. Calling it again waits for the first call and returns its error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop.Do(func() {
		if s.console != nil {
			s.console.Draining()
		}
		ctx, cancel := context.WithTimeout(ctx, s.cfg.Drain)
		defer cancel()
		s.listener.Drain(ctx, s.cfg.Drain)
		s.stopErr = errors.Join(s.listener.Close(), s.broker.Close())
		s.closeAdmin()
		s.cfg.Log.Info("stopped")
	})
	return s.stopErr
}

// Abandon stops the way a crash does, as far as one process can: from now on nothing is
// answered and nothing more is written on purpose. between is called when the last client
// is cut off and before the partitions stop; it may be nil. For tests.
func (s *Server) Abandon(between func()) {
	s.stop.Do(func() {
		s.listener.Close()
		if between != nil {
			between()
		}
		s.broker.Abandon()
		s.closeAdmin()
	})
}
