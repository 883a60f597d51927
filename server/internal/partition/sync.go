package partition

import (
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/planted"
	"github.com/quoin-io/quoin/wire"
)

// maxUnsynced is how long an append stays without a sync that nobody waits for: what a crash
// may take of what was acknowledged as written.
const maxUnsynced = 100 * time.Millisecond

// syncDone is what the syncer tells the owner.
type syncDone struct {
	end batchfmt.Offset
	at  time.Time
	err error
}

// runSyncer is the syncer's goroutine. It starts in Open and ends when the owner closes
// p.sync. One sync covers everything that was appended before it began.
func (p *Partition) runSyncer() {
	defer p.helpers.Done()
	for range p.sync {
		began := time.Now()
		end, err := p.log.Sync()
		p.cfg.Counters.Syncs.Took.Observe(time.Since(began))
		if err != nil {
			p.cfg.Counters.Syncs.Failed.Add(1)
		}
		p.synced <- syncDone{end: end, at: time.Now(), err: err}
	}
}

// startSync lets the syncer go on if it is idle and somebody waits for what is not durable. If
// nobody does it sees to it that the syncer goes on in time.
func (p *Partition) startSync() {
	o := &p.owner
	switch {
	case o.syncing: // when it ends there is another look
	case !o.unsynced():
		o.since = time.Time{}
	case o.awaited():
		p.beginSync()
	case !planted.SyncNotDue:
		left := maxUnsynced - time.Since(o.since)
		if left <= 0 {
			p.beginSync()
			return
		}
		o.late.Reset(left)
	}
}

// beginSync lets the syncer go on, which must be idle.
func (p *Partition) beginSync() {
	o := &p.owner
	o.syncing, o.since = true, time.Time{}
	o.late.Stop()
	o.controls.syncBegins()
	p.sync <- struct{}{} // never blocks: the syncer is idle and the capacity is 1
}

// awaited reports whether anybody waits for a sync: an answer, an opening, a settle, a control
// batch.
func (o *owner) awaited() bool {
	return len(o.waiters) > 0 || len(o.parked) > 0 || len(o.controls.waiting) > 0
}

// unsynced reports whether something that was appended waits for a sync that can come.
func (o *owner) unsynced() bool {
	return o.failure == nil && (o.end > o.durable || o.controls.appended > o.controls.durable)
}

func (p *Partition) onSynced(d syncDone) {
	o := &p.owner
	o.syncing = false
	if d.err != nil {
		p.fail(d.err)
		return
	}
	o.durable, o.controls.durable = d.end, o.controls.syncing
	p.durable.Store(int64(d.end))
	p.answerWaiters(d.at)
	o.controls.release()
	p.wakeReaders(nil)
	p.unpark()
	p.startSync()
	p.saveSnapshot()
}

// answerWaiters answers in the order in which the batches were decided. An attached
// waiter may stand behind one that needs more; it then waits a sync longer than it must,
// and order within a lane is kept.
func (p *Partition) answerWaiters(at time.Time) {
	o := &p.owner
	n := 0
	for n < len(o.waiters) && o.stands(o.waiters[n].until, o.waiters[n].control) {
		w := &o.waiters[n]
		w.result.Timings.Sync = at.Sub(w.written)
		p.give(w.sink, w.result)
		n++
	}
	left := copy(o.waiters, o.waiters[n:])
	clear(o.waiters[left:])
	o.waiters = o.waiters[:left]
}

// shutDown ends the owner. What is queued is refused; what is appended gets its sync and
// its answer, unless the partition plays a crash.
func (p *Partition) shutDown(mode stopMode) {
	o := &p.owner
	if mode == stopClean {
		p.refuseQueued()
		p.dropLookUps() // what was held behind them may append, park or want room
		for o.syncing || o.unsynced() {
			if !o.syncing {
				p.beginSync()
			}
			p.onSynced(<-p.synced)
		}
		p.failParked(p.queue.closed)
		p.refuseNewcomers(p.queue.closed)
		p.saveFinalSnapshot()
	} else if o.syncing {
		<-p.synced
	}
	close(p.sync)
	o.late.Stop()
	o.levels.lanes.Set(0)
	o.levels.retired.Set(0)
}

func (p *Partition) refuseQueued() {
	p.queue.Lock()
	items, why := p.queue.items, p.queue.closed
	p.queue.items, p.queue.bytes = nil, 0
	p.queue.Unlock()
	for i := range items {
		c := &items[i]
		if c.act != nil {
			c.act()
			continue
		}
		p.refuse(&c.produce, why)
	}
}

func (p *Partition) refuse(pr *Produce, why *wire.Error) {
	r := refusal(why.Code, why.Detail)
	r.BaseSequence = pr.number()
	pr.Buffer.Release()
	p.give(pr.Sink, r)
}
