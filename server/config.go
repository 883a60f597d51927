package server

import (
	"log/slog"
	"time"

	"github.com/quoin-io/quoin/server/internal/hooks"
)

// Defaults of Config.
const (
	DefaultData = "./quoin-data"
	DefaultAddr = "127.0.0.1:7733"
	// DefaultAdminAddr is where quoin serve has its admin listener. A Config has none
	// unless it names one.
	DefaultAdminAddr = "127.0.0.1:7734"
	// DefaultDrain is how long Shutdown lets clients finish and leave, when its context
	// allows that long.
	DefaultDrain = 2 * time.Second
)

// Version is the version of this server.
const Version = "0.1.0"

// Config is how a server is set up. The zero value serves ./quoin-data on loopback.
type Config struct {
	// Data is the directory that holds everything; it is made if it is missing. Default
	// DefaultData. One process at a time can have it open.
	Data string
	// Addr is the UDP address to listen on, host:port. Default DefaultAddr; port 0 takes
	// any. An address that others can reach lets everybody in who can reach it.
	Addr string
	// AdminAddr is the TCP address of the admin listener, host:port: health, metrics and
	// profiles over plain HTTP. Default "", which is none; port 0 takes any. It asks nobody
	// who they are, so it belongs on loopback or into a network of operators.
	AdminAddr string
	// CertFile and KeyFile are PEM files of the operator's own certificate. Without them
	// the server makes a development certificate, and clients trust it by its pin.
	CertFile, KeyFile string
	// SegmentBytes is the size at which a log begins a new file. Default 128 MiB.
	SegmentBytes int64
	// MaxProducers is how many producers a partition keeps in memory. Default 4,096; each
	// costs about 330 bytes. Beyond it those that were not used for the longest time leave to
	// the disk; only when all are in use a newcomer is refused, and retries.
	MaxProducers int
	// ProducerIdle is how long nobody must have used a producer in a partition before it may
	// leave memory there though there is room, counted while the server runs. Default 24 h.
	// Who comes back later is found on disk: it takes a read more, and nothing else changes.
	ProducerIdle time.Duration
	// MaxRetired is how many producers without a name each partition remembers on disk that
	// have left its memory. Default 1,000,000, some 300 bytes each. Of those beyond it, the
	// oldest first, only their ids are remembered as a limit: one that comes back is told
	// that nobody knows any more what it has stored.
	MaxRetired int
	// Drain is how long Shutdown waits for clients to leave. Default DefaultDrain.
	Drain time.Duration
	// Log takes what the server has to say. Default: nothing is logged.
	Log *slog.Logger

	// Hooks are for this module's own tests.
	Hooks *hooks.Hooks
}

func (c Config) withDefaults() Config {
	if c.Data == "" {
		c.Data = DefaultData
	}
	if c.Addr == "" {
		c.Addr = DefaultAddr
	}
	if c.Drain <= 0 {
		c.Drain = DefaultDrain
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
