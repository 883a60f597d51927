package seglog

import "time"

// Config are the settings of a log. Zero values mean the defaults.
type Config struct {
	// SegmentBytes is the size at which a new segment is begun, 128 MiB by default. A
	// group is never split, so a segment that is begun by a larger group exceeds it, as
	// does one that holds nothing but control batches. Smaller segments are removed
	// sooner by retention and recovered sooner; larger ones take fewer files.
	SegmentBytes int64
	// IndexEvery is the distance of index entries in bytes, 32 KiB by default: a read
	// passes over that much at most to find its first batch. Each entry takes 16 bytes.
	IndexEvery int64
	// FillBytes is how far ahead of the last batch the active segment is filled with
	// zeros, 1 MiB by default. Negative, or more than a quarter of SegmentBytes: no fill.
	// The cost is that much disk space for each partition that is open. While syncs are
	// large, nothing is filled: they would write all bytes twice to save little.
	FillBytes int64
	// MaxOpenFiles is how many segments are kept open for reading besides the active
	// one, 16 by default. It is exceeded while more are being read at the same moment.
	MaxOpenFiles int
	// Durable is an offset below which the caller knows, from elsewhere, that everything was
	// synced once: a checkpoint that was written after the sync, say. If the log ends below
	// it, what is missing is a hole, and its offsets are not given to other records. 0 by
	// default, which says nothing.
	Durable Offset
	// OnDamage, if set, is told of damage that is found after Open, once and in the goroutine
	// that came upon it.
	OnDamage func(DamagedRange)
	// Now is the clock for the time in a segment's header, time.Now by default.
	Now func() time.Time
}

const (
	defaultSegmentBytes = 128 << 20
	defaultIndexEvery   = 32 << 10
	defaultFillBytes    = 1 << 20
	defaultMaxOpenFiles = 16
)

func (c Config) withDefaults() Config {
	if c.SegmentBytes <= 0 {
		c.SegmentBytes = defaultSegmentBytes
	}
	if c.IndexEvery <= 0 {
		c.IndexEvery = defaultIndexEvery
	}
	if c.FillBytes == 0 {
		c.FillBytes = defaultFillBytes
	}
	if c.FillBytes < 0 || c.FillBytes > c.SegmentBytes/4 {
		c.FillBytes = 0
	}
	if c.MaxOpenFiles <= 0 {
		c.MaxOpenFiles = defaultMaxOpenFiles
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}
