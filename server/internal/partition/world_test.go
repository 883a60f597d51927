package partition

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/counters"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/seglog"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// A world is a partition on a disk that can do anything, the producers that write to it,
// and what they have been told. It lives in a synctest bubble: where the goroutines of the
// partition have come to a rest is known without waiting for a time.
type world struct {
	t         *testing.T
	r         *rand.Rand
	seed      uint64
	cfg       Config
	disk      *vfs.Faulty
	p         *Partition // nil before the first start and after one that failed
	producers []*producer
	past      []*producer // whose lanes were forgotten
	plain     *Opening
	busy      map[batchfmt.ProducerID]bool // lanes that may not be able to leave memory now
	uptime    atomic.Int64                 // what the partition takes for the time since its start
	exact     bool                         // no fault strikes: every answer is known beforehand
	forgets   bool                         // few lanes are remembered that have left memory
	damaged   bool                         // rows of lanes that have left memory are not what was written
	states    int                          // disks looked at

	mu struct { // taken by the partition's goroutines too, never over anything that blocks
		sync.Mutex
		mem      *vfs.Mem
		calls    map[vfs.Op]int    // of the disk; "" is all
		codes    map[wire.Code]int // answers
		fates    []fate
		ended    map[batchfmt.ProducerID]batchfmt.Seq // who was said to be done, and what was stored by then
		over     map[*Opening]bool                    // whose streams have ended
		did      map[string]int                       // what was told that not every workload comes to
		wrong    []string                             // what the partition did and must not do
		captured []state
		watched  bool // capture in front of every call
		process  int  // answers of earlier processes are not heard
		asked    int  // of batches and of lanes
		answered int
		dead     bool // the process is being killed
		dieIn    int  // so many calls later, if positive
		hold     func(op vfs.Op, name string) <-chan struct{}
		held     []chan struct{} // what calls have been waiting for, or still do
	}
}

// A fate is a batch and what is known of it.
type fate struct {
	id     producerstate.Identity
	sealed []byte
	offset batchfmt.Offset // where it was said to stand; -1 if that was not said
	doubt  int             // attempts without an answer, or with one that leaves it open
	never  bool            // it was said that another batch stands in its place for ever
	barred bool            // it was said that it is not stored and never will be
}

// A producer writes the batches of its line, in order, and others that touch them.
type producer struct {
	id      batchfmt.ProducerID
	grant   *Grant
	line    []int          // fates; sealed when they are needed
	others  []int          // batches that touch what the line holds
	dead    []int          // batches that were of the line before something was settled
	next    int            // of line, the first that is not appended, if all goes well
	told    int            // of line, how many are known to be stored
	fence   batchfmt.Epoch // what is sealed below it was said to be kept out
	lane    *Opening
	old     *Opening // the one before
	left    *Opening // one whose stream has ended
	here    bool     // the lane takes batches, or will when it is their turn
	comes   bool     // its lane is being opened, and may have to wait for room
	leaves  bool     // its stream ends among the orders that are under way
	refused bool     // the newest opening was
	lost    bool     // the partition knows nothing of it any more
}

// A state is a disk as a power cut leaves it, with what was known when it struck.
type state struct {
	mem   *vfs.Mem
	fates []fate
	ended map[batchfmt.ProducerID]batchfmt.Seq
	what  string
}

