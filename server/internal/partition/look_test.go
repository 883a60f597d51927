package partition

import (
	"bytes"
	"slices"
	"testing/synctest"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/seglog"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// look opens a disk and expects all that was told to be true, the state of the producers to
// be what the whole log says, and every batch that was ever sent to get the right verdict.
// It is the same after another crash, also when all retries are stored.
func (w *world) look(s state) {
	w.t.Helper()
	w.states++
	p, stored := w.lookAt(s)
	defer p.Abandon()
	for _, crashed := range []*vfs.Mem{s.mem.CrashClone(), s.mem.CrashCloneRandom(w.r)} {
		w.wantSame(crashed, stored, p.owner.state, s.what+", and after another crash")
	}
	w.retryAll(p, stored, s)
	if w.r.IntN(4) == 0 {
		after := w.stored(p)
		w.wantSame(s.mem.CrashClone(), after, p.owner.state, s.what+", and a crash after the retries")
	}
}

// lookAt opens a disk and compares log and state with what is known.
func (w *world) lookAt(s state) (*Partition, []batchfmt.Batch) {
	w.t.Helper()
	p, err := Open(w.config(s.mem))
	if err != nil {
		w.t.Fatalf("seed %d: %s: %v", w.seed, s.what, err)
	}
	right := false
	defer func() {
		if !right {
			p.Abandon()
		}
	}()
	synctest.Wait()
	stored := w.stored(p)
	w.checkLog(stored, s)
	w.checkState(p, stored, s.what)
	if got := w.readAll(p, s.what); !slices.EqualFunc(got, stored, sameBatch) {
		w.t.Fatalf("seed %d: %s: readers are given %d batches of %d", w.seed, s.what, len(got), len(stored))
	}
	right = true
	return p, stored
}

func (w *world) wantSame(mem *vfs.Mem, stored []batchfmt.Batch, as *producerstate.State, what string) {
	w.t.Helper()
	p, err := Open(w.config(mem))
	if err != nil {
		w.t.Fatalf("seed %d: %s: %v", w.seed, what, err)
	}
	defer p.Abandon()
	synctest.Wait()
	if got := w.stored(p); !slices.EqualFunc(got, stored, sameBatch) {
		w.t.Fatalf("seed %d: %s: there are %d batches, %d before", w.seed, what, len(got), len(stored))
	}
	if !producerstate.Equal(p.owner.state, as) {
		w.t.Fatalf("seed %d: %s: the state is another one", w.seed, what)
	}
}

func sameBatch(a, b batchfmt.Batch) bool { return bytes.Equal(a.Bytes(), b.Bytes()) }

// stored is everything in the log. These disks keep what was synced, so it is whole.
func (w *world) stored(p *Partition) []batchfmt.Batch {
	w.t.Helper()
	var all []batchfmt.Batch
	read := func() error {
		all = nil
		return p.log.Replay(p.log.Start(), func(b batchfmt.Batch) error {
			c, err := batchfmt.Parse(bytes.Clone(b.Bytes()))
			all = append(all, c)
			return err
		}, func(d seglog.DamagedRange) error {
			w.t.Fatalf("seed %d: damage: %+v", w.seed, d)
			return nil
		})
	}
	err := read()
	if err != nil && !w.exact {
		err = read() // the one fault may have struck here
	}
	must(w.t, err)
	return all
}

// readAll reads as a consumer does.
func (w *world) readAll(p *Partition, what string) []batchfmt.Batch {
	w.t.Helper()
	var all []batchfmt.Batch
	end := p.HighWatermark()
	for from := batchfmt.Offset(0); from < end; {
		raw, next, e := p.Read(nil, from, 700)
		if e != nil || next <= from {
			w.t.Fatalf("seed %d: %s: read from %d to %d: %v", w.seed, what, from, next, e)
		}
		for len(raw) > 0 {
			b, err := batchfmt.Parse(raw)
			must(w.t, err)
			must(w.t, b.Verify())
			all = append(all, b)
			raw = raw[b.Size():]
		}
		from = next
	}
	return all
}

func (w *world) fateOf(b batchfmt.Batch) *fate {
	id := producerstate.IdentityOf(b)
	for i := range w.mu.fates {
		if w.mu.fates[i].id == id {
			return &w.mu.fates[i]
		}
	}
	w.t.Fatalf("seed %d: nobody has sent the batch at offset %d", w.seed, b.BaseOffset())
	return nil
}

// checkLog expects in the log what was said to be there, once; nothing that was said not to
// be; and of the rest what was sent and has no answer.
func (w *world) checkLog(stored []batchfmt.Batch, s state) {
	w.t.Helper()
	at := map[producerstate.Identity]batchfmt.Offset{}
	last := map[batchfmt.ProducerID]batchfmt.Seq{}
	end := batchfmt.Offset(0)
	for _, b := range stored {
		id := producerstate.IdentityOf(b)
		before, ok := last[id.PID]
		if !ok {
			before = -1
		}
		if b.BaseOffset() != end || id.Base != before+1 {
			w.t.Fatalf("seed %d: %s: %+v stands at %d, behind offset %d and sequence %d", w.seed, s.what, id, b.BaseOffset(), end, before)
		}
		at[id], last[id.PID], end = end, id.Last, b.NextOffset()
	}
	for i := range s.fates {
		f := &s.fates[i]
		offset, ok := at[f.id]
		delete(at, f.id)
		switch {
		case f.offset >= 0 && (!ok || offset != f.offset):
			w.t.Fatalf("seed %d: %s: %+v was said to be at %d, is at %d, there %v", w.seed, s.what, f.id, f.offset, offset, ok)
		case f.offset < 0 && ok && (f.doubt == 0 || f.never):
			w.t.Fatalf("seed %d: %s: %+v was said not to be stored, and is at %d", w.seed, s.what, f.id, offset)
		case f.never && !slices.ContainsFunc(stored, func(b batchfmt.Batch) bool { return inTheWay(b, f.id) }):
			w.t.Fatalf("seed %d: %s: %+v was said to be in conflict, and nothing is in its way", w.seed, s.what, f.id)
		}
	}
	for id := range at {
		w.t.Fatalf("seed %d: %s: %+v was not sent yet", w.seed, s.what, id)
	}
}

func inTheWay(b batchfmt.Batch, id producerstate.Identity) bool {
	return b.ProducerID() == id.PID && b.BaseSequence() <= id.Last && id.Base <= b.LastSequence()
}

// checkState compares the state with one that is made from all batches.
func (w *world) checkState(p *Partition, stored []batchfmt.Batch, what string) {
	w.t.Helper()
	whole := producerstate.New(producerstate.Limits{})
	for _, b := range stored {
		whole.Replay(b)
	}
	if !producerstate.Equal(p.owner.state, whole) {
		w.t.Fatalf("seed %d: %s: the state is not that of the log", w.seed, what)
	}
}

// An answer is a Sink for one result.
type answer struct {
	result wire.ProduceResult
	count  int
}

func (a *answer) Result(r wire.ProduceResult) { a.result, a.count = r, a.count+1 }

// retryAll sends everything again that was sent before the state was captured, in order:
// what is stored is there already, what is not is appended once, and what touches either
// is a conflict.
func (w *world) retryAll(p *Partition, stored []batchfmt.Batch, s state) {
	w.t.Helper()
	at := map[producerstate.Identity]batchfmt.Offset{}
	for _, b := range stored {
		at[producerstate.IdentityOf(b)] = b.BaseOffset()
	}
	end := p.HighWatermark()
	line, others := make([]*answer, len(s.fates)), make([]*answer, len(s.fates))
	for _, pr := range w.producers {
		lane := w.openFor(p, pr, at, s)
		w.checkWindow(p, pr, lane, at, s.what)
		for _, i := range pr.line {
			if i < len(s.fates) {
				line[i] = w.retry(p, lane, &s.fates[i])
			}
		}
		for _, i := range pr.others {
			if i < len(s.fates) {
				others[i] = w.retry(p, lane, &s.fates[i])
			}
		}
	}
	synctest.Wait()
	appended := batchfmt.Offset(0)
	for i := range s.fates {
		f := &s.fates[i]
		ok := true
		a := line[i]
		offset, was := at[f.id]
		switch {
		case a == nil:
			a = others[i]
			ok = a.result.Code == wire.CodeSequenceConflict
		case was:
			ok = a.result.Code == wire.CodeOK && a.result.Duplicate && a.result.Verified && a.result.BaseOffset == offset
		default:
			appended += batchfmt.Offset(f.id.Last-f.id.Base) + 1
			ok = a.result.Code == wire.CodeOK && !a.result.Duplicate && a.result.BaseOffset >= end
		}
		if !ok || a.count != 1 {
			w.t.Fatalf("seed %d: %s: the retry of %+v, stored %v at %d, got %d answers: %+v", w.seed, s.what, f.id, was, offset, a.count, a.result)
		}
	}
	if got := p.HighWatermark(); got != end+appended {
		w.t.Fatalf("seed %d: %s: the retries moved the end from %d to %d, want %d", w.seed, s.what, end, got, end+appended)
	}
}

func (w *world) retry(p *Partition, lane *Opening, f *fate) *answer {
	w.t.Helper()
	b, err := batchfmt.Parse(bytes.Clone(f.sealed))
	must(w.t, err)
	a := new(answer)
	if e := p.Produce(Produce{Opening: lane, Batch: b, Sink: a, Confirmed: -1}); e != nil {
		w.t.Fatalf("seed %d: retry: %v", w.seed, e)
	}
	return a
}

// openFor opens the lane of a producer and expects to be told where it is.
func (w *world) openFor(p *Partition, pr *producer, at map[producerstate.Identity]batchfmt.Offset, s state) *Opening {
	w.t.Helper()
	want, offset := batchfmt.Seq(-1), batchfmt.Offset(-1)
	for i := range s.fates {
		id := s.fates[i].id
		if base, ok := at[id]; ok && id.PID == pr.id && id.Last > want {
			want, offset = id.Last, base+batchfmt.Offset(id.Last-id.Base)
		}
	}
	var opened *wire.LaneOpened
	var refused *wire.Error
	lane := p.OpenLane(OpenRequest{Grant: pr.grant, Fresh: true, Reply: func(m *wire.LaneOpened, e *wire.Error) { opened, refused = m, e }})
	synctest.Wait()
	if refused != nil || opened.LastSequence != want || opened.LastOffset != offset {
		w.t.Fatalf("seed %d: %s: lane %d opens with %+v, %v, want %d at %d", w.seed, s.what, pr.id, opened, refused, want, offset)
	}
	return lane
}

// checkWindow expects the last five batches of a lane to be known without a look-up, and
// the one before them by one.
func (w *world) checkWindow(p *Partition, pr *producer, lane *Opening, at map[producerstate.Identity]batchfmt.Offset, what string) {
	w.t.Helper()
	n := len(pr.line)
	for n > 0 {
		if _, ok := at[w.mu.fates[pr.line[n-1]].id]; ok {
			break
		}
		n--
	}
	for i := range min(n, producerstate.WindowSize+1) {
		id := w.mu.fates[pr.line[n-1-i]].id
		want := producerstate.Verdict{Kind: producerstate.Duplicate, Row: 5, Offset: at[id]}
		if i == producerstate.WindowSize {
			want = producerstate.Verdict{Kind: producerstate.LookUp, Row: 7, Offset: producerstate.UnknownOffset}
		}
		v := producerstate.Decide(lane.right(), p.owner.state.Lane(pr.id), id, p.evidence(pr.id, producerstate.Finding{}))
		if v.Kind != want.Kind || v.Row != want.Row || v.Offset != want.Offset {
			w.t.Fatalf("seed %d: %s: batch %d from the end of lane %d: %v, row %d; want %v", w.seed, what, i, pr.id, v, v.Row, want)
		}
	}
}
