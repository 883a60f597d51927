package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

const nowhere batchfmt.Offset = -1

// A place is a partition of one incarnation of a topic.
type place struct {
	topic [16]byte
	part  int32
}

// An ident is what a batch is: the same for ever, in every copy.
type ident struct {
	pid        batchfmt.ProducerID
	epoch      batchfmt.Epoch
	base, last batchfmt.Seq
	digest     batchfmt.Digest
}

func (id ident) String() string {
	return fmt.Sprintf("p%d/e%d[%d..%d]#%04x", id.pid, id.epoch, id.base, id.last, uint16(id.digest))
}

// A fact is what was said and seen of one batch or one record.
type fact struct {
	what  string
	open  int             // attempts that may still be carried out
	told  batchfmt.Offset // where somebody was told that it is
	found batchfmt.Offset // where a reader found it
	never string          // why it must not be there
}

// A track is what can be read of one lane.
type track struct {
	last    batchfmt.Seq    // of the newest batch
	end     batchfmt.Offset // of the record with that sequence
	digest  batchfmt.Digest
	epoch   batchfmt.Epoch // highest that was stored
	fence   batchfmt.Epoch // highest that a batch or a settle may have asked for
	batches []ident
	asked   int  // openings that were asked for
	given   int  // the newest one that was given
	unsure  bool // in which order they came
}

// A history is one partition.
type history struct {
	gone    bool // the topic is deleted, or about to be
	lives   int  // times that the server went down
	ids     map[batchfmt.Offset]ident
	values  map[batchfmt.Offset]string
	next    batchfmt.Offset
	facts   map[ident]*fact
	lanes   map[batchfmt.ProducerID]*track
	claims  []func() string // what was said and must show when all is read
	soon    []func() string // what was said of batches that are not durable yet, and must show when they are
	orders  map[string]int  // the last record of each sender of numbered records
	damaged bool            // the disk has lost what it had synced
}

// The reference holds what is stored and what was said. Its methods may be called from any
// goroutine.
type reference struct {
	mu     sync.Mutex
	places map[place]*history
	values map[string]*fact
	broken []string // what was found wrong
	// retired is how many lanes a partition surely remembers that have left its memory.
	retired int
	named   map[batchfmt.ProducerID]bool // these are never forgotten
}

func newReference(retired int) *reference {
	return &reference{
		places: make(map[place]*history), values: make(map[string]*fact),
		named: make(map[batchfmt.ProducerID]bool), retired: retired,
	}
}

func (r *reference) fail(format string, args ...any) {
	r.broken = append(r.broken, fmt.Sprintf(format, args...))
}

func (r *reference) at(p place) *history {
	h := r.places[p]
	if h == nil {
		h = &history{ids: make(map[batchfmt.Offset]ident), values: make(map[batchfmt.Offset]string),
			facts: make(map[ident]*fact), lanes: make(map[batchfmt.ProducerID]*track), orders: make(map[string]int)}
		r.places[p] = h
	}
	return h
}

func (h *history) lane(pid batchfmt.ProducerID) *track {
	t := h.lanes[pid]
	if t == nil {
		t = &track{last: -1, end: nowhere}
		h.lanes[pid] = t
	}
	return t
}

func (h *history) fact(id ident) *fact {
	f := h.facts[id]
	if f == nil {
		f = &fact{what: id.String(), told: nowhere, found: nowhere}
		h.facts[id] = f
	}
	return f
}

// record is the fact of a record that is known by its value.
func (r *reference) record(value string) *fact {
	f := r.values[value]
	if f == nil {
		f = &fact{what: value, told: nowhere, found: nowhere}
		r.values[value] = f
	}
	return f
}

// stored notes that somebody was told where f is.
func (r *reference) stored(f *fact, at batchfmt.Offset) {
	switch {
	case f.never != "":
		r.fail("%s is said to be at offset %d, after %s", f.what, at, f.never)
	case f.told >= 0 && f.told != at, f.found >= 0 && f.found != at:
		r.fail("%s is said to be at offset %d, before at %d, and was read at %d", f.what, at, f.told, f.found)
	}
	f.told = at
}

// absent notes that somebody was told that f is not there and never will be.
func (r *reference) absent(f *fact, why string) {
	if f.found >= 0 || f.told >= 0 {
		r.fail("%s: %s, but it is stored (told %d, read at %d)", f.what, why, f.told, f.found)
	}
	f.never = why
}

// appeared notes that a reader found f. It is there once, and somebody has asked for it.
func (r *reference) appeared(f *fact, at batchfmt.Offset) {
	switch {
	case f.found >= 0:
		r.fail("%s is stored twice, at offsets %d and %d", f.what, f.found, at)
	case f.never != "":
		r.fail("%s is at offset %d, after %s", f.what, at, f.never)
	case f.told >= 0 && f.told != at:
		r.fail("%s is at offset %d, and was said to be at %d", f.what, at, f.told)
	case f.told < 0 && f.open == 0:
		r.fail("%s is at offset %d, though every attempt to store it was refused", f.what, at)
	}
	f.found = at
}

