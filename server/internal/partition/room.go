package partition

import (
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/planted"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/retired"
	"github.com/quoin-io/quoin/wire"
)

const (
	// leaveShare is the part of the lanes that leave at once when there is no room: each
	// time costs a few syncs, and newcomers seldom come alone.
	leaveShare = 16
	// maxWantRoom bounds the newcomers that wait for room.
	maxWantRoom = 4096
)

// A newcomer waits for room in memory.
type newcomer struct {
	pid batchfmt.ProducerID
	act func(refused *wire.Error)
}

// room calls act when there is room for the lane of pid, or with why there is none. act
// must take the room at once.
func (p *Partition) room(pid batchfmt.ProducerID, act func(refused *wire.Error)) {
	o := &p.owner
	switch {
	case !o.state.AtLimit(pid):
		act(nil)
	case len(o.wantRoom) >= maxWantRoom:
		act(p.laneSubject(wire.Errorf(wire.CodeThrottled, "%d producers wait for room already", maxWantRoom), pid))
	default:
		o.wantRoom = append(o.wantRoom, newcomer{pid, act})
		p.makeRoom()
	}
}

// makeRoom lets lanes leave as long as somebody waits for room.
func (p *Partition) makeRoom() {
	o := &p.owner
	for !o.retiring && len(o.wantRoom) > 0 {
		if n := o.wantRoom[0]; !o.state.AtLimit(n.pid) {
			o.wantRoom = o.wantRoom[1:]
			n.act(nil)
			continue
		}
		if !p.retire(max(1, o.state.Limits().MaxLanes/leaveShare), 0) {
			p.refuseNewcomers(p.noRoom())
		}
	}
}

func (p *Partition) noRoom() *wire.Error {
	o := &p.owner
	limit := o.state.Limits().MaxLanes
	e := wire.Errorf(wire.CodeProducerLimitReached, "the partition holds %d producers, all in use, its limit is %d", o.state.Len(), limit)
	e.Expected = int64(limit)
	return e
}

func (p *Partition) refuseNewcomers(why *wire.Error) {
	o := &p.owner
	waiting := o.wantRoom
	o.wantRoom = nil
	for _, n := range waiting {
		e := *why
		n.act(p.laneSubject(&e, n.pid))
	}
}

// retire lets up to n lanes leave that were idle for so long: their rows are made durable
// in the retired table by a helper, and then their memory is dropped. It reports false if
// there is no such lane.
func (p *Partition) retire(n int, idle time.Duration) bool {
	o := &p.owner
	durable := o.durable
	leavers := o.state.Leavers(n, idle, durable)
	if len(leavers) == 0 || o.failure != nil {
		return false
	}
	o.retiring = true
	// A row must not tell of a fence that a crash may take away. What is appended from now on
	// is in none of these rows, and keeps its lane in memory.
	p.afterControls(func(failure *wire.Error) {
		if failure != nil {
			o.retiring = false
			p.refuseNewcomers(failure)
			return
		}
		p.putRows(leavers, durable)
	})
	return true
}

// putRows makes the rows durable in a helper; durable is the durable end when they were chosen.
func (p *Partition) putRows(leavers []producerstate.Leaver, durable batchfmt.Offset) {
	p.helpers.Add(1)
	go func() { // ends when the rows are durable or refused, and upkeep is done; end waits for it
		defer p.helpers.Done()
		var put error
		if !planted.EvictWithoutRow {
			p.retired.Vouch(durable)
			put = p.retired.Put(p.cfg.rows(leavers))
		}
		p.do(func() { p.onRetired(leavers, put) })
		err := put
		for more := err == nil && !p.ending.Load(); more && err == nil; {
			more, err = p.retired.Maintain()
		}
		if err != nil && !p.ending.Load() {
			p.cfg.Logger.Error("retired producers not written", "topic", p.cfg.Topic, "partition", p.cfg.Number, "error", err)
		}
	}()
}

func (c Config) rows(leavers []producerstate.Leaver) []retired.Row {
	rows := make([]retired.Row, len(leavers))
	for i, l := range leavers {
		rows[i] = retired.Row{PID: l.PID, Named: c.Named != nil && c.Named(l.PID), Value: l.Row}
	}
	return rows
}

// onRetired drops the lanes whose rows are durable, unless they were used meanwhile.
func (p *Partition) onRetired(leavers []producerstate.Leaver, err error) {
	o := &p.owner
	o.retiring = false
	if err != nil {
		p.refuseNewcomers(storageError(err))
		return
	}
	o.state.SetRetired(p.retired.Generation())
	o.levels.retired.Set(int(p.retired.Stats().Rows))
	gone := 0
	for _, l := range leavers {
		if o.state.Evict(l) {
			gone++
		}
	}
	p.cfg.Counters.Producers.Retirements.Add(uint64(gone))
	if len(o.wantRoom) > 0 {
		p.cfg.Counters.Producers.Evictions.Add(uint64(gone))
	}
	p.makeRoom()
}

// RetireIdle lets lanes leave memory that nobody has used for the configured time. It
// returns at once.
func (p *Partition) RetireIdle() {
	p.do(func() {
		o := &p.owner
		o.state.Tick(p.cfg.Uptime())
		if !o.retiring {
			p.retire(o.state.Limits().MaxLanes, p.cfg.IdleAfter)
		}
	})
}
