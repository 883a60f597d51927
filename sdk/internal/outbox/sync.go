package outbox

import (
	"errors"
	"fmt"
)

const (
	maxRun   = 4 << 20 // bytes that are written at once
	keptRun  = 1 << 20 // a larger buffer is not kept
	keptBody = 128 << 10
	maxFree  = 64
)

// A round is one group commit: one of those who want a Sync runs it for all.
type round struct {
	through uint64 // what it makes durable
	done    chan struct{}
	err     error // valid when done is closed
}

// Sync makes durable all that was put before it was called. Callers at the same time
// share one sync of the disk. It does not write what only Stored has said: that waits for
// company.
//
// The error is [ErrNoSpace]: all is still there, and the next Sync tries again; or
// [ErrFailed], for good; or [ErrClosed].
func (o *Outbox) Sync() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.syncThrough(o.mu.wanted)
}

// syncThrough is called with o.mu held, and lets go of it while it waits.
func (o *Outbox) syncThrough(put uint64) error {
	for {
		if err := o.usable(); err != nil {
			return err
		}
		if o.mu.synced >= put {
			return nil
		}
		r := o.mu.round
		if r == nil {
			r = o.run()
		} else {
			o.await(r)
		}
		if r.err != nil && r.through >= put {
			return r.err
		}
	}
}

func (o *Outbox) await(r *round) {
	o.mu.Unlock()
	<-r.done
	o.mu.Lock()
}

// run writes and syncs what is put by now. It is called with o.mu held, and lets go of it
// while it uses the disk.
func (o *Outbox) run() *round {
	r := &round{through: o.mu.put, done: make(chan struct{})}
	o.mu.round = r
	items := o.mu.items
	o.mu.items = nil
	o.mu.Unlock()
	written, err := o.log.write(items)
	o.mu.Lock()
	if left := items[written:]; len(left) > 0 {
		o.mu.items = append(left[:len(left):len(left)], o.mu.items...)
	}
	switch {
	case err == nil:
		o.mu.synced = r.through
	case !errors.Is(err, ErrNoSpace):
		if o.mu.failed == nil {
			o.mu.failed = fmt.Errorf("%w: %w", ErrFailed, err)
		}
		err = o.mu.failed
	}
	r.err = err
	o.mu.round = nil
	close(r.done)
	return r
}
