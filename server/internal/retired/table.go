package retired

import (
	"sync"
	"sync/atomic"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/sorttable"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// DefaultMaxRows is the limit of a table whose options name none.
const DefaultMaxRows = 1_000_000

// MaxValueBytes bounds the value of a row.
const MaxValueBytes = sorttable.MaxValueBytes

// Options are those of one table. The zero value is usable.
type Options struct {
	// MaxRows is how many rows that are not named are kept before the oldest are dropped; 0
	// means DefaultMaxRows. More cost disk, up to about 300 bytes each, and 15 bits each of
	// memory; fewer make producers forgotten sooner. When it is exceeded an eighth goes at
	// once. A row that a newer one makes void counts until a merge leaves it out.
	MaxRows int
	// Issued is the highest producer id that was ever handed out: none above it can have been
	// retired here. It is used when damage hides which rows were lost. 0 means that it is not
	// known: then such damage forgets every id there can ever be.
	Issued batchfmt.ProducerID
	// AtLeast is the generation that the caller knows the table to have had. A lower one is
	// damage. 0 is any.
	AtLeast uint64
	// Named reports whether the name of a producer still exists, whose row was put as named.
	// Merges ask it, in the writer's goroutine. While it says yes the row is not dropped;
	// once it said no the row is like any other. nil is always yes.
	Named func(batchfmt.ProducerID) bool
	// OnDamage is told what a merge could not read and went around, in the writer's
	// goroutine, before ForgottenUpTo covers it. It may be nil.
	OnDamage func(error)
}

func (o Options) withDefaults() Options {
	if o.MaxRows <= 0 {
		o.MaxRows = DefaultMaxRows
	}
	if o.Named == nil {
		o.Named = func(batchfmt.ProducerID) bool { return true }
	}
	if o.OnDamage == nil {
		o.OnDamage = func(error) {}
	}
	return o
}

// Row is what is kept of one producer.
type Row struct {
	PID   batchfmt.ProducerID // never 0
	Named bool                // not dropped while the name exists, see Options.Named
	Value []byte              // at most MaxValueBytes
	// Stale says that this may not be the last row of the producer, because a newer one may
	// have been lost: what it says happened, but more may have. Put does not look at it.
	Stale bool
}

// Table is an open retired table. Get and what only tells something is for any goroutine at
// any time; Put, Maintain and Close are for one writer and wait for each other.
type Table struct {
	fs   vfs.FS
	dir  string
	opts Options
	view atomic.Pointer[view] // what readers see; never nil

	writer struct {
		sync.Mutex
		number   uint64    // the last one used for a run or a head
		headless bool      // there is no head yet
		changed  bool      // the view knows of losses that the head does not
		failedAt int       // runs there were when upkeep failed; 0: it did not
		garbage  []garbage // what no head lists any more
		vouched  batchfmt.Offset
	}
}

// view is one state of the table. It never changes.
type view struct {
	head   head
	runs   []*run // as head.runs
	closed bool
}

// garbage is a file that goes when no durable head can list it.
type garbage struct {
	base string
	bad  bool // it is kept under another name
}

// Get returns the row of pid that was put last. If there is none, MayHaveForgotten, asked
// after Get, says whether there may have been. The error is ErrDamaged if that cannot be said
// any more, ErrClosed, or what the disk said. It reads one block for a row that is there and
// seldom any for one that is not.
func (t *Table) Get(pid batchfmt.ProducerID) (Row, bool, error) {
	v := t.view.Load()
	for {
		row, ok, err := v.get(pid)
		now := t.view.Load()
		if err == nil {
			return row, ok, nil
		}
		if now == v {
			if isDamage(err) {
				err = damaged(err)
			}
			return Row{}, false, err
		}
		v = now // a merge has taken the files away below the look-up
	}
}

// MayHave reports false if Get would surely find nothing, and reads no file for it. It says
// true of about one in a hundred that are not there, and of all when the table is closed.
func (t *Table) MayHave(pid batchfmt.ProducerID) bool {
	v := t.view.Load()
	if v.closed {
		return true
	}
	for _, r := range v.runs {
		if r.table.MayHave(uint64(pid)) {
			return true
		}
	}
	return false
}

func (v *view) get(pid batchfmt.ProducerID) (Row, bool, error) {
	if v.closed {
		return Row{}, false, ErrClosed
	}
	for i := len(v.runs) - 1; i >= 0; i-- {
		row, ok, err := v.runs[i].find(pid)
		if err != nil {
			return Row{}, false, err
		}
		if ok {
			return Row{
				PID: pid, Named: row.Key.B&1 != 0, Value: row.Value,
				Stale: v.head.stale.covers(pid, row.Key.B>>1),
			}, true, nil
		}
	}
	return Row{}, false, nil
}

// ForgottenUpTo is the highest producer id, the space of the gateway aside, of which a row
// was dropped or lost; 0 if none was. It never falls.
func (t *Table) ForgottenUpTo() batchfmt.ProducerID { return t.view.Load().head.forgotten }

// MayHaveForgotten reports whether pid, for which Get found nothing before, may have had a
// row.
func (t *Table) MayHaveForgotten(pid batchfmt.ProducerID) bool {
	return plain(pid) <= t.ForgottenUpTo()
}

// Generation rises with each change; see Options.AtLeast.
func (t *Table) Generation() uint64 { return t.view.Load().head.generation }

// Stats are numbers for people.
type Stats struct {
	Rows   int64 // those that a newer one makes void included
	Named  int64 // of them, as far as is known
	Runs   int
	Bytes  int64 // on disk
	Memory int64 // bytes
}

// Stats counts what there is. It reads nothing.
func (t *Table) Stats() Stats {
	v := t.view.Load()
	s := Stats{Runs: len(v.runs)}
	for _, r := range v.runs {
		s.Rows += int64(r.rows)
		s.Named += int64(r.named)
		s.Bytes += int64(r.bytes)
		s.Memory += r.table.Bytes()
	}
	return s
}

// Close waits for look-ups on their way and makes everything later fail with ErrClosed. A
// second Close does nothing.
func (t *Table) Close() error {
	t.writer.Lock()
	defer t.writer.Unlock()
	v := t.view.Load()
	if v.closed {
		return nil
	}
	t.view.Store(&view{head: v.head, closed: true})
	return closeRuns(v.runs)
}
