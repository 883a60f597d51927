package source

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/quoin-io/quoin/sdk"
)

// Defaults and bounds of the settings; doc.go has the table.
const (
	defaultFirst = 100 * time.Millisecond
	defaultMax   = 30 * time.Second
	minBackoff   = time.Millisecond
	maxBackoff   = time.Hour

	defaultClose = 10 * time.Second
	minClose     = 10 * time.Millisecond
	maxClose     = 10 * time.Minute

	defaultEvery = time.Second
	minEvery     = time.Millisecond
	maxEvery     = time.Hour
)

type config struct {
	partition    int // -1 for the only one
	outbox       string
	hasOutbox    bool
	first, max   time.Duration
	closeTimeout time.Duration
	onProgress   func(Progress)
	every        time.Duration
	stats        *Stats
	logger       *slog.Logger
	producer     func(*sdk.ProducerBuilder)
}

// An Option changes how [Run] works. What is not allowed is said by Run, all at once.
type Option func(*config)

// Partition is where everything goes. Without it the topic must have a single partition.
func Partition(n int) Option { return func(c *config) { c.partition = max(n, -2) } }

// Outbox is [sdk.ProducerBuilder.Outbox]. A run does not need one to be exact, since its
// source can be read again. It is for sources that cost much to read, and for those that do
// not keep for long what they have given.
func Outbox(dir string) Option {
	return func(c *config) { c.outbox, c.hasOutbox = dir, true }
}

// Backoff is how a run pauses when something failed: before the nth attempt in a row, a
// random time up to first*2^(n-1), but no more than max. An item that is stored ends the row.
// Defaults 100 ms and 30 s; both 1 ms to 1 h. Shorter pauses mend sooner and cost the server
// more when it is in trouble.
func Backoff(first, max time.Duration) Option {
	return func(c *config) { c.first, c.max = first, max }
}

// CloseTimeout is how long a run that ends, or that closes its producer to build another,
// waits for what is under way. Default 10 s; 10 ms to 10 min. What has no outcome by then is
// read again by the next one, unless it turns out to be stored.
func CloseTimeout(d time.Duration) Option { return func(c *config) { c.closeTimeout = d } }

// OnProgress calls fn while a run makes progress or fails, at most once in the time of
// [ProgressEvery], and once more at the end with Done set. The calls come one at a time. One
// that does not return holds up the end of the run, and nothing else.
func OnProgress(fn func(Progress)) Option { return func(c *config) { c.onProgress = fn } }

// ProgressEvery is the least time between two calls of [OnProgress]. Default 1 s; 1 ms to 1 h.
func ProgressEvery(d time.Duration) Option { return func(c *config) { c.every = d } }

// WithStats keeps s up to date, for whoever wants to look at any time. Each run needs its own.
func WithStats(s *Stats) Option { return func(c *config) { c.stats = s } }

// WithLogger logs where a run begins and what it pauses for. By default nothing is logged.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) {
		if l != nil {
			c.logger = l
		}
	}
}

// Producer lets fn set more on the producer before it is built: its buffer, compression,
// durability, delivery timeout. Name, position, partition and outbox are those of the run,
// whatever fn says. fn is called for every producer that a run builds.
func Producer(fn func(*sdk.ProducerBuilder)) Option { return func(c *config) { c.producer = fn } }

func newConfig(opts []Option) (*config, error) {
	c := &config{partition: -1, first: defaultFirst, max: defaultMax, closeTimeout: defaultClose, every: defaultEvery,
		logger: slog.New(slog.DiscardHandler)}
	for _, opt := range opts {
		opt(c)
	}
	if c.stats == nil {
		c.stats = new(Stats)
	}
	return c, c.check()
}

func (c *config) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("source: "+format, args...)) }
	if c.partition < -1 {
		fault("Partition is negative")
	}
	if c.hasOutbox && c.outbox == "" {
		fault("Outbox needs a directory")
	}
	if c.first < minBackoff || c.max > maxBackoff || c.first > c.max {
		fault("Backoff(%v, %v) is not from %v to %v, the first no more than the second", c.first, c.max, minBackoff, maxBackoff)
	}
	if c.closeTimeout < minClose || c.closeTimeout > maxClose {
		fault("CloseTimeout(%v) is not %v to %v", c.closeTimeout, minClose, maxClose)
	}
	if c.every < minEvery || c.every > maxEvery {
		fault("ProgressEvery(%v) is not %v to %v", c.every, minEvery, maxEvery)
	}
	return errors.Join(faults...)
}
