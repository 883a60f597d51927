package sdk

import (
	"sync"

	"github.com/quoin-io/quoin/sdk/internal/transport"
)

// A credit bounds what a feed may have on its way and waiting, over all of its
// subscriptions: what an older one brought and was not read yet counts against the next.
// The feed's goroutine receives, Records consumes.
type credit struct {
	total int
	mu    struct {
		sync.Mutex
		sub     *transport.Subscription // nil while there is none
		waiting int                     // bytes received and not consumed
		left    int                     // what the server may still push; the last frame may overdraw it
		owed    int                     // may be granted; below zero while more waits than total
	}
}

// begin starts the account of a new subscription and returns what it is opened with.
func (c *credit) begin() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.left = max(c.total-c.mu.waiting, 0)
	c.mu.owed = min(c.total-c.mu.waiting, 0)
	return c.mu.left
}

// attach says where grants go from now on; nil for nowhere.
func (c *credit) attach(sub *transport.Subscription) {
	c.mu.Lock()
	c.mu.sub = sub
	c.mu.Unlock()
	c.consumed(0) // while there was no subscription nothing could be granted
}

// received reports whether the server had credit for n bytes: the last frame may be
// larger than what was left.
func (c *credit) received(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.left <= 0 {
		return false
	}
	c.mu.left -= n
	c.mu.waiting += n
	return true
}

// consumed grants what was read out. Grants are gathered, as each is a packet. One that
// fails belongs to a subscription that is over; the next begins with what is free then.
func (c *credit) consumed(n int) {
	c.mu.Lock()
	c.mu.waiting -= n
	c.mu.owed += n
	grant, sub := 0, c.mu.sub
	if sub != nil && c.mu.owed >= c.total/4 {
		grant, c.mu.owed = c.mu.owed, 0
		c.mu.left += grant
	}
	c.mu.Unlock()
	if grant > 0 {
		_ = sub.Grant(grant)
	}
}