// The lanes that fit into memory, and the rows of others that are kept, are so few that lanes
// leave and come back all the time. In one world of four there is room for all, and in some
// there are not even rows for all.
func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 29)), exact: true}
	limit := new(atomic.Int64)
	limit.Store(batchfmt.DefaultTopicBatchBytes)
	w.cfg = Config{
		Topic: "t", Dir: dir, MaxBatchBytes: limit, Now: time.Now,
		Log: seglog.Config{
			SegmentBytes: []int64{1500, 6000, 40_000}[seed%3], IndexEvery: 500, MaxOpenFiles: 2,
			FillBytes: []int64{-1, 1000}[seed/6%2],
		},
		NextTerm:       func(after batchfmt.Term) (batchfmt.Term, error) { return after + 1, nil },
		LastProducerID: func() (batchfmt.ProducerID, error) { return 1000, nil },
		SnapshotBytes:  [][]int{{1200, 300, 600}, {300, 1200, 4000}}[seed/3%2][seed%3],
		Producers:      producerstate.Limits{MaxLanes: []int{4, 3, 3, 0}[seed%4]},
		IdleAfter:      time.Hour,
		Uptime:         func() time.Duration { return time.Duration(w.uptime.Load()) },
		Counters:       new(counters.Set),
		Logger:         slog.New(&alarm{Handler: slog.DiscardHandler, w: w}),
	}
	producers := 2 + w.r.IntN(3)
	if !w.roomy() {
		producers = 8 + w.r.IntN(3)
		if seed%5 == 4 {
			w.forgets, w.cfg.MaxRetired = true, 3
		}
	}
	for range producers {
		w.newcomer()
	}
	w.mu.ended, w.mu.over = map[batchfmt.ProducerID]batchfmt.Seq{}, map[*Opening]bool{}
	w.mu.did = map[string]int{}
	w.begin()
	w.insert(vfs.NewMem())
	return w
}

// roomy says that no lane has to leave memory for another one.
func (w *world) roomy() bool { return w.cfg.Producers.MaxLanes == 0 }

func (w *world) newcomer() {
	id := batchfmt.ProducerID(7 + len(w.producers) + len(w.past))
	w.producers = append(w.producers, &producer{id: id, grant: NewGrant(id, 0)})
}

// An alarm hears what the partition has to say of the retired table, which these disks keep.
type alarm struct {
	slog.Handler
	w *world
}

func (a *alarm) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

func (a *alarm) Handle(_ context.Context, r slog.Record) error {
	if a.w.exact && !a.w.damaged && strings.Contains(r.Message, "retired producer") {
		a.w.mu.Lock()
		defer a.w.mu.Unlock()
		a.w.mu.wrong = append(a.w.mu.wrong, r.Message)
	}
	return nil
}

// insert makes a disk the one that the next process works on.
func (w *world) insert(mem *vfs.Mem) {
	w.mu.mem, w.mu.calls, w.mu.codes = mem, map[vfs.Op]int{}, map[wire.Code]int{}
	w.disk = vfs.NewFaulty(mem)
	w.disk.Observe(w.observe)
}

// changes reports whether a call can make a difference to what a power cut leaves.
func changes(op vfs.Op) bool {
	switch op {
	case vfs.OpRead, vfs.OpSize, vfs.OpStat, vfs.OpList, vfs.OpOpen, vfs.OpClose:
		return false
	}
	return true
}

// observe stands in front of every call that the partition makes, in its goroutines.
func (w *world) observe(op vfs.Op, name string) {
	w.mu.Lock()
	w.mu.calls[op]++
	w.mu.calls[""]++
	if changes(op) {
		if w.mu.watched && !w.mu.dead {
			w.capture(fmt.Sprint(op, " ", filepath.Base(name)))
		}
		if w.mu.dieIn > 0 {
			w.mu.dieIn--
			w.mu.dead = w.mu.dieIn == 0
		}
	}
	dead := w.mu.dead
	var release <-chan struct{}
	if !dead && w.mu.hold != nil {
		release = w.mu.hold(op, name)
	}
	w.mu.Unlock()
	if release != nil {
		<-release
	}
	if dead && op != vfs.OpClose { // a call of a process that is not there any more
		runtime.Goexit()
	}
}

// capture keeps two of the disks that a power cut could leave now; mu is held.
func (w *world) capture(what string) {
	n := len(w.mu.captured)
	facts := append([]fate(nil), w.mu.fates...)
	ended := maps.Clone(w.mu.ended)
	some := rand.New(rand.NewPCG(w.seed, uint64(w.states+n)))
	w.mu.captured = append(w.mu.captured,
		state{w.mu.mem.CrashClone(), facts, ended, "nothing unsynced is kept, before " + what},
		state{w.mu.mem.CrashCloneRandom(some), facts, ended, "some of what is unsynced is kept, before " + what})
}

