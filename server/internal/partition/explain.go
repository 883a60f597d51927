package partition

import (
	"bytes"
	"sync"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/wire"
)

// keptDecisions is how many of the latest decisions are kept for people who ask why.
const keptDecisions = wire.MaxDecisions

// A decision is one that was taken about a batch.
type decision struct {
	at      int64 // Unix milliseconds
	id      producerstate.Identity
	verdict producerstate.Verdict
}

// decisions are the latest ones, in a ring. The owner adds, anybody reads.
type decisions struct {
	sync.Mutex
	ring []decision // grows up to keptDecisions
	next int        // the oldest, once the ring is full
}

func (d *decisions) add(x decision) {
	d.Lock()
	defer d.Unlock()
	if len(d.ring) < keptDecisions {
		d.ring = append(d.ring, x)
		return
	}
	d.ring[d.next] = x
	d.next = (d.next + 1) % keptDecisions
}

// latest are up to limit decisions about pid, or about all if it is 0, oldest first.
func (d *decisions) latest(pid batchfmt.ProducerID, limit int) []decision {
	d.Lock()
	defer d.Unlock()
	var found []decision
	for i := range d.ring {
		x := d.ring[(d.next+i)%len(d.ring)]
		if pid == batchfmt.NoProducer || x.id.PID == pid {
			found = append(found, x)
		}
	}
	return found[max(0, len(found)-limit):]
}

// Explain lists the latest decisions, oldest first: up to limit of them (0 is as many as are
// kept), of one producer or of all.
func (p *Partition) Explain(pid batchfmt.ProducerID, limit int) []wire.Decision {
	if limit <= 0 {
		limit = keptDecisions
	}
	var list []wire.Decision
	for _, x := range p.decisions.latest(pid, limit) {
		list = append(list, wire.Decision{
			Time: x.at, ProducerID: x.id.PID, Epoch: x.id.Epoch, Base: x.id.Base, Last: x.id.Last,
			Row: int16(x.verdict.Row), Kind: x.verdict.Kind.String(), Text: x.verdict.String(), Offset: x.verdict.Offset,
		})
	}
	return list
}

// DescribeProducers lists the lanes that are in memory, a page at a time, or one lane
// wherever it is. reply is called once and must not block.
func (p *Partition) DescribeProducers(m *wire.DescribeProducers, reply func(wire.ProducersDescribed, *wire.Error)) {
	closed := p.do(func() {
		if m.ProducerID == batchfmt.NoProducer {
			reply(p.describeLanes(m), nil)
			return
		}
		p.afterLookUp(m.ProducerID, func() { // which may bring the lane back
			if p.owner.state.Lane(m.ProducerID) != nil {
				reply(p.describeLanes(m), nil)
				return
			}
			p.describeRetired(m.ProducerID, reply)
		})
	})
	if closed != nil {
		reply(wire.ProducersDescribed{}, closed)
	}
}

func (p *Partition) describeLanes(m *wire.DescribeProducers) wire.ProducersDescribed {
	limit := int(m.Limit)
	if limit <= 0 || limit > wire.MaxLanesPerPage {
		limit = wire.MaxLanesPerPage
	}
	d := p.describeTable()
	for pid, l := range p.owner.state.All() {
		if pid <= m.After || m.ProducerID != batchfmt.NoProducer && pid != m.ProducerID {
			continue
		}
		if len(d.Lanes) == limit {
			d.More = true
			break
		}
		d.Lanes = append(d.Lanes, p.laneInfo(pid, l))
	}
	return d
}

// describeTable is what there is to say of all lanes.
func (p *Partition) describeTable() wire.ProducersDescribed {
	return wire.ProducersDescribed{
		Total: uint32(p.owner.state.Len()), Retired: uint64(p.retired.Stats().Rows),
		Forgotten: max(p.owner.state.Forgotten(), p.retired.ForgottenUpTo()),
	}
}

func (p *Partition) describeRetired(pid batchfmt.ProducerID, reply func(wire.ProducersDescribed, *wire.Error)) {
	p.recall(pid, func(r *recalled, e *wire.Error) {
		if e != nil {
			reply(wire.ProducersDescribed{}, p.laneSubject(e, pid))
			return
		}
		d := p.describeTable()
		if r.lane != nil {
			info := p.laneInfo(pid, r.lane)
			info.Retired, info.Idle = true, 0 // how long it was away is not kept
			d.Lanes = append(d.Lanes, info)
		}
		reply(d, nil)
	})
}

func (p *Partition) laneInfo(pid batchfmt.ProducerID, l *producerstate.Lane) wire.LaneInfo {
	info := wire.LaneInfo{
		ProducerID: pid, Epoch: l.Epoch(), Last: l.Last(), Floor: l.Floor(), LastOffset: l.LastOffset(), Confirmed: l.Confirmed(),
		Idle: p.owner.state.Idle(l), Opening: l.Opening(), Open: l.Open(), Closed: l.Closed(), Suspect: l.Suspect(),
		Position: bytes.Clone(l.Position()),
	}
	for b := range l.Window() {
		info.Window = append(info.Window, wire.WindowEntry{Base: b.Base, Last: b.Last, Offset: b.BaseOffset, Digest: b.Digest})
		if b.BaseOffset >= p.owner.durable {
			info.InFlight++
		}
	}
	return info
}
