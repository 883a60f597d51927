package hooks

import (
	"time"

	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// Hooks are the seams. Every field may be left empty.
type Hooks struct {
	// FS holds the logs; the operating system's when nil.
	FS vfs.FS
	// Now is the wall clock.
	Now func() time.Time
	// Uptime is the time since the start of the process.
	Uptime func() time.Duration
	// SnapshotBytes is how many bytes of batches lie between two snapshots of producers in a
	// partition, and IdleEvery how often idle ones are looked for; 0 for what the server
	// does without a hook.
	SnapshotBytes int
	IdleEvery     time.Duration
	// FrameStart is called before a frame of a lane stream is read or written, with its
	// size in bytes, header included. A result of 0 or more cuts the connection when
	// that many bytes of it have passed.
	FrameStart func(in bool, kind wire.Kind, size int) int
	// FrameEnd is called when a frame of a lane stream was read or written as a whole;
	// true cuts the connection there. A frame that was read is carried out all the same:
	// a server may well do so when the answer can no longer be given.
	FrameEnd func(in bool, m wire.Message) bool
	// DropResult is called before a result is queued for its lane; true throws it away
	// and cuts the connection, as that is how a result gets lost.
	DropResult func(r *wire.ProduceResult) bool
}

// Clock is Now, or the real one.
func (h *Hooks) Clock() func() time.Time {
	if h != nil && h.Now != nil {
		return h.Now
	}
	return time.Now
}

// UptimeClock is Uptime, or the real one.
func (h *Hooks) UptimeClock() func() time.Duration {
	if h != nil && h.Uptime != nil {
		return h.Uptime
	}
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// Pace is SnapshotBytes and IdleEvery, or 0.
func (h *Hooks) Pace() (snapshotBytes int, idleEvery time.Duration) {
	if h == nil {
		return 0, 0
	}
	return h.SnapshotBytes, h.IdleEvery
}

// FileSystem is FS, or the operating system's.
func (h *Hooks) FileSystem() vfs.FS {
	if h != nil && h.FS != nil {
		return h.FS
	}
	return vfs.OS
}
