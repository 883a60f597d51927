package sdk

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quoin-io/quoin/sdk/internal/planted"
	"github.com/quoin-io/quoin/wire"
)

// A follower wants to know when its topic changes.
type follower interface {
	follows() (name string, id [16]byte)
	// learn is told what the topic is now; it is the same incarnation.
	learn(info *wire.TopicInfo)
}

// news keeps producers and consumers up to date about their topics: when the server tells of
// a change, and after each connection, as changes may have been missed before it. Its one
// goroutine asks, and ends with close.
//
// Nothing is ever taken away from anybody: a topic that is missing, or has fewer partitions
// or another id than it had, is for the lanes and subscriptions themselves to meet.
type news struct {
	client *Client
	wake   chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}

	mu struct {
		sync.Mutex
		topics map[[16]byte]bool // that may have changed
		all    bool              // any may have
		count  uint64            // of things that were told
	}
}

func newNews(c *Client) *news {
	n := &news{client: c, wake: make(chan struct{}, 1), done: make(chan struct{})}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.mu.topics = make(map[[16]byte]bool)
	go n.run()
	return n
}

func (n *news) close() {
	n.cancel()
	<-n.done
}

// told notes that a topic may have changed, or any of them if id is zero.
func (n *news) told(id [16]byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.count++
	n.note(id)
}

func (n *news) note(id [16]byte) {
	n.mu.topics[id] = true
	n.mu.all = n.mu.all || id == [16]byte{}
	signal(n.wake)
}

// count is to be taken before a topic is looked up for a new follower, and given to since
// when the follower is registered: so it misses nothing in between.
func (n *news) count() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.count
}

func (n *news) since(count uint64, id [16]byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.count != count {
		n.note(id)
	}
}

func (n *news) run() {
	defer close(n.done)
	again := time.NewTimer(askAgain)
	again.Stop()
	defer again.Stop()
	for {
		select {
		case <-n.wake:
		case <-again.C:
		case <-n.ctx.Done():
			return
		}
		if !n.look() {
			again.Reset(askAgain)
		}
	}
}

// askAgain is the pause before a topic is asked for again that could not be looked at.
const askAgain = time.Second

// look asks once for each topic that may have changed and is followed. What could not be looked
// at is kept for the next time, and ok is false.
func (n *news) look() (ok bool) {
	n.mu.Lock()
	topics, all := n.mu.topics, n.mu.all
	n.mu.topics, n.mu.all = make(map[[16]byte]bool), false
	n.mu.Unlock()
	ok = true
	for name, followers := range n.client.followers() {
		var concerned []follower
		for _, f := range followers {
			if _, id := f.follows(); all || topics[id] {
				concerned = append(concerned, f)
			}
		}
		if len(concerned) > 0 && !n.ask(name, concerned) {
			n.mu.Lock()
			for _, f := range concerned {
				_, id := f.follows()
				n.mu.topics[id] = true
			}
			n.mu.Unlock()
			ok = false
		}
	}
	return ok
}

func (n *news) ask(name string, followers []follower) (ok bool) {
	info, err := n.client.topicInfo(n.ctx, name)
	if err != nil {
		ok = n.ctx.Err() != nil || errors.Is(err, ErrUnknownTopic)
		if !ok {
			n.client.logger.Warn("a topic has changed and cannot be looked at", "topic", name, "error", err)
		}
		return ok
	}
	for _, f := range followers {
		if _, id := f.follows(); id == info.ID {
			f.learn(info)
		}
	}
	return true
}

// followers are all that are open, by topic.
func (c *Client) followers() map[string][]follower {
	c.mu.Lock()
	defer c.mu.Unlock()
	byTopic := make(map[string][]follower)
	for x := range c.mu.open {
		if f, ok := x.(follower); ok {
			name, _ := f.follows()
			byTopic[name] = append(byTopic[name], f)
		}
	}
	return byTopic
}

func (p *Producer) follows() (name string, id [16]byte) { return p.topic, p.topicID }

// limitOf is how large a batch may be.
func (p *Producer) limitOf(info *wire.TopicInfo) int {
	if n := int(info.MaxBatchBytes); n > 0 {
		return min(p.most, n)
	}
	return p.most
}

// learn takes over what can change of a topic: its limit holds for what is not sealed yet, and
// further partitions take records from now on. What was given already stays in its partition.
func (p *Producer) learn(info *wire.TopicInfo) {
	limit := p.limitOf(info)
	p.mu.Lock()
	if slots := p.slots(); len(info.Partitions) > len(slots) {
		longer := slots.grown(len(info.Partitions))
		p.senders.Store(&longer)
	}
	if planted.TopicShrinks {
		shorter := p.slots()[:len(info.Partitions)]
		p.senders.Store(&shorter)
	}
	changed := p.limit.Swap(int64(limit)) != int64(limit)
	p.mu.Unlock()
	if changed {
		p.limitSenders()
	}
}

// lowerLimit takes over a limit that the server named to a lane, which it does before a topic can
// be looked at. That may be an older one than is known here, so the topic is looked at all the same.
func (p *Producer) lowerLimit(bytes int64) {
	p.mu.Lock()
	lower := bytes > 0 && bytes < p.limit.Load()
	if lower {
		p.limit.Store(bytes)
	}
	p.mu.Unlock()
	if lower {
		p.limitSenders()
		p.client.news.told(p.topicID)
	}
}

// limitSenders has what gathers keep to the limit.
func (p *Producer) limitSenders() {
	for _, s := range p.allSenders() {
		s.mu.Lock()
		s.mu.batcher.SetLimit(int(p.limit.Load()))
		if parked := s.mu.parked; parked != nil && !s.mu.batcher.Fits(parked) {
			s.mu.parked = nil
			s.mu.batcher.Return(parked)
		}
		s.mu.Unlock()
		signal(s.wake) // there may be full batches, or refused ones
	}
}