// rest waits until nothing moves any more, and looks at all that was captured meanwhile.
func (w *world) rest() {
	w.t.Helper()
	synctest.Wait()
	w.hear()
	w.mu.Lock()
	captured := w.mu.captured
	w.mu.captured = nil
	w.mu.Unlock()
	for _, s := range captured {
		w.look(s)
	}
	w.hear()
}

// hear fails if the partition did what it must not do.
func (w *world) hear() {
	w.t.Helper()
	w.mu.Lock()
	wrong := w.mu.wrong
	w.mu.wrong = nil
	w.mu.Unlock()
	if len(wrong) > 0 {
		w.t.Fatalf("seed %d: %s", w.seed, strings.Join(wrong, "\n"))
	}
}

// start opens the partition, as the process that is started next does. The error is why it
// could not; killed says that the process was killed while it was at it.
func (w *world) start() (err error, killed bool) {
	w.t.Helper()
	w.mu.Lock()
	w.mu.process++
	w.mu.dead, w.mu.asked, w.mu.answered = false, 0, 0
	w.mu.Unlock()
	w.p, killed = nil, true
	go func() { // ends with Open; rest waits for it
		w.p, err = Open(w.config(w.disk))
		killed = false
	}()
	w.rest()
	w.mu.Lock()
	w.mu.dieIn = 0
	w.mu.Unlock()
	if w.p != nil {
		w.learn()
	}
	return err, killed
}

func (w *world) mustStart() {
	w.t.Helper()
	if err, killed := w.start(); err != nil || killed {
		w.t.Fatalf("seed %d: start: %v, killed %v", w.seed, err, killed)
	}
}

func (w *world) config(fs vfs.FS) Config {
	c := w.cfg
	c.FS = fs
	return c
}

// learn checks what the partition holds after its start against what is known, and takes
// it for known: all doubts are over.
func (w *world) learn() {
	w.t.Helper()
	stored := w.stored(w.p)
	log := w.checkLog(stored, state{fates: w.mu.fates, ended: w.mu.ended, what: "at a start"})
	for i := range w.mu.fates {
		f := &w.mu.fates[i]
		f.doubt = 0
		if offset, ok := log.at[f.id]; ok {
			f.offset = offset
		}
	}
	for _, pr := range w.producers {
		pr.lane, pr.old, pr.left = nil, nil, nil
		pr.fence = max(pr.fence, log.lane(pr.id).epoch)
	}
	w.plain, _ = w.p.OpenPlain()
	w.begin()
}

// begin takes stock when nothing is under way: of the lanes that are held, and of what is
// still to be sent.
func (w *world) begin() {
	w.busy = map[batchfmt.ProducerID]bool{}
	for i := 0; i < len(w.producers); i++ {
		pr := w.producers[i]
		if pr.refused {
			w.giveBack(pr.old) // it may still hold the lane
			w.giveBack(pr.lane)
			pr.lane, pr.old, pr.refused = nil, nil, false
		}
		pr.here, pr.comes, pr.leaves = pr.lane != nil, false, false
		if pr.here {
			w.busy[pr.id] = true
		}
		pr.grant.Raise(pr.fence) // without that nothing new of it would be taken
		w.sortOut(pr)
		w.count(pr)
		pr.told = pr.next
		if pr.lost && !pr.here {
			w.past = append(w.past, pr)
			w.producers = slices.Delete(w.producers, i, i+1)
			w.newcomer()
			i--
		}
	}
}

// giveBack ends the stream of an opening that is not the newest, or was refused.
func (w *world) giveBack(o *Opening) {
	if o == nil || w.p == nil {
		return // a new process knows nothing of it
	}
	w.mu.Lock()
	w.mu.over[o] = true
	w.mu.Unlock()
	w.p.CloseLane(o, func() {})
}

