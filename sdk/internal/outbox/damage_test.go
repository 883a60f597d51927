package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

// small is a closed outbox with batches in every state, and what they are.
type small struct {
	d       *disk
	name    string // of its segment
	pending []put
	unknown []put
	stored  []put
	never   []put
}

func newSmall(t *testing.T) *small {
	t.Helper()
	s := &small{d: newDisk()}
	o, _, err := Open(testDir, testBinding, testOptions(s.d))
	must(t, err)
	add := func(list *[]put, partition int32, base batchfmt.Seq) ID {
		t.Helper()
		p := put{partition: partition, base: base, last: base + 1, sealed: sealed(base, 2, 20, 1)}
		p.id, err = o.Put(partition, p.sealed)
		must(t, err)
		must(t, o.Sync())
		*list = append(*list, p)
		return p.id
	}
	must(t, o.Stored(add(&s.stored, 0, 0), 1001))
	must(t, o.Unknown(add(&s.unknown, 0, 2)))
	add(&s.pending, 1, 0)
	must(t, o.NotStored(add(&s.never, 1, 2)))
	add(&s.pending, 1, 2)
	add(&s.pending, 2, 0)
	must(t, o.Close())
	for name, f := range s.d.now {
		if f != nil && strings.HasSuffix(name, segmentSuffix) {
			s.name = name
		}
	}
	return s
}

// with opens a copy of the outbox whose segment is b.
func (s *small) with(b []byte) (*Outbox, *Found, error) {
	d := newDisk()
	d.now[testDir] = nil
	d.now[s.name] = &diskFile{now: b}
	return Open(testDir, testBinding, testOptions(d))
}

func (s *small) bytes() []byte { return s.d.now[s.name].now }

// TestEveryBit flips each bit of the entries of a small outbox.
func TestEveryBit(t *testing.T) {
	s := newSmall(t)
	b := slices.Clone(s.bytes())
	for i := dataStart; i < len(b); i++ {
		for bit := range 8 {
			b[i] ^= 1 << bit
			if seen, err := s.checkFlip(b); err != nil || !seen {
				t.Fatalf("byte %d, bit %d: seen %v, %v", i, bit, seen, err)
			}
			b[i] ^= 1 << bit
		}
	}
}

// TestEveryBitOfHeading flips each bit in front of the entries: nothing is lost, and each
// is seen that means anything.
func TestEveryBitOfHeading(t *testing.T) {
	s := newSmall(t)
	b := slices.Clone(s.bytes())
	whole, err := readHeading("x", b[:dataStart], segmentHeader{})
	must(t, err)
	unseen := 0
	for i := range dataStart {
		for bit := range 8 {
			b[i] ^= 1 << bit
			h, err := readHeading("x", b[:dataStart], segmentHeader{})
			// of the notes the older one is left, behind which all is intact
			if err != nil || h.header != whole.header || !h.intact || h.synced == 0 {
				t.Fatalf("byte %d, bit %d: %+v, %v", i, bit, h, err)
			}
			if len(h.damages) == 0 {
				unseen++
			}
			if bit == i%8 { // a whole Open takes longer
				if seen, err := s.checkFlip(b); err != nil || seen != (len(h.damages) > 0) {
					t.Fatalf("byte %d, bit %d: seen %v, %v", i, bit, seen, err)
				}
			}
			b[i] ^= 1 << bit
		}
	}
	// what lies between headers and notes holds nothing
	if want := 8 * (dataStart - 2*headerBytes - 2*noteBytes); unseen != want {
		t.Fatalf("%d flips were not seen, want %d", unseen, want)
	}
}

