package sdk

import (
	"context"
	"sync"
)

// A buffer bounds the bytes of records without an outcome. Who waits is served in the
// order of arrival, so that a large record is not passed by small ones for ever.
type buffer struct {
	max int64
	mu  struct {
		sync.Mutex
		used    int64
		waiting []*bufferWaiter
		closed  bool
	}
}

type bufferWaiter struct {
	bytes   int64
	granted chan struct{}
}

// acquire takes n bytes, or waits for them; pressure is called before it waits. A record
// that is larger than the whole buffer is let in when the buffer is empty.
func (b *buffer) acquire(ctx context.Context, n int64, pressure func()) error {
	b.mu.Lock()
	if ok, err := b.take(n); ok || err != nil {
		b.mu.Unlock()
		return err
	}
	w := &bufferWaiter{bytes: n, granted: make(chan struct{})}
	b.mu.waiting = append(b.mu.waiting, w)
	b.mu.Unlock()
	pressure()
	select {
	case <-w.granted:
		return b.grantedTo(w)
	case <-ctx.Done():
	}
	if b.withdraw(w) {
		return context.Cause(ctx)
	}
	<-w.granted // the grant came first
	return b.grantedTo(w)
}

// try takes n bytes if they are free and nobody waits for any.
func (b *buffer) try(n int64) (ok bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take(n)
}

func (b *buffer) take(n int64) (ok bool, err error) {
	switch {
	case b.mu.closed:
		return false, ErrClosed
	case len(b.mu.waiting) > 0 || !b.fits(n):
		return false, nil
	}
	b.mu.used += n
	return true, nil
}

func (b *buffer) fits(n int64) bool { return b.mu.used == 0 || b.mu.used+n <= b.max }

// grantedTo tells a grant from the wake-up of a buffer that was closed.
func (b *buffer) grantedTo(w *bufferWaiter) error {
	if w.bytes < 0 {
		return ErrClosed
	}
	return nil
}

func (b *buffer) withdraw(w *bufferWaiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.mu.waiting {
		if other == w {
			b.mu.waiting = append(b.mu.waiting[:i], b.mu.waiting[i+1:]...)
			b.grant() // those behind it may fit
			return true
		}
	}
	return false
}

// release gives n bytes back.
func (b *buffer) release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.used -= n
	b.grant()
}

func (b *buffer) grant() {
	for len(b.mu.waiting) > 0 && b.fits(b.mu.waiting[0].bytes) {
		w := b.mu.waiting[0]
		b.mu.waiting = append(b.mu.waiting[:0], b.mu.waiting[1:]...)
		b.mu.used += w.bytes
		close(w.granted)
	}
}

func (b *buffer) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.used
}

// close sends away whoever waits and whoever comes.
func (b *buffer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.closed = true
	for _, w := range b.mu.waiting {
		w.bytes = -1
		close(w.granted)
	}
	b.mu.waiting = nil
}
