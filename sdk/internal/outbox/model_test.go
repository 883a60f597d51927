package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/quoin-io/quoin/batchfmt"
)

const testDir = "/box"

var testBinding = Binding{Server: "s1", Topic: "orders", TopicID: [16]byte{1, 2, 3}, Producer: "checkout-7", ProducerID: 77}

// sealed makes a batch of count records with a value of size bytes, of producer 77.
func sealed(base batchfmt.Seq, count, size int, epoch batchfmt.Epoch) []byte {
	var b batchfmt.Builder
	for i := range count {
		value := bytes.Repeat([]byte{byte(base) + byte(i), byte(epoch)}, size/2)
		if err := b.Add(&batchfmt.Record{Value: value, Timestamp: 1000}); err != nil {
			panic(err)
		}
	}
	out, err := b.Seal(nil, batchfmt.Seal{Version: batchfmt.Version2, ProducerID: 77, Epoch: epoch, BaseSequence: base})
	if err != nil {
		panic(err)
	}
	return out
}

// put is what the model knows of one batch.
type put struct {
	id        ID
	partition int32
	base      batchfmt.Seq
	last      batchfmt.Seq
	sealed    []byte
	replaces  *put

	durable bool // a sync returned after it was put
	asked   bool // Unknown was called
	told    bool // and returned nil
	ended   bool // Stored, NotStored or Replace was called
	gone    bool // and is durable
	never   bool // it ended with NotStored or Replace
}

// model is a workload, and what must be found after it.
type model struct {
	r     *rand.Rand
	o     *Outbox
	puts  []*put
	next  [3]batchfmt.Seq
	epoch batchfmt.Epoch
	dirty bool // something was put that a Sync is for
	lazy  bool // the planted mistake: the application is told "not stored" before it is durable
}

func newModel(seed uint64) *model {
	return &model{r: rand.New(rand.NewPCG(seed, 1)), epoch: 1}
}

func testOptions(d *disk) Options {
	return Options{SegmentBytes: MinSegmentBytes, MaxBytes: minSegments * MinSegmentBytes, fs: d}
}

// run opens the outbox on d and does steps until one fails.
func (m *model) run(d *disk, steps int) error {
	o, found, err := Open(testDir, testBinding, testOptions(d))
	if err != nil {
		return err
	}
	m.o = o
	if err := m.check(found); err != nil {
		return fmt.Errorf("%w: %w", errModel, err)
	}
	for range steps {
		if err := m.step(); err != nil && !errors.Is(err, ErrFull) {
			return errors.Join(err, o.Close())
		}
	}
	if err := o.Close(); err != nil {
		return err
	}
	m.synced()
	return nil
}

var errModel = errors.New("the model says something else")

func (m *model) step() error {
	switch n := m.r.IntN(20); {
	case n < 9:
		return m.put()
	case n < 13:
		return m.sync()
	case n < 17:
		return m.stored()
	case n < 18:
		return m.unknown()
	case n < 19:
		return m.notStored()
	default:
		return m.replace()
	}
}

func (m *model) put() error {
	partition := int32(m.r.IntN(3))
	count := 1 + m.r.IntN(3)
	if partition == 2 && m.r.IntN(3) > 0 { // the stuck one gets fewer
		partition = 0
	}
	p := &put{partition: partition, base: m.next[partition]}
	p.last = p.base + batchfmt.Seq(count) - 1
	p.sealed = sealed(p.base, count, m.r.IntN(2500), m.epoch)
	id, err := m.o.Put(partition, p.sealed)
	if err != nil {
		return err
	}
	p.id = id
	m.next[partition] = p.last + 1
	m.dirty = true
	m.puts = append(m.puts, p)
	return nil
}

func (m *model) sync() error {
	if err := m.o.Sync(); err != nil {
		return err
	}
	if m.dirty {
		m.synced()
	}
	return nil
}

func (m *model) synced() {
	m.dirty = false
	for _, p := range m.puts {
		p.durable = true
		p.gone = p.ended
		p.told = p.asked
	}
}

// pick is the oldest, or the newest, batch without outcome of a partition that may have one.
func (m *model) pick(newest bool) *put {
	partition := int32(m.r.IntN(2))
	if m.r.IntN(40) == 0 {
		partition = 2
	}
	var all []*put
	for _, p := range m.puts {
		if p.partition == partition && !p.ended && p.durable {
			all = append(all, p)
		}
	}
	switch {
	case len(all) == 0:
		return nil
	case newest:
		return all[len(all)-1]
	}
	return all[0]
}

func (m *model) stored() error {
	for range 1 + m.r.IntN(4) {
		p := m.pick(false)
		if p == nil {
			return nil
		}
		p.ended = true
		if err := m.o.Stored(p.id, batchfmt.Offset(p.last)+1000); err != nil {
			return err
		}
	}
	return nil
}

func (m *model) unknown() error {
	p := m.pick(m.r.IntN(2) == 0)
	if p == nil {
		return nil
	}
	p.asked, m.dirty = true, true
	if err := m.o.Unknown(p.id); err != nil {
		return err
	}
	m.synced()
	return nil
}