// checkFlip opens the outbox and looks that one batch at most is lost, and named.
func (s *small) checkFlip(b []byte) (seen bool, err error) {
	o, f, err := s.with(b)
	if err != nil {
		return false, err
	}
	defer o.Close()
	found := map[ID]Batch{}
	for _, l := range f.Lanes {
		for _, b := range l.Batches {
			found[b.ID] = b
		}
	}
	for _, p := range s.unknown {
		if b, there := found[p.id]; !there || b.State != Unknown {
			return false, fmt.Errorf("told to be unknown, found %v as %+v", there, b)
		}
	}
	for _, p := range s.never {
		if b, there := found[p.id]; there {
			return false, fmt.Errorf("not stored, found %+v", b)
		}
	}
	back := 0
	for _, p := range s.stored {
		if _, there := found[p.id]; there {
			back++
		}
	}
	lost, err := s.lost(o, f, found)
	if err != nil {
		return false, err
	}
	if lost+back > 1 || lost+back == 1 && f.Damage == nil {
		return false, fmt.Errorf("%d lost, %d back, damage %v", lost, back, f.Damage)
	}
	return f.Damage != nil, nil
}

// lost counts the pending batches that cannot be sent, and looks that the damage names them.
func (s *small) lost(o *Outbox, f *Found, found map[ID]Batch) (n int, err error) {
	for _, p := range s.pending {
		b, there := found[p.id]
		if there && !b.Damaged {
			if b.Doubtful {
				return 0, fmt.Errorf("batch %d is in doubt", p.id)
			}
			if got, err := o.Load(nil, p.id); err != nil || !bytes.Equal(got, p.sealed) {
				return 0, fmt.Errorf("batch %d: %w, %x", p.id, err, got)
			}
			continue
		}
		n++
		if f.Damage == nil {
			return 0, errors.New("a batch is lost and nobody says so")
		}
		named := slices.ContainsFunc(f.Damage.Damages, func(d Damage) bool {
			return d.Batch != nil && d.Batch.Base == p.base && d.Batch.Last == p.last &&
				(d.Batch.Partition == p.partition || d.Batch.Partition == -1 && !there)
		})
		if !named {
			return 0, fmt.Errorf("%w does not name batch %d", f.Damage, p.id)
		}
		if there {
			if _, err := o.Load(nil, p.id); !errors.Is(err, ErrNoBody) {
				return 0, fmt.Errorf("load: %w", err)
			}
		}
	}
	return n, nil
}

// TestEveryBitOfTraces flips each bit of what is left of unknown batches that were moved.
func TestEveryBitOfTraces(t *testing.T) {
	d := newDisk()
	o, _ := openDisk(t, d)
	told, err := o.Put(1, sealed(0, 3, 100, 1))
	must(t, err)
	must(t, o.Unknown(told))
	moved := func() bool { // the first segment is gone
		names, err := d.list(testDir)
		must(t, err)
		return !strings.HasPrefix(names[0], "0000000000000001")
	}
	for base := batchfmt.Seq(0); !moved(); base++ {
		id, err := o.Put(0, sealed(base, 1, 3000, 1))
		must(t, err)
		must(t, o.Sync())
		must(t, o.Stored(id, 1))
	}
	must(t, o.Close())
	o.mu.Lock()
	h := o.mu.live[told]
	o.mu.Unlock()
	b := d.now[filepath.Join(testDir, h.seg.name)].now
	for i := h.at; i < h.at+2*entryBytes; i++ {
		for bit := range 8 {
			b[i] ^= 1 << bit
			o, f, err := Open(testDir, testBinding, testOptions(d))
			must(t, err)
			must(t, o.Close())
			if f.Damage == nil || len(f.Lanes) != 2 || len(f.Lanes[1].Batches) != 1 || f.Lanes[1].Batches[0].State != Unknown {
				t.Fatalf("byte %d, bit %d: %+v, %v", i-h.at, bit, f.Lanes, f.Damage)
			}
			b[i] ^= 1 << bit
		}
	}
}

