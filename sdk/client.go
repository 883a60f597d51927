package sdk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quoin-io/quoin/sdk/internal/transport"
	"github.com/quoin-io/quoin/wire"
)

// What a client calls itself in its Hello, unless WithClientName says otherwise.
const (
	sdkName    = "quoin-go"
	sdkVersion = "0.1.0"
)

// maxReading is how many partitions may be read over one client. Each takes a stream, and
// a server allows about a thousand: some must be left for producers and requests.
const maxReading = 900

// A Client is connected to a server, over one connection or several, and connects again by
// itself until it is closed. All its methods may be called from several goroutines.
type Client struct {
	transport *transport.Manager
	logger    *slog.Logger
	events    *events
	settler   *settler
	news      *news
	hooks     hooks
	stats     counters

	mu struct {
		sync.Mutex
		open    map[closer]struct{} // producers and consumers
		reading int                 // partitions that consumers read
		closed  bool
	}
	closing atomic.Bool
	ended   chan struct{}
	err     error // of Close; set before ended is closed
}

// A closer is what a client closes when it is closed itself.
type closer interface {
	closeWith(ctx context.Context, inCallback bool) error
}

// Dial connects to a server.
//
//	quoin://host[:port][,host[:port]...][?pin=sha256:BASE64URL]
//
// The port is 7733 when none is given. Several hosts are several ways to one server. They,
// and the addresses that a name has, at most 16 of each, are raced: the next one is tried
// when the one before has failed, or has not answered within 250 ms; the first that answers
// wins, and is the first to be tried the next time. With a pin the server must have that
// public key and nothing else of its certificate is looked at; without one its certificate
// must be valid for the host and be signed by an authority of the system, or of
// [WithRootCAs].
//
// Dial tries every address once, within ctx, or within 15 s if ctx has no deadline; only
// a server that says that it takes no connections at the moment is asked again. Once it
// succeeded, the client reconnects by itself: at once, then with pauses of up to 2 s,
// until it is closed; with [Connections] one of several pauses for up to 30 s while others
// live. The error is a *[DialError] that says how far the attempt came.
func Dial(ctx context.Context, url string, opts ...DialOption) (*Client, error) {
	targets, pins, err := parseURL(url)
	if err != nil {
		return nil, &DialError{Stage: StageURL, Err: err}
	}
	o := dialOptions{logger: slog.New(slog.DiscardHandler), name: sdkName}
	o.trust.Pins = pins
	for _, opt := range opts {
		opt(&o)
	}
	if err := errors.Join(o.faults...); err != nil {
		return nil, &DialError{Stage: StageOptions, Err: err}
	}
	c := &Client{logger: o.logger, events: newEvents(o.onEvent), hooks: o.hooks, ended: make(chan struct{})}
	c.mu.open = make(map[closer]struct{})
	c.settler = newSettler(c)
	c.news = newNews(c)
	c.transport, err = transport.New(ctx, transport.Config{
		Targets: targets, Trust: o.trust, Connections: o.connections, WithoutCopies: o.withoutCopies, Name: o.name, Version: sdkVersion,
		Logger: o.logger, Observer: c.observer(),
	})
	if err != nil {
		c.news.close()
		c.settler.close()
		c.events.close(ctx)
		return nil, dialError(hostList(targets), err)
	}
	return c, nil
}

func hostList(targets []transport.Target) string {
	var names []string
	for _, t := range targets {
		names = append(names, t.String())
	}
	return strings.Join(names, ",")
}

func (c *Client) observer() transport.Observer {
	emit := func(change transport.Change, e Event) {
		e.Addr, e.Connection, e.Live = change.Addr, change.Connection, change.Live
		c.events.emit(e)
	}
	return transport.Observer{
		Connected: func(change transport.Change) {
			c.stats.connects.Add(1)
			c.news.told([16]byte{}) // before it nobody could tell us
			emit(change, Event{Kind: EventConnected})
		},
		Disconnected: func(change transport.Change, err error) {
			c.stats.disconnects.Add(1)
			emit(change, Event{Kind: EventDisconnected, Err: err})
		},
		Retrying: func(change transport.Change, attempt int, wait time.Duration, err error) {
			c.stats.retries.Add(1)
			emit(change, Event{Kind: EventRetry, Attempt: attempt, Wait: wait, Err: err})
		},
		Drained: func(change transport.Change, reason string) {
			emit(change, Event{Kind: EventDrained, Err: errors.New(reason)})
		},
		TopicChanged: func(m *wire.TopicChanged) { c.news.told(m.ID) },
	}
}

// register keeps x to be closed with the client.
func (c *Client) register(x closer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return ErrClosed
	}
	c.mu.open[x] = struct{}{}
	return nil
}

func (c *Client) unregister(x closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.open, x)
}

// startReading counts n further partitions that are read; stopReading takes them back.
func (c *Client) startReading(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.reading+n > maxReading {
		return fmt.Errorf("%w: %d further ones, %d are read already, the limit is %d", ErrTooManyPartitions, n, c.mu.reading, maxReading)
	}
	c.mu.reading += n
	return nil
}

func (c *Client) stopReading(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.reading -= n
}

// Close closes the producers and consumers of the client, then its connections, and waits
// for every goroutine of the client. Producers flush until ctx ends; the error names
// those that could not finish, see [Producer.Close]. A second Close waits for the first,
// as long as its own ctx lives, and returns the same; but in a callback or in OnEvent,
// which the first may wait for, it returns [ErrClosed] at once.
func (c *Client) Close(ctx context.Context) error {
	inCallback := calledFromCallback()
	if c.closing.CompareAndSwap(false, true) {
		c.err = c.closeAll(ctx, inCallback)
		close(c.ended)
		return c.err
	}
	if inCallback || calledFromOnEvent() {
		return ErrClosed
	}
	if !await(ctx, c.ended) {
		return fmt.Errorf("sdk: close, which another call has begun: %w", context.Cause(ctx))
	}
	return c.err
}

// await waits for done and reports false when ctx ends before it.
func await(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default: // it counts also when ctx is over
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *Client) closeAll(ctx context.Context, inCallback bool) error {
	c.mu.Lock()
	c.mu.closed = true
	open := make([]closer, 0, len(c.mu.open))
	for x := range c.mu.open {
		open = append(open, x)
	}
	c.mu.Unlock()
	errs := make([]error, len(open))
	var wg sync.WaitGroup
	for i, x := range open {
		wg.Go(func() { errs[i] = x.closeWith(ctx, inCallback) })
	}
	wg.Wait()
	c.news.close()
	c.settler.close()
	c.transport.Close()
	c.events.close(ctx)
	return errors.Join(errs...)
}

// do sends a request; see [transport.Manager.Do].
func (c *Client) do(ctx context.Context, op, topic string, m wire.Message, again bool) (wire.Message, error) {
	reply, err := c.transport.Do(ctx, m, again)
	if err != nil {
		return nil, serverError(op, topic, err)
	}
	return reply, nil
}
