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
	// DefaultDrain is how long Shutdown lets clients finish and leave, when its context
	// allows that long.
	DefaultDrain = 2 * time.Second
)

// Version is the version of this server.
const Version = "0.1.0-dev"

// Config is how a server is set up. The zero value serves ./quoin-data on loopback.
type Config struct {
	// Data is the directory that holds everything; it is made if it is missing. Default
	// DefaultData. One process at a time can have it open.
	Data string
	// Addr is the UDP address to listen on, host:port. Default DefaultAddr; port 0 takes
	// any. An address that others can reach lets everybody in who can reach it.
	Addr string
	// CertFile and KeyFile are PEM files of the operator's own certificate. Without them
	// the server makes a development certificate, and clients trust it by its pin.
	CertFile, KeyFile string
	// SegmentBytes is the size at which a log begins a new file. Default 128 MiB.
	SegmentBytes int64
	// MaxProducers is how many producers a partition keeps at the same time. Default
	// 4,096; each costs about 330 bytes. A newcomer beyond it is told so and retries.
	MaxProducers int
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