func (m *model) notStored() error {
	p := m.pick(true)
	if p == nil {
		return nil
	}
	p.ended, p.never = true, true
	if m.lazy {
		p.gone = true
		return m.o.Stored(p.id, -1)
	}
	m.dirty = true
	if err := m.o.NotStored(p.id); err != nil {
		return err
	}
	m.synced()
	return nil
}

func (m *model) replace() error {
	p := m.pick(true)
	if p == nil || p.asked {
		return nil
	}
	m.epoch++
	n := &put{partition: p.partition, base: p.base, last: p.last, replaces: p}
	n.sealed = sealed(p.base, int(p.last-p.base)+1, m.r.IntN(2500), m.epoch)
	id, err := m.o.Replace(p.id, n.sealed)
	if err != nil {
		return err
	}
	n.id, m.dirty = id, true
	p.ended, p.never = true, true
	m.puts = append(m.puts, n)
	return nil
}

// check compares what was found with what must be, and what may be.
func (m *model) check(f *Found) error {
	if f.Damage != nil {
		return f.Damage
	}
	found := map[ID]Batch{}
	for _, l := range f.Lanes {
		for i, b := range l.Batches {
			if b.Partition != l.Partition || b.Damaged || b.Doubtful {
				return fmt.Errorf("partition %d has %+v", l.Partition, b)
			}
			if i > 0 && b.Base <= l.Batches[i-1].Base {
				return fmt.Errorf("partition %d is not in order: %+v", l.Partition, l.Batches)
			}
			found[b.ID] = b
		}
	}
	cut := false // something that was not synced is not there
	for _, p := range m.puts {
		b, there := found[p.id]
		if err := m.checkOne(p, b, there, found); err != nil {
			return err
		}
		if !p.durable && !p.ended {
			if there && cut {
				return fmt.Errorf("batch %d is there and one put before it is not", p.id)
			}
			cut = cut || !there
		}
	}
	for id := range found {
		if !slices.ContainsFunc(m.puts, func(p *put) bool { return p.id == id }) {
			return fmt.Errorf("nobody put batch %d", id)
		}
	}
	return m.checkLanes(f)
}

func (m *model) checkOne(p *put, b Batch, there bool, found map[ID]Batch) error {
	switch {
	case p.durable && !p.ended && !there:
		return fmt.Errorf("batch %d of partition %d, sequence %d, is lost", p.id, p.partition, p.base)
	case p.gone && there:
		return fmt.Errorf("batch %d has its outcome and is back", p.id)
	case there && p.told && b.State != Unknown:
		return fmt.Errorf("batch %d was told to be unknown and is %v", p.id, b.State)
	case there && !p.asked && b.State != Pending:
		return fmt.Errorf("batch %d is %v", p.id, b.State)
	case there && (b.Base != p.base || b.Last != p.last || b.Partition != p.partition):
		return fmt.Errorf("batch %d is %+v", p.id, b)
	}
	if old := p.replaces; old != nil && !p.ended {
		if _, both := found[old.id]; both == there {
			return fmt.Errorf("batch %d replaces %d, and both or none is there: %v", p.id, old.id, there)
		}
	}
	if !there || b.State == Unknown {
		return nil
	}
	got, err := m.o.Load(nil, p.id)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, p.sealed) {
		return fmt.Errorf("batch %d is not what was put", p.id)
	}
	return nil
}

// checkLanes looks that a lane knows all that was handed over, and nothing too much.
func (m *model) checkLanes(f *Found) error {
	for _, p := range m.puts {
		if !p.durable || p.never {
			continue
		}
		i := slices.IndexFunc(f.Lanes, func(l Lane) bool { return l.Partition == p.partition })
		if i < 0 {
			return fmt.Errorf("partition %d is not known", p.partition)
		}
		l := f.Lanes[i]
		if l.Next <= p.last || p.gone && l.Through < p.last {
			return fmt.Errorf("partition %d stands at %d, stored through %d, with batch %d that ends at %d",
				p.partition, l.Next, l.Through, p.id, p.last)
		}
		if l.Acked != nil && l.Acked.Offset != batchfmt.Offset(l.Acked.Sequence)+1000 {
			return fmt.Errorf("acknowledged is %+v", l.Acked)
		}
	}
	return nil
}

// forget is what a new process knows: what was found is durable, the rest is over.
func (m *model) forget(f *Found) {
	state := map[ID]State{}
	for _, l := range f.Lanes {
		for _, b := range l.Batches {
			state[b.ID] = b.State
		}
		m.next[l.Partition] = max(m.next[l.Partition], l.Next)
	}
	m.puts = slices.DeleteFunc(m.puts, func(p *put) bool { return state[p.id] == 0 })
	for _, p := range m.puts {
		told := state[p.id] == Unknown
		*p = put{id: p.id, partition: p.partition, base: p.base, last: p.last, sealed: p.sealed, durable: true, asked: told, told: told}
	}
}