// read takes one batch that a reader was given.
func (r *reference) read(p place, id ident, at batchfmt.Offset, values []string) {
	h := r.at(p)
	if have, ok := h.ids[at]; ok || at < h.next {
		if have != id {
			r.fail("offset %d held %v, and holds %v", at, have, id)
		}
		return
	}
	if at != h.next {
		r.fail("offset %d follows offset %d", at, h.next-1)
	}
	t := h.lane(id.pid)
	if id.base != t.last+1 || id.epoch < t.epoch || int(id.last-id.base)+1 != len(values) {
		r.fail("%v with %d records at offset %d does not follow sequence %d of epoch %d", id, len(values), at, t.last, t.epoch)
	}
	batch := h.fact(id)
	for i, v := range values {
		f := r.record(v)
		if strings.HasPrefix(v, numbered) {
			batch.open = 1 // of a batch nothing is known, but of its records
		} else {
			f.open = 1
		}
		r.appeared(f, at+batchfmt.Offset(i))
		r.seen(p, at+batchfmt.Offset(i), v)
	}
	r.appeared(batch, at)
	h.ids[at], h.next = id, at+batchfmt.Offset(len(values))
	t.last, t.end, t.digest, t.epoch = id.last, h.next-1, id.digest, id.epoch
	t.batches = append(t.batches, id)
}

// numbered begins the values of records whose order is checked: "s/sender/partition/number".
const numbered = "s/"

// seen takes one record at its offset, from whichever reader.
func (r *reference) seen(p place, at batchfmt.Offset, value string) {
	h := r.at(p)
	if have, ok := h.values[at]; ok {
		if have != value {
			r.fail("offset %d held %q, and holds %q", at, have, value)
		}
		return
	}
	h.values[at] = value
	if i := strings.LastIndexByte(value, '/'); strings.HasPrefix(value, numbered) {
		var n int
		if _, err := fmt.Sscan(value[i+1:], &n); err != nil || n <= h.orders[value[:i]] {
			r.fail("record %q at offset %d comes behind number %d", value, at, h.orders[value[:i]])
		}
		h.orders[value[:i]] = max(n, h.orders[value[:i]])
	}
}

// complete is called at a reader's end: what was said before it began, n claims, must show by now.
// It says what does not show yet of what may need a sync first.
func (r *reference) complete(p place, n int) (waits string) {
	h := r.at(p)
	for _, claim := range h.claims[:n] {
		if wrong := claim(); wrong != "" {
			r.fail("%s", wrong)
		}
	}
	h.claims = h.claims[n:]
	h.soon = slices.DeleteFunc(h.soon, func(claim func() string) bool {
		wrong := claim()
		waits = cmp.Or(waits, wrong)
		return wrong == ""
	})
	return waits
}

// restarted is called when all was read from a new server: nothing old is on its way any more.
func (r *reference) restarted() {
	for _, h := range r.places {
		for _, f := range h.facts {
			f.open = 0
		}
		for _, t := range h.lanes {
			t.asked, t.given, t.unsure = 0, 0, false
		}
	}
}

// forgettable reports whether a lane may be forgotten by now: not that of a name, if there was one.
func (r *reference) forgettable(h *history, pid batchfmt.ProducerID) bool {
	return h.damaged || len(h.lanes) > r.retired && (!r.named[pid] || h.lane(pid).last < 0)
}

// isThere claims that f can be read when all is read.
func (h *history) isThere(f *fact) {
	h.claims = append(h.claims, func() string {
		if f.found < 0 && !h.gone {
			return fmt.Sprintf("%s was said to be stored at offset %d and is not there; the end is at %d", f.what, f.told, h.next)
		}
		return ""
	})
}

// resolved holds an answer to Resolve against what is stored.
func (r *reference) resolved(p place, id ident, m *wire.Resolved) {
	h := r.at(p)
	f := h.fact(id)
	switch m.Outcome {
	case wire.ResolveStored:
		if !m.Verified && !h.damaged || m.Unreadable && !h.damaged {
			r.fail("resolved %v: stored, verified %v, unreadable %v", id, m.Verified, m.Unreadable)
		}
		if m.Verified && !m.Unreadable {
			r.stored(f, m.Offset)
			h.isThere(f)
		}
	case wire.ResolveInFlight, wire.ResolveNotYet:
		if f.found >= 0 || m.Outcome == wire.ResolveInFlight && f.open == 0 {
			r.fail("resolved %v: %v, but it is at offset %d with %d attempts open", id, m.Outcome, f.found, f.open)
		}
	case wire.ResolveNever:
		r.absent(f, "it was settled: "+m.Detail)
		if m.LastSequence < id.base && m.Epoch <= id.epoch {
			r.fail("resolved %v: never (%s), but nothing keeps it out of a lane up to %d, epoch %d", id, m.Detail, m.LastSequence, m.Epoch)
		}
	case wire.ResolveTopicGone:
		if !h.gone {
			r.fail("resolved %v: the topic is there", id)
		}
	default:
		if !r.forgettable(h, id.pid) {
			r.fail("resolved %v: %v (%s), but of %d lanes it is not one to forget, named %v, last %d",
				id, m.Outcome, m.Detail, len(h.lanes), r.named[id.pid], h.lane(id.pid).last)
		}
	}
}
