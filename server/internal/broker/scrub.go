package broker

import (
	"context"
	"time"

	"github.com/quoin-io/quoin/server/internal/partition"
)

// scrubBytesPerSecond is how fast stored data is read again in the background, over all
// partitions: little beside what the server does, and half a terabyte a day.
const scrubBytesPerSecond = 8 << 20

// startScrub starts runScrub, which endScrub ends and waits for.
func (b *Broker) startScrub() {
	if b.cfg.ScrubEvery < 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.stopScrub, b.scrubbed = cancel, make(chan struct{})
	go func() {
		defer close(b.scrubbed)
		b.runScrub(ctx)
	}()
}

func (b *Broker) endScrub() {
	if b.stopScrub != nil {
		b.stopScrub()
		<-b.scrubbed
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

func (b *Broker) allPartitions() (all []*partition.Partition) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, t := range b.mu.topics {
		all = append(all, t.partitions...)
	}
	return all
}
