package buffers

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// classes are the capacities in use. Each has a little room above a power of two, as a
// frame is a batch of about that size plus its head.
var classes = [...]int{4 << 10, 16<<10 + 512, 64<<10 + 4096, 256<<10 + 4096, 1<<20 + 8192}

// A Pool hands out buffers until its budget is out. It is safe for concurrent use.
type Pool struct {
	left *semaphore.Weighted
	out  atomic.Int64
	free [len(classes)]sync.Pool
}

// NewPool makes a pool with a budget in bytes.
func NewPool(budget int64) *Pool {
	return &Pool{left: semaphore.NewWeighted(budget)}
}

// A Buffer is bytes on loan. Its holder calls Release once.
type Buffer struct {
	B     []byte
	share *Share
	class int // -1: larger than every class, not kept
	cost  int64
}

// A Share is what one connection may have of a pool at a time, so that none can take all
// of it. It is safe for concurrent use.
type Share struct {
	pool *Pool
	left *semaphore.Weighted
}

// Share makes a share of limit bytes.
func (p *Pool) Share(limit int64) *Share {
	return &Share{pool: p, left: semaphore.NewWeighted(limit)}
}

// Get lends a buffer whose B has length n. It is nil when that would break the share or
// the budget of the pool.
func (s *Share) Get(n int) *Buffer {
	class, cost := classOf(n)
	if !s.left.TryAcquire(int64(cost)) {
		return nil
	}
	if !s.pool.left.TryAcquire(int64(cost)) {
		s.left.Release(int64(cost))
		return nil
	}
	return s.lend(n, class, cost)
}

// Wait is Get that waits for room. The error is ctx's; a buffer that is larger than the
// share waits until ctx ends.
func (s *Share) Wait(ctx context.Context, n int) (*Buffer, error) {
	class, cost := classOf(n)
	if err := s.left.Acquire(ctx, int64(cost)); err != nil {
		return nil, err
	}
	if err := s.pool.left.Acquire(ctx, int64(cost)); err != nil {
		s.left.Release(int64(cost))
		return nil, err
	}
	return s.lend(n, class, cost), nil
}

func (s *Share) lend(n, class, cost int) *Buffer {
	s.pool.out.Add(int64(cost))
	if class >= 0 {
		if b, ok := s.pool.free[class].Get().(*Buffer); ok {
			b.B, b.share = b.B[:n], s
			return b
		}
	}
	return &Buffer{B: make([]byte, n, cost), share: s, class: class, cost: int64(cost)}
}

// Out is how many bytes are on loan.
func (p *Pool) Out() int64 { return p.out.Load() }

// Release gives the buffer back. B must not be used any more. Releasing nil does nothing.
func (b *Buffer) Release() {
	if b == nil {
		return
	}
	share, cost, class := b.share, b.cost, b.class
	p := share.pool
	if class >= 0 {
		p.free[class].Put(b)
	}
	p.out.Add(-cost)
	p.left.Release(cost)
	share.left.Release(cost)
}

func classOf(n int) (class, capacity int) {
	for i, c := range classes {
		if n <= c {
			return i, c
		}
	}
	return -1, n
}