// sortOut makes the line of what is stored and what may follow it.
func (w *world) sortOut(pr *producer) {
	fates := w.mu.fates
	isStored := func(f int) bool { return fates[f].offset >= 0 }
	all := slices.Concat(pr.line, pr.dead)
	waiting := slices.Clone(pr.line)
	pr.line, pr.dead = nil, nil
	for _, f := range all {
		if isStored(f) {
			pr.line = append(pr.line, f)
		}
	}
	slices.SortFunc(pr.line, func(a, b int) int { return cmp.Compare(fates[a].id.Base, fates[b].id.Base) })
	next := batchfmt.Seq(0)
	if n := len(pr.line); n > 0 {
		next = fates[pr.line[n-1]].id.Last + 1
	}
	for i, f := range all {
		switch id := fates[f].id; {
		case isStored(f):
		case i < len(waiting) && id.Base == next && id.Epoch >= pr.fence && !fates[f].never && !fates[f].barred:
			pr.line = append(pr.line, f)
			next = id.Last + 1
		default:
			pr.dead = append(pr.dead, f)
		}
	}
}

// count sets next to what is known to be stored.
func (w *world) count(pr *producer) {
	pr.next = 0
	for pr.next < len(pr.line) && w.mu.fates[pr.line[pr.next]].offset >= 0 {
		pr.next++
	}
}

// stop closes the partition.
func (w *world) stop() (err error) {
	w.t.Helper()
	p := w.p
	go func() { err = p.Close(wire.Errorf(wire.CodeShutdown, "stop")) }() // rest waits for it
	w.rest()
	w.p = nil
	return err
}

// kill ends the process, at once if it is not dead already. If the power goes too, the next
// one finds a disk that has lost some of what was not synced.
func (w *world) kill(power bool) {
	w.mu.Lock()
	w.mu.dead, w.mu.dieIn = true, 0
	w.mu.Unlock()
	if p := w.p; p != nil {
		p.do(runtime.Goexit)
		<-p.done
		close(p.sync) // the owner does it when it may end by itself
		p.helpers.Wait()
	}
	w.p = nil
	mem := w.mu.mem
	if power {
		mem = mem.CrashCloneRandom(w.r)
	}
	w.insert(mem)
}

// An attempt is one sending of a batch; it takes the result.
type attempt struct {
	w       *world
	fate    int
	process int
	want    want
	told    bool // when it was sent, it was known already that the batch is stored
}

// want is the answer that is right when no fault strikes.
type want uint8

const (
	wantNew want = iota
	wantAgain
	wantGap
	wantConflict
	wantSuperseded
	wantUnfit
	wantFenced
	wantLate // a retry from a stream that has ended
)

// named are the answers that may be given while faults strike.
var named = []wire.Code{
	wire.CodeOK, wire.CodeOutOfOrder, wire.CodeSequenceConflict, wire.CodeSuperseded, wire.CodeUnsupportedRecords,
	wire.CodeInvalidProducerEpoch,
	wire.CodeStorageError, wire.CodeDiskFull, wire.CodeDurabilityUnknown,
	wire.CodePartitionStopped, wire.CodeLookUpFailed,
}

