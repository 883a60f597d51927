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
	pool  *Pool
	class int // -1: larger than every class, not kept
	cost  int64
}

// Get lends a buffer whose B has length n. It is nil when that would break the budget.
func (p *Pool) Get(n int) *Buffer {
	class, cost := classOf(n)
	if !p.left.TryAcquire(int64(cost)) {
		return nil
	}
	return p.lend(n, class, cost)
}

// Wait is Get that waits for room. The error is ctx's; a buffer that is larger than the
// whole budget waits until ctx ends.
func (p *Pool) Wait(ctx context.Context, n int) (*Buffer, error) {
	class, cost := classOf(n)
	if err := p.left.Acquire(ctx, int64(cost)); err != nil {
		return nil, err
	}
	return p.lend(n, class, cost), nil
}

func (p *Pool) lend(n, class, cost int) *Buffer {
	p.out.Add(int64(cost))
	if class >= 0 {
		if b, ok := p.free[class].Get().(*Buffer); ok {
			b.B = b.B[:n]
			return b
		}
	}
	return &Buffer{B: make([]byte, n, cost), pool: p, class: class, cost: int64(cost)}
}

// Out is how many bytes are on loan.
func (p *Pool) Out() int64 { return p.out.Load() }

// Release gives the buffer back. B must not be used any more. Releasing nil does nothing.
func (b *Buffer) Release() {
	if b == nil {
		return
	}
	p, cost, class := b.pool, b.cost, b.class
	if class >= 0 {
		p.free[class].Put(b)
	}
	p.out.Add(-cost)
	p.left.Release(cost)
}

func classOf(n int) (class, capacity int) {
	for i, c := range classes {
		if n <= c {
			return i, c
		}
	}
	return -1, n
}
