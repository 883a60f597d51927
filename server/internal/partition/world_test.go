package partition

import (
	"bytes"
	"fmt"
	"log/slog"
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
	exact     bool // no fault strikes: every answer is known beforehand
	states    int  // disks looked at

	mu struct { // taken by the partition's goroutines too, never over anything that blocks
		sync.Mutex
		mem      *vfs.Mem
		calls    map[vfs.Op]int    // of the disk; "" is all
		codes    map[wire.Code]int // answers
		fates    []fate
		wrong    []string // what the partition did and must not do
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
}

// A producer writes the batches of its line, in order, and others that touch them.
type producer struct {
	id      batchfmt.ProducerID
	grant   *Grant
	line    []int // fates; sealed when they are needed
	others  []int // batches that touch what the line holds
	next    int   // of line, the first that is not appended, if all goes well
	told    int   // of line, how many are known to be stored
	lane    *Opening
	old     *Opening // the one before
	opening bool     // the next lane is planned
}

// A state is a disk as a power cut leaves it, with what was known when it struck.
type state struct {
	mem   *vfs.Mem
	fates []fate
	what  string
}

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
		LastProducerID: func() (batchfmt.ProducerID, error) { return 50, nil },
		SnapshotBytes:  [][]int{{1200, 300, 600}, {300, 1200, 4000}}[seed/3%2][seed%3],
		Logger:         slog.New(slog.DiscardHandler),
	}
	for i := range 2 + w.r.IntN(3) {
		id := batchfmt.ProducerID(7 + i)
		w.producers = append(w.producers, &producer{id: id, grant: NewGrant(id, 0)})
	}
	w.insert(vfs.NewMem())
	return w
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
	some := rand.New(rand.NewPCG(w.seed, uint64(w.states+n)))
	w.mu.captured = append(w.mu.captured,
		state{w.mu.mem.CrashClone(), facts, "nothing unsynced is kept, before " + what},
		state{w.mu.mem.CrashCloneRandom(some), facts, "some of what is unsynced is kept, before " + what})
}

// rest waits until nothing moves any more, and looks at all that was captured meanwhile.
func (w *world) rest() {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	wrong, captured := w.mu.wrong, w.mu.captured
	w.mu.wrong, w.mu.captured = nil, nil
	w.mu.Unlock()
	if len(wrong) > 0 {
		w.t.Fatalf("seed %d: %s", w.seed, strings.Join(wrong, "\n"))
	}
	for _, s := range captured {
		w.look(s)
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
	w.checkLog(stored, state{fates: w.mu.fates, what: "at a start"})
	at := map[producerstate.Identity]batchfmt.Offset{}
	for _, b := range stored {
		at[producerstate.IdentityOf(b)] = b.BaseOffset()
	}
	for i := range w.mu.fates {
		f := &w.mu.fates[i]
		f.doubt = 0
		if offset, ok := at[f.id]; ok {
			f.offset = offset
		}
	}
	for _, pr := range w.producers {
		pr.lane, pr.old = nil, nil
		w.count(pr)
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
)

// named are the answers that may be given while faults strike.
var named = []wire.Code{
	wire.CodeOK, wire.CodeOutOfOrder, wire.CodeSequenceConflict, wire.CodeSuperseded, wire.CodeUnsupportedRecords,
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
	if w.exact {
		if why := a.want.differs(r); why != "" {
			w.wrong(f, r, why)
		}
	}
	if r.BaseSequence != f.id.Base {
		w.wrong(f, r, "it is about another batch")
	}
	switch outcome := r.Code.Info().Outcome; {
	case r.Code == wire.CodeOK:
		if f.never || f.offset >= 0 && f.offset != r.BaseOffset || f.offset >= 0 && !r.Duplicate {
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
		if f.offset >= 0 && !r.Code.Info().Retry {
			w.wrong(f, r, "it is stored")
		}
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
	}
	if ok {
		return ""
	}
	return "want " + [...]string{"stored anew", "duplicate", "gap", "conflict", "superseded", "unfit"}[want]
}

// seal makes a batch for a producer and a fate for it.
func (w *world) seal(pr *producer, base batchfmt.Seq, records int) int {
	var builder batchfmt.Builder
	for range records {
		value := bytes.Repeat([]byte{byte('a' + w.r.IntN(26))}, w.r.IntN(200))
		must(w.t, builder.Add(&batchfmt.Record{Value: fmt.Appendf(value, "%d", len(w.mu.fates))}))
	}
	s := batchfmt.Seal{ProducerID: pr.id, BaseSequence: base}
	if w.r.IntN(3) == 0 {
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
