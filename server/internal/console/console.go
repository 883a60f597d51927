package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quoin-io/quoin/server/internal/counters"
)

// What a client may cost.
const (
	maxConnections = 64 // more are closed as they come
	maxHeaderBytes = 8 << 10
	headerTimeout  = 5 * time.Second
	readTimeout    = 10 * time.Second // of a whole request; bodies are not read
	writeTimeout   = 10 * time.Second // of an answer; profiles have their own time on top
	idleTimeout    = 60 * time.Second // between two requests of a connection
	// stopGrace is how long Close lets answers go out that are under way.
	stopGrace = time.Second
)

// ErrInUse says that something else listens on the admin address.
var ErrInUse = errors.New("the admin address is in use")

// Config is what a console is made of. All fields are required.
type Config struct {
	Addr     string // TCP host:port; port 0 for any
	Version  string // of the server
	Counters *counters.Set
	Log      *slog.Logger
}

// A Source gives what there is at the moment. Its functions may be called from any
// goroutine, until Close returns, and must not block for long.
type Source struct {
	Gauges func() Gauges
	// Stopped lists the partitions that take no writes any more, for people.
	Stopped func() []string
}

// Gauges are numbers that go up and down.
type Gauges struct {
	Connections       int
	Topics            int
	Partitions        int
	StoppedPartitions int
	DamagedRanges     int
	DamagedRecords    int64
	FrameBytesIn      int64 // memory for batches that come in
	FrameBytesOut     int64 // memory for batches that go to readers
}

// A Console listens from Listen to Close. Its methods may be called from any goroutine.
type Console struct {
	cfg      Config
	listener net.Listener
	http     http.Server
	cancel   context.CancelFunc // ends what requests wait for
	state    atomic.Pointer[state]
	open     atomic.Int64   // connections
	running  sync.WaitGroup // the accept loop and every connection
	closing  sync.Once
}

// A state is how far the server is.
type state struct {
	name   string
	ready  bool
	source Source // empty before there is anything to ask
}

// Listen opens the listener and starts to answer, as a server that is starting. The error
// is [ErrInUse] when the address is taken.
func Listen(cfg Config) (*Console, error) {
	listener, err := net.Listen("tcp", cfg.Addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%w: %s", ErrInUse, cfg.Addr)
	case err != nil:
		return nil, fmt.Errorf("open the admin listener on %q: %w", cfg.Addr, err)
	}
	return newConsole(cfg, listener), nil
}

func newConsole(cfg Config, listener net.Listener) *Console {
	c := &Console{cfg: cfg, listener: listener}
	c.state.Store(&state{name: "starting"})
	base, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.http = http.Server{
		Handler:        c.guard(c.routes()),
		MaxHeaderBytes: maxHeaderBytes, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		DisableGeneralOptionsHandler: true,
		ConnState:                    c.connState,
		BaseContext:                  func(net.Listener) context.Context { return base },
		ErrorLog:                     slog.NewLogLogger(cfg.Log.Handler(), slog.LevelWarn),
	}
	c.running.Go(c.accept)
	return c
}

// accept is the listener's goroutine. It starts in Listen; Close ends it and waits.
func (c *Console) accept() {
	if err := c.http.Serve(c.listener); !errors.Is(err, http.ErrServerClosed) {
		c.cfg.Log.Error("the admin listener ended", "addr", c.cfg.Addr, "error", err)
	}
}

// connState counts the connections. The accept loop calls it for each new one, before the
// goroutine that serves it starts; that goroutine calls it when it ends.
func (c *Console) connState(conn net.Conn, now http.ConnState) {
	switch now {
	case http.StateNew:
		c.running.Add(1)
		if c.open.Add(1) > maxConnections {
			conn.Close()
		}
	case http.StateClosed:
		c.open.Add(-1)
		c.running.Done()
	}
}

// Addr is the address that the listener is bound to.
func (c *Console) Addr() *net.TCPAddr { return c.listener.Addr().(*net.TCPAddr) }

// URL is where a browser on this machine finds the console.
func (c *Console) URL() string {
	addr := *c.Addr()
	if addr.IP.IsUnspecified() {
		addr.IP = net.IPv4(127, 0, 0, 1)
	}
	u := url.URL{Scheme: "http", Host: addr.String(), Path: "/"}
	return u.String()
}

// Serving says that clients are served from now on, and where to ask about it.
func (c *Console) Serving(s Source) {
	c.state.Store(&state{name: "serving", ready: true, source: s})
}

// Draining says that the server is about to stop. What is there can be asked for as before.
func (c *Console) Draining() {
	c.state.Store(&state{name: "draining", source: c.state.Load().source})
}

// Close ends the listener. Profiles end early; answers that are under way get a second to
// go out. It returns when nothing of the console runs any more, and may be called again.
func (c *Console) Close() {
	c.closing.Do(func() {
		c.cancel()
		ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
		defer cancel()
		if c.http.Shutdown(ctx) != nil {
			c.http.Close() // somebody is slow
		}
		// Handlers wait for nothing but their connections and their context, and both are
		// over.
		c.running.Wait()
	})
}