func (a attempt) Result(r wire.ProduceResult) {
	w := a.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.process != w.mu.process || w.mu.dead {
		return
	}
	w.mu.answered++
	w.mu.codes[r.Code]++
	f := &w.mu.fates[a.fate]
	if !w.exact && !slices.Contains(named, r.Code) {
		w.wrong(f, r, "that is no answer to what disks do")
	}
	if w.mayNotKnow(w.p, f.id.PID, r.Code) {
		w.mu.did["batches of forgotten lanes"]++
	} else if w.exact {
		if why := a.want.differs(r); why != "" {
			w.wrong(f, r, why)
		}
	}
	if r.BaseSequence != f.id.Base {
		w.wrong(f, r, "it is about another batch")
	}
	switch outcome := r.Code.Info().Outcome; {
	case r.Code == wire.CodeOK:
		if f.never || f.barred || f.offset >= 0 && f.offset != r.BaseOffset || a.told && !r.Duplicate {
			w.wrong(f, r, "that was said otherwise")
		}
		f.offset = r.BaseOffset
		f.doubt--
	case r.Code == wire.CodeSequenceConflict:
		if f.offset >= 0 {
			w.wrong(f, r, "it is stored itself")
		}
		f.never = true
		f.doubt--
	case outcome == wire.NothingHappened || r.NotStored:
		if f.offset >= 0 && (r.NotStored || !r.Code.Info().Retry) {
			w.wrong(f, r, "it is stored")
		}
		if r.NotStored {
			f.barred = true
			w.mu.did["batches behind a fence"]++
		}
		f.doubt--
	case r.Code == wire.CodeSuperseded && r.BaseOffset >= 0:
		if f.offset >= 0 && f.offset != r.BaseOffset {
			w.wrong(f, r, "it is stored elsewhere")
		}
		f.offset = r.BaseOffset
		f.doubt--
	}
}

func (w *world) wrong(f *fate, r wire.ProduceResult, why string) {
	w.mu.wrong = append(w.mu.wrong, fmt.Sprintf("%+v answered with %v, offset %d, duplicate %v, expected %d, %q: %s",
		f.id, r.Code, r.BaseOffset, r.Duplicate, r.Expected, r.Detail, why))
}

func (want want) differs(r wire.ProduceResult) string {
	ok := false
	switch want {
	case wantNew:
		ok = r.Code == wire.CodeOK && !r.Duplicate
	case wantAgain:
		ok = r.Code == wire.CodeOK && r.Duplicate && r.Verified
	case wantGap:
		ok = r.Code == wire.CodeOutOfOrder
	case wantConflict:
		ok = r.Code == wire.CodeSequenceConflict
	case wantSuperseded:
		ok = r.Code == wire.CodeSuperseded
	case wantUnfit:
		ok = r.Code == wire.CodeUnsupportedRecords
	case wantFenced:
		ok = r.Code == wire.CodeInvalidProducerEpoch && r.NotStored
	case wantLate:
		ok = r.Code == wire.CodeSuperseded || r.Code == wire.CodeOK && r.Duplicate && r.Verified
	}
	if ok {
		return ""
	}
	return "want " + [...]string{"stored anew", "duplicate", "gap", "conflict", "superseded", "unfit", "fenced", "duplicate or superseded"}[want]
}

// seal makes a batch for a producer, or for none if it is nil, and a fate for it.
func (w *world) seal(pr *producer, base batchfmt.Seq, records int) int {
	var builder batchfmt.Builder
	for range records {
		value := bytes.Repeat([]byte{byte('a' + w.r.IntN(26))}, w.r.IntN(200))
		must(w.t, builder.Add(&batchfmt.Record{Value: fmt.Appendf(value, "%d", len(w.mu.fates))}))
	}
	s := batchfmt.Seal{}
	if pr != nil {
		s = batchfmt.Seal{ProducerID: pr.id, BaseSequence: base, Epoch: pr.grant.Current()}
	}
	if pr != nil && w.r.IntN(3) == 0 {
		s.Position = fmt.Appendf(nil, "position %d", len(w.mu.fates))
	}
	raw, err := builder.Seal(nil, s)
	must(w.t, err)
	b, err := batchfmt.Parse(raw)
	must(w.t, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.fates = append(w.mu.fates, fate{id: producerstate.IdentityOf(b), sealed: raw, offset: -1})
	return len(w.mu.fates) - 1
}

// batch is the nth of the line.
func (w *world) batch(pr *producer, n int) int {
	for len(pr.line) <= n {
		base := batchfmt.Seq(0)
		if k := len(pr.line); k > 0 {
			base = w.mu.fates[pr.line[k-1]].id.Last + 1
		}
		pr.line = append(pr.line, w.seal(pr, base, 1+w.r.IntN(3)))
	}
	return pr.line[n]
}
