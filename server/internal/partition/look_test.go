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
		w.wantSame(crashed, stored, s.what+", and after another crash")
	}
	log, _ := historyOf(stored)
	w.retryAll(p, log, s)
	if w.r.IntN(4) == 0 {
		after := w.stored(p)
		if _, err := historyOf(after); err != nil {
			w.t.Fatalf("seed %d: %s, and the retries: %v", w.seed, s.what, err)
		}
		w.checkState(p, after, s.what+", and the retries")
		w.wantSame(s.mem.CrashClone(), after, s.what+", and a crash after the retries")
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
	shown := slices.DeleteFunc(slices.Clone(stored), batchfmt.Batch.IsControl)
	if got := w.readAll(p, s.what); !slices.EqualFunc(got, shown, sameBatch) {
		w.t.Fatalf("seed %d: %s: readers are given %d batches of %d", w.seed, s.what, len(got), len(shown))
	}
	right = true
	return p, stored
}

// wantSame expects a disk to have these batches, and the state that they make.
func (w *world) wantSame(mem *vfs.Mem, stored []batchfmt.Batch, what string) {
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
	w.checkState(p, stored, what)
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
// be; what keeps that out; and of the rest what was sent and has no answer.
func (w *world) checkLog(stored []batchfmt.Batch, s state) *history {
	w.t.Helper()
	log, err := historyOf(stored)
	if err != nil {
		w.t.Fatalf("seed %d: %s: %v", w.seed, s.what, err)
	}
	sent := map[producerstate.Identity]bool{}
	for i := range s.fates {
		f := &s.fates[i]
		offset, ok := log.at[f.id]
		sent[f.id] = true
		switch {
		case f.offset >= 0 && (!ok || offset != f.offset):
			w.t.Fatalf("seed %d: %s: %+v was said to be at %d, is at %d, there %v", w.seed, s.what, f.id, f.offset, offset, ok)
		case f.offset < 0 && ok && (f.doubt == 0 || f.never || f.barred):
			w.t.Fatalf("seed %d: %s: %+v was said not to be stored, and is at %d", w.seed, s.what, f.id, offset)
		case f.never && log.lane(f.id.PID).last < f.id.Base:
			w.t.Fatalf("seed %d: %s: %+v was said to be in conflict, and nothing is in its way", w.seed, s.what, f.id)
		case f.barred && !log.lane(f.id.PID).keepsOut(f.id):
			w.t.Fatalf("seed %d: %s: %+v was said never to be stored, and nothing keeps it out", w.seed, s.what, f.id)
		}
	}
	for id, offset := range log.at {
		if !sent[id] {
			w.t.Fatalf("seed %d: %s: %+v at %d was not sent yet", w.seed, s.what, id, offset)
		}
	}
	for pid, last := range s.ended {
		if l := log.lane(pid); l.known && l.ended < last {
			w.t.Fatalf("seed %d: %s: producer %d was done at %d or behind it, and the log says %d", w.seed, s.what, pid, last, l.ended)
		}
	}
	return log
}

// checkState compares what is known of the lanes, in memory and of those that have left it,
// with what all batches make.
func (w *world) checkState(p *Partition, stored []batchfmt.Batch, what string) {
	w.t.Helper()
	whole := producerstate.New(producerstate.Limits{MaxLanes: producerstate.MostLanes})
	for _, b := range stored {
		whole.Replay(b)
	}
	if f := p.owner.state.Forgotten(); f != 0 {
		w.t.Fatalf("seed %d: %s: nothing is lost, and ids up to %d are forgotten", w.seed, what, f)
	}
	for pid, l := range p.owner.state.All() {
		if l.Known() && !whole.Lane(pid).Known() {
			w.t.Fatalf("seed %d: %s: there is a lane of %d, and nothing of it in the log", w.seed, what, pid)
		}
	}
	for pid, want := range whole.All() {
		got := w.laneOf(p, pid, what)
		ok := got.Known() && sameLane(pid, got, want)
		if !ok && w.mayHaveForgotten(p, pid) {
			// What was forgotten may begin anew with what the log has of it behind a snapshot.
			ok = !got.Known() || got.Last() == want.Last() && got.Epoch() == want.Epoch() || w.damaged && got.Suspect()
		}
		if !ok {
			w.t.Fatalf("seed %d: %s: the lane of %d is %+v, by the log it is %+v", w.seed, what, pid, got, want)
		}
	}
}

// laneOf is a lane, wherever it is; nil if it is nowhere.
func (w *world) laneOf(p *Partition, pid batchfmt.ProducerID, what string) *producerstate.Lane {
	w.t.Helper()
	if l := p.owner.state.Lane(pid); l.Known() {
		return l
	}
	row, ok, err := p.retired.Get(pid)
	if err != nil && !w.exact {
		row, ok, err = p.retired.Get(pid) // the one fault may have struck here
	}
	if err != nil && !w.damaged {
		w.t.Fatalf("seed %d: %s: the row of %d: %v", w.seed, what, pid, err)
	}
	if !ok {
		return nil
	}
	l, err := p.owner.state.Recall(pid, producerstate.Retired{Row: row.Value, Stale: row.Stale})
	if err != nil {
		w.t.Fatalf("seed %d: %s: %v", w.seed, what, err)
	}
	return l
}

// sameLane compares all that follows from the log.
func sameLane(pid batchfmt.ProducerID, a, b *producerstate.Lane) bool {
	alone := func(l *producerstate.Lane) *producerstate.State {
		s := producerstate.New(producerstate.Limits{})
		if err := s.Restore(pid, producerstate.Retired{Row: producerstate.AppendRow(nil, l)}); err != nil {
			return producerstate.New(producerstate.Limits{})
		}
		return s
	}
	return producerstate.Equal(alone(a), alone(b))
}

// mayHaveForgotten says that the partition has dropped rows, and that one of pid may be among
// them, or that rows are damaged.
func (w *world) mayHaveForgotten(p *Partition, pid batchfmt.ProducerID) bool {
	return w.damaged || w.forgets && p.retired.MayHaveForgotten(pid)
}

// mayNotKnow says of an answer that it is right because of that.
func (w *world) mayNotKnow(p *Partition, pid batchfmt.ProducerID, code wire.Code) bool {
	return w.mayHaveForgotten(p, pid) && (code == wire.CodeUnknownProducerID || code == wire.CodeUnknownOutcome)
}

// An answer is a Sink for one result.
type answer struct {
	result wire.ProduceResult
	count  int
}

func (a *answer) Result(r wire.ProduceResult) { a.result, a.count = r, a.count+1 }

// retryAll sends everything again that was sent before the state was captured. The producers
// come one after the other, each with room for its lane.
func (w *world) retryAll(p *Partition, log *history, s state) {
	w.t.Helper()
	for _, pr := range slices.Concat(w.producers, w.past) {
		w.retryLane(p, pr, log, s)
	}
	if got := p.HighWatermark(); got != log.end {
		w.t.Fatalf("seed %d: %s: after the retries the log ends at %d, not at %d", w.seed, s.what, got, log.end)
	}
}

// retryLane sends the batches of one producer: what is stored is there already, what is not is
// appended once if it is its turn and nothing keeps it out. log is moved with it.
func (w *world) retryLane(p *Partition, pr *producer, log *history, s state) {
	w.t.Helper()
	lane, known := w.openFor(p, pr, log, s)
	if known && !w.mayHaveForgotten(p, pr.id) {
		w.checkWindow(p, pr.id, lane, log, s.what)
	}
	if !known {
		lane = w.openBlank(p, pr, s)
	}
	var sent []*fate
	for _, i := range slices.Concat(pr.line, pr.others, pr.dead) {
		if i < len(s.fates) {
			sent = append(sent, &s.fates[i])
		}
	}
	if w.r.IntN(3) == 0 {
		w.askAll(p, sent, log, s.what)
	}
	answers := make([]*answer, len(sent))
	for n, f := range sent {
		answers[n] = w.retry(p, lane, f)
	}
	synctest.Wait()
	for n, f := range sent {
		w.judge(p, f, answers[n], known, log, s.what)
	}
	quiet := false
	p.CloseLane(lane, func() { quiet = true })
	synctest.Wait()
	if !quiet {
		w.t.Fatalf("seed %d: %s: the lane of %d does not come to a rest", w.seed, s.what, pr.id)
	}
}

// judge compares the answer to a retry with what the log says.
func (w *world) judge(p *Partition, f *fate, a *answer, known bool, log *history, what string) {
	w.t.Helper()
	want, r := log.judge(f.id), a.result
	offset, was := log.at[f.id]
	fail := func(why string) {
		w.t.Fatalf("seed %d: %s: the retry of %+v, stored %v at %d, got %d answers, the last is %+v: %s", w.seed, what, f.id, was, offset, a.count, r, why)
	}
	switch {
	case a.count != 1:
		fail("want one answer")
	case known && w.mayNotKnow(p, f.id.PID, r.Code):
		return
	case !known && want != wantAgain && want != wantConflict:
		if r.Code != wire.CodeUnknownProducerID {
			fail("the lane was forgotten, and who knows whether this is new")
		}
		return
	case want.differs(r) != "":
		fail(want.differs(r))
	case want == wantAgain && r.BaseOffset != offset:
		fail("that is another place")
	case want != wantNew:
		return
	case f.never || f.barred:
		fail("it was said never to be stored")
	case r.BaseOffset != log.end:
		fail("that is not the end of the log")
	}
	log.at[f.id] = r.BaseOffset
	if log.lanes[f.id.PID] == nil {
		log.lanes[f.id.PID] = newTrack()
	}
	l := log.lanes[f.id.PID]
	l.known = true
	l.push(f.id, r.BaseOffset)
	log.end = l.offset + 1
}

// askAll asks what became of each batch. To ask changes nothing.
func (w *world) askAll(p *Partition, sent []*fate, log *history, what string) {
	w.t.Helper()
	for _, f := range sent {
		var m *wire.Resolved
		var e *wire.Error
		p.Resolve(ResolveRequest{Batch: f.id, Reply: func(resolved *wire.Resolved, refused *wire.Error) { m, e = resolved, refused }})
		synctest.Wait()
		want, offset := log.fateOf(f.id)
		switch {
		case e == nil && m != nil && m.Outcome == want && m.Offset == offset:
		case e == nil && m != nil && m.Outcome == wire.ResolveUnknowable && w.mayHaveForgotten(p, f.id.PID) &&
			(want != wire.ResolveStored || w.laneOf(p, f.id.PID, what).Known()): // else the log would have told
		default:
			w.t.Fatalf("seed %d: %s: what became of %+v is answered with %+v, %v; want %v at %d", w.seed, what, f.id, m, e, want, offset)
		}
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

// openFor opens the lane of a producer and expects to be told where it is; known is false if
// it was forgotten.
func (w *world) openFor(p *Partition, pr *producer, log *history, s state) (lane *Opening, known bool) {
	w.t.Helper()
	var opened *wire.LaneOpened
	var refused *wire.Error
	lane = p.OpenLane(OpenRequest{Grant: pr.grant, Epoch: pr.grant.Current(), Fresh: true, Reply: func(m *wire.LaneOpened, e *wire.Error) { opened, refused = m, e }})
	synctest.Wait()
	want := log.lane(pr.id)
	switch {
	case refused != nil && w.mayNotKnow(p, pr.id, refused.Code):
		return lane, false
	case refused == nil && opened != nil && w.damaged && p.owner.state.Lane(pr.id).Suspect():
		return lane, true // it may have gone on
	case refused != nil || opened == nil || opened.LastSequence != want.last:
	case opened.LastOffset == want.offset, opened.LastOffset < 0 && w.mayHaveForgotten(p, pr.id):
		return lane, true
	}
	w.t.Fatalf("seed %d: %s: lane %d opens with %+v, %v, want %d at %d", w.seed, s.what, pr.id, opened, refused, want.last, want.offset)
	return nil, false
}

// openBlank opens a lane that was forgotten, for a producer that says it has sent nothing. It
// is told of what the log has, and nothing new of it is taken.
func (w *world) openBlank(p *Partition, pr *producer, s state) *Opening {
	w.t.Helper()
	var opened *wire.LaneOpened
	var refused *wire.Error
	lane := p.OpenLane(OpenRequest{Grant: pr.grant, Epoch: pr.grant.Current(), Reply: func(m *wire.LaneOpened, e *wire.Error) { opened, refused = m, e }})
	synctest.Wait()
	if refused != nil || opened == nil || opened.LastSequence >= 0 {
		w.t.Fatalf("seed %d: %s: the forgotten lane %d opens with %+v, %v", w.seed, s.what, pr.id, opened, refused)
	}
	return lane
}

// checkWindow expects the last five batches of a lane to be known without a look-up, and
// the one before them by one.
func (w *world) checkWindow(p *Partition, pid batchfmt.ProducerID, lane *Opening, log *history, what string) {
	w.t.Helper()
	batches := log.lane(pid).batches
	for i := range min(len(batches), producerstate.WindowSize+1) {
		id := batches[len(batches)-1-i]
		want := producerstate.Verdict{Kind: producerstate.Duplicate, Row: 5, Offset: log.at[id]}
		if i == producerstate.WindowSize {
			want = producerstate.Verdict{Kind: producerstate.LookUp, Row: 7, Offset: producerstate.UnknownOffset}
		}
		v := producerstate.Decide(lane.right(), p.owner.state.Lane(pid), id, p.evidence(pid, producerstate.Finding{}))
		if v.Kind != want.Kind || v.Row != want.Row || v.Offset != want.Offset {
			w.t.Fatalf("seed %d: %s: batch %d from the end of lane %d: %v, row %d; want %v", w.seed, what, i, pid, v, v.Row, want)
		}
	}
}