// TestDamagedRegion looks that what stands behind damage is found, and what is in doubt
// before it says so.
func TestDamagedRegion(t *testing.T) {
	s := newSmall(t)
	b := slices.Clone(s.bytes())
	at := bytes.LastIndex(b, s.pending[1].sealed) - entryBytes
	clear(b[at : at+entryBytes+len(s.pending[1].sealed)]) // [2..3] of partition 1
	o, f, err := s.with(b)
	must(t, err)
	defer o.Close()
	if f.Damage == nil || len(f.Damage.Damages) != 1 || f.Damage.Damages[0].Loss != LossUnknown {
		t.Fatalf("damage is %v", f.Damage)
	}
	if !f.Uncertain || !f.Lanes[1].Uncertain || f.Lanes[2].Uncertain {
		t.Fatalf("uncertain: %v, %+v", f.Uncertain, f.Lanes)
	}
	one := f.Lanes[1].Batches
	if len(one) != 1 || !one[0].Doubtful || f.Lanes[2].Batches[0].Doubtful {
		t.Fatalf("batches are %+v, %+v", one, f.Lanes[2].Batches)
	}
}

// TestMissingSequences looks that a gap in a lane tells which sequences damage has taken.
func TestMissingSequences(t *testing.T) {
	d := newDisk()
	o, _, err := Open(testDir, testBinding, testOptions(d))
	must(t, err)
	for base := range batchfmt.Seq(4) {
		_, err := o.Put(5, sealed(base, 1, 50, 1))
		must(t, err)
	}
	must(t, o.Close())
	for name, f := range d.now {
		if f == nil || filepath.Ext(name) != segmentSuffix {
			continue
		}
		at := bytes.Index(f.now, sealed(1, 1, 50, 1))
		end := bytes.Index(f.now, sealed(3, 1, 50, 1)) - entryBytes
		clear(f.now[at-entryBytes : end])
	}
	o, f, err := Open(testDir, testBinding, testOptions(d))
	must(t, err)
	defer o.Close()
	want := Range{Partition: 5, First: 1, Last: 2}
	if f.Damage == nil || !slices.Equal(f.Damage.Damages[0].Missing, []Range{want}) {
		t.Fatalf("damage is %v", f.Damage)
	}
	if l := f.Lanes[0]; l.Uncertain || len(l.Batches) != 2 || l.Next != 4 {
		t.Fatalf("lane is %+v", l)
	}
}

// TestEveryLength cuts the segment at every length: what was synced and is not there is damage.
func TestEveryLength(t *testing.T) {
	s := newSmall(t)
	whole := s.bytes()
	for n := range whole {
		o, f, err := s.with(slices.Clone(whole[:n]))
		must(t, err)
		must(t, o.Close())
		if f.Damage == nil && n > firstNote+noteBytes {
			t.Fatalf("cut at %d: no damage is seen", n)
		}
	}
}

// TestDamagedBatchStays looks that a batch whose bytes are lost is named until it has an
// outcome, also when its segment was removed.
func TestDamagedBatchStays(t *testing.T) {
	d := newDisk()
	o, _, err := Open(testDir, testBinding, testOptions(d))
	must(t, err)
	id, err := o.Put(0, sealed(0, 3, 100, 1))
	must(t, err)
	must(t, o.Close())
	for name, f := range d.now {
		if f != nil && filepath.Ext(name) == segmentSuffix {
			f.now[len(f.now)-10] ^= 1
		}
	}
	for round := range 3 {
		o, f, err := Open(testDir, testBinding, testOptions(d))
		must(t, err)
		if f.Damage == nil || len(f.Lanes[0].Batches) != 1 || !f.Lanes[0].Batches[0].Damaged {
			t.Fatalf("round %d: %+v", round, f)
		}
		if b := f.Damage.Damages[0].Batch; b == nil || b.ID != id || b.Last != 2 {
			t.Fatalf("round %d: %v", round, f.Damage)
		}
		base := batchfmt.Seq(0)
		for range 60 { // so that segments go
			other, err := o.Put(1, sealed(base, 1, 5000, 1))
			must(t, err)
			must(t, o.Sync())
			must(t, o.Stored(other, 0))
			base++
		}
		must(t, o.Close())
	}
	o, _, err = Open(testDir, testBinding, testOptions(d))
	must(t, err)
	must(t, o.NotStored(id))
	must(t, o.Close())
	o, f, err := Open(testDir, testBinding, testOptions(d))
	must(t, err)
	defer o.Close()
	if f.Batches() != 0 {
		t.Fatalf("found %+v", f.Lanes)
	}
}
