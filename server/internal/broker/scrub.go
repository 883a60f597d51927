package broker

import (
	"context"
	"time"

	"github.com/quoin-io/quoin/server/internal/partition"
)

// scrubBytesPerSecond is how fast stored data is read again in the background, over all
// partitions: little beside what the server does, and half a terabyte a day.
const scrubBytesPerSecond = 8 << 20

// defaultIdleEvery is how often idle producers are looked for.
const defaultIdleEvery = time.Minute

// startBackground starts what goes on by itself; endBackground ends it and waits.
func (b *Broker) startBackground() {
	ctx, cancel := context.WithCancel(context.Background())
	b.background.stop = cancel
	b.background.running.Go(func() { b.retireIdle(ctx) })
	b.background.running.Go(func() { b.reopen(ctx) })
	if b.cfg.ScrubEvery >= 0 {
		b.background.running.Go(func() { b.runScrub(ctx) })
	}
}

func (b *Broker) endBackground() {
	if b.background.stop != nil {
		b.background.stop()
		b.background.running.Wait()
	}
}

// retireIdle lets producers leave memory that nobody has used for long.
func (b *Broker) retireIdle(ctx context.Context) {
	tick := time.NewTicker(b.cfg.IdleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			b.RetireIdle()
		}
	}
}

// RetireIdle lets producers leave memory that nobody has used for long, in all partitions.
func (b *Broker) RetireIdle() {
	for _, p := range b.allPartitions() {
		p.RetireIdle()
	}
}

// runScrub reads all stored data again and again, one partition at a time, so that damage
// is found before a reader comes upon it.
func (b *Broker) runScrub(ctx context.Context) {
	pause := time.NewTimer(b.cfg.ScrubEvery)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		for _, p := range b.allPartitions() {
			if err := p.Scrub(ctx, scrubBytesPerSecond); err != nil && ctx.Err() == nil {
				b.cfg.Log.Error("scrub could not read", "error", err)
			}
		}
		pause.Reset(b.cfg.ScrubEvery)
	}
}

// allPartitions are those that are open.
func (b *Broker) allPartitions() (all []*partition.Partition) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, t := range b.mu.topics {
		for i := range t.slots {
			if p := t.slots[i].open.Load(); p != nil {
				all = append(all, p)
			}
		}
	}
	return all
}
