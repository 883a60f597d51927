package partition

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/seglog"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	dir               = "data/topics/t/0"
	testSnapshotBytes = 64 << 10
)

// bench is a partition in memory with one open lane.
type bench struct {
	t     *testing.T
	fs    vfs.FS
	p     *Partition
	grant *Grant
	lane  *Opening
	sink  sink
	logs  *strings.Builder
}

// sink is a Sink that a test reads.
type sink chan wire.ProduceResult

func (s sink) Result(r wire.ProduceResult) { s <- r }

func openPartition(t *testing.T, fs vfs.FS, edit ...func(*Config)) *bench {
	t.Helper()
	b := &bench{t: t, fs: fs, grant: NewGrant(7, 0), sink: make(sink, 100), logs: new(strings.Builder)}
	var limit atomic.Int64
	limit.Store(batchfmt.DefaultTopicBatchBytes)
	cfg := Config{
		Topic: "t", FS: fs, Dir: dir, MaxBatchBytes: &limit, Now: time.Now,
		Log:            seglog.Config{SegmentBytes: 1 << 20},
		NextTerm:       func(after batchfmt.Term) (batchfmt.Term, error) { return after + 1, nil },
		LastProducerID: func() (batchfmt.ProducerID, error) { return 50, nil },
		SnapshotBytes:  testSnapshotBytes,
		Logger:         slog.New(slog.NewTextHandler(b.logs, nil)),
	}
	for _, change := range edit {
		change(&cfg)
	}
	p, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.p = p
	return b
}

// openLane opens the lane of producer 7, which may have been written before.
func (b *bench) openLane() *wire.LaneOpened {
	b.t.Helper()
	opened := make(chan *wire.LaneOpened, 1)
	b.lane = b.p.OpenLane(OpenRequest{Grant: b.grant, Fresh: true, Reply: func(m *wire.LaneOpened, e *wire.Error) {
		if e != nil {
			b.t.Errorf("open lane: %v", e)
		}
		opened <- m
	}})
	return <-opened
}

func (b *bench) close() {
	b.t.Helper()
	if err := b.p.Close(wire.Errorf(wire.CodeShutdown, "test is over")); err != nil {
		b.t.Errorf("close: %v", err)
	}
}

func sealed(t *testing.T, pid batchfmt.ProducerID, base batchfmt.Seq, values ...string) batchfmt.Batch {
	t.Helper()
	var builder batchfmt.Builder
	for _, v := range values {
		if err := builder.Add(&batchfmt.Record{Value: []byte(v)}); err != nil {
			t.Fatal(err)
		}
	}
	b, err := builder.Seal(nil, batchfmt.Seal{Version: batchfmt.Version2, ProducerID: pid, BaseSequence: base})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := batchfmt.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// give puts a batch into the queue.
func (b *bench) give(base batchfmt.Seq, values ...string) {
	b.t.Helper()
	if e := b.p.Produce(Produce{Opening: b.lane, Batch: sealed(b.t, 7, base, values...), Sink: b.sink, Confirmed: -1}); e != nil {
		b.t.Fatalf("produce: %v", e)
	}
}

// together lets everything that f gives be decided as one group.
func (b *bench) together(f func()) {
	held, gate := make(chan struct{}), make(chan struct{})
	b.p.do(func() {
		close(held)
		<-gate
	})
	<-held // else the first of what f gives may be taken along with this
	f()
	close(gate)
}

func (b *bench) wantStored(offset batchfmt.Offset, duplicate bool) {
	b.t.Helper()
	if r := <-b.sink; r.Code != wire.CodeOK || r.BaseOffset != offset || r.Duplicate != duplicate {
		b.t.Fatalf("got %v (%s) at %d, duplicate %v; want offset %d, duplicate %v", r.Code, r.Detail, r.BaseOffset, r.Duplicate, offset, duplicate)
	}
}

func (b *bench) wantCode(code wire.Code) {
	b.t.Helper()
	if r := <-b.sink; r.Code != code {
		b.t.Fatalf("got %v (%s), want %v", r.Code, r.Detail, code)
	}
}

func TestManyBatchesShareASync(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	b := openPartition(t, disk)
	defer b.close()
	b.openLane()
	var syncs atomic.Int32
	disk.Observe(func(op vfs.Op, _ string) {
		if op == vfs.OpSync {
			syncs.Add(1)
		}
	})
	defer disk.Observe(nil)
	b.together(func() {
		for i := range 50 {
			b.give(batchfmt.Seq(i), "v")
		}
	})
	for i := range 50 {
		b.wantStored(batchfmt.Offset(i), false)
	}
	if n := syncs.Load(); n != 1 {
		t.Errorf("50 batches of one group took %d syncs", n)
	}
}

// What was decided on top of a group falls with it, and with the same answer.
func TestFailedGroupTakesEverythingWithIt(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	b := openPartition(t, disk)
	defer b.close()
	b.openLane()
	b.give(0, "a")
	b.wantStored(0, false)
	disk.FailWrite(1, syscall.EIO)
	b.together(func() {
		b.give(0, "a")      // before the group: a plain duplicate
		b.give(1, "b")      // the group
		b.give(1, "b")      // attached to it
		b.give(1, "x", "y") // in conflict with it
		b.give(9, "z")      // a gap behind it
	})
	b.wantStored(0, true)
	for range 4 {
		b.wantCode(wire.CodeStorageError)
	}
	b.give(1, "x", "y") // nothing of the group is left: this takes the sequences
	b.wantStored(1, false)
	b.give(1, "b")
	b.wantCode(wire.CodeSequenceConflict)
}

func TestFailedUndoStopsThePartition(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	b := openPartition(t, disk)
	b.openLane()
	b.give(0, "a")
	b.wantStored(0, false)
	disk.FailWrite(1, syscall.EIO)
	disk.Fail(vfs.OpTruncate, 0, 1, syscall.EIO)
	b.give(1, "b")
	b.wantCode(wire.CodeDurabilityUnknown) // a part of it may be found by the next start
	b.give(1, "b")
	b.wantCode(wire.CodePartitionStopped)
	b.give(0, "a")
	b.wantStored(0, true)
	if !b.p.Failed() || b.p.Describe().Code != wire.CodePartitionStopped {
		t.Error("the partition does not say that it has stopped")
	}
	b.p.Close(wire.Errorf(wire.CodeShutdown, ""))
}

func TestZombieDoesNotTakeTheLane(t *testing.T) {
	b := openPartition(t, vfs.NewMem())
	defer b.close()
	b.openLane()
	zombie := NewGrant(7, 0)
	zombie.Revoke(1, "")
	refused := make(chan *wire.Error, 2)
	b.p.OpenLane(OpenRequest{Grant: zombie, Reply: func(_ *wire.LaneOpened, e *wire.Error) { refused <- e }})
	b.p.OpenLane(OpenRequest{Grant: b.grant, Epoch: 5, Reply: func(_ *wire.LaneOpened, e *wire.Error) { refused <- e }})
	for range 2 {
		if e := <-refused; e == nil || e.Code != wire.CodeInvalidProducerEpoch {
			t.Fatalf("opened for a zombie: %v", e)
		}
	}
	b.give(0, "a")
	b.wantStored(0, false)
}

func TestClosedPartitionRefuses(t *testing.T) {
	b := openPartition(t, vfs.NewMem())
	b.openLane()
	b.give(0, "a")
	b.wantStored(0, false)
	moved := b.p.Moved()
	gate := make(chan struct{})
	b.p.do(func() { <-gate })
	b.give(1, "late")
	closed := make(chan error, 1)
	go func() { closed <- b.p.Close(wire.Errorf(wire.CodeUnknownTopicID, "deleted")) }()
	for b.p.do(func() {}) == nil { // until Close has closed the queue
		runtime.Gosched()
	}
	close(gate)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	<-moved
	if e := b.p.Gone(); e == nil || e.Code != wire.CodeUnknownTopicID {
		t.Errorf("gone because of %v", e)
	}
	if e := b.p.Produce(Produce{}); e == nil || e.Code != wire.CodeUnknownTopicID {
		t.Errorf("refused with %v", e)
	}
	// Whatever was queued has an answer, each one.
	if got := <-b.sink; got.BaseSequence != 1 {
		t.Errorf("the first answer is for %d", got.BaseSequence)
	}
	<-b.p.Moved() // does not block any more
}

// The state after a restart is the same with a good snapshot, a bad one, or none.
func TestStateSurvivesWhateverHappensToSnapshots(t *testing.T) {
	rows := []struct {
		name string
		edit func(t *testing.T, fs vfs.FS, newest string)
		said string
	}{
		{"as it is", func(*testing.T, vfs.FS, string) {}, ""},
		{"missing", func(t *testing.T, fs vfs.FS, newest string) { must(t, fs.Remove(newest)) }, ""},
		{"torn", func(t *testing.T, fs vfs.FS, newest string) {
			f, err := fs.Open(newest)
			must(t, err)
			must(t, f.Truncate(40))
			must(t, f.Close())
		}, "discarded"},
		{"a bit is wrong", func(t *testing.T, fs vfs.FS, newest string) {
			f, err := fs.Open(newest)
			must(t, err)
			var c [1]byte
			_, err = f.ReadAt(c[:], 60)
			must(t, err)
			c[0] ^= 0x10
			_, err = f.WriteAt(c[:], 60)
			must(t, err)
			must(t, f.Close())
		}, "discarded"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			fs := vfs.NewMem()
			b := openPartition(t, fs)
			b.openLane()
			for i := range 8 {
				b.give(batchfmt.Seq(i), "v")
				b.wantStored(batchfmt.Offset(i), false)
			}
			b.close()
			names, err := snapshots(fs, dir)
			if err != nil || len(names) != 1 {
				t.Fatalf("snapshots %v, %v", names, err)
			}
			row.edit(t, fs, filepath.Join(dir, names[0]))

			b = openPartition(t, fs)
			defer b.close()
			if said := b.logs.String(); (row.said == "") != (said == "") || !strings.Contains(said, row.said) {
				t.Errorf("logged %q, want something about %q", said, row.said)
			}
			if m := b.openLane(); m.LastSequence != 7 || m.LastOffset != 7 {
				t.Fatalf("the lane is at %d, offset %d", m.LastSequence, m.LastOffset)
			}
			for i := range 8 {
				b.give(batchfmt.Seq(i), "v")
				b.wantStored(batchfmt.Offset(i), true)
			}
			b.give(8, "w")
			b.wantStored(8, false)
		})
	}
}

// A snapshot is written when all that it tells of is durable. If the log ends before it, what
// is missing was acknowledged: its offsets stay taken, and a retry is not told that all is
// well.
func TestLogThatEndsBeforeItsSnapshot(t *testing.T) {
	fs := vfs.NewMem()
	write(t, fs, 8)
	names, err := fs.List(dir)
	must(t, err)
	for _, name := range names {
		if filepath.Ext(name) == ".idx" { // it tells as well how far the log went
			must(t, fs.Remove(filepath.Join(dir, name)))
		}
	}
	f, err := fs.Open(filepath.Join(dir, fmt.Sprintf("%020d.seg", 0)))
	must(t, err)
	must(t, f.Truncate(int64(segmentHeader+5*sealed(t, 7, 0, "v").Size())))
	must(t, f.Close())
	for range 2 {
		b := openPartition(t, fs)
		if !strings.Contains(b.logs.String(), "damaged") {
			t.Error("nobody shouts")
		}
		if b.p.HighWatermark() < 8 {
			t.Fatalf("the log ends at %d", b.p.HighWatermark())
		}
		if _, _, e := b.p.Read(nil, 5, 1<<20); e == nil || e.Code != wire.CodeCorruptBatch || e.Expected != 8 {
			t.Fatalf("a reader is told %v", e)
		}
		if m := b.openLane(); m.LastSequence < 7 {
			t.Fatalf("the lane is at %d", m.LastSequence)
		}
		for i := range batchfmt.Seq(8) {
			b.give(i, "v")
			if i < 5 {
				b.wantStored(batchfmt.Offset(i), true)
			} else if r := <-b.sink; r.Code != wire.CodeBatchUnreadable || r.BaseOffset != batchfmt.Offset(i) {
				t.Fatalf("the retry of sequence %d: %v at %d", i, r.Code, r.BaseOffset)
			}
		}
		// What followed may have been lost too, a fence for example: only a higher epoch
		// goes on. Somebody new just begins.
		b.give(8, "w")
		b.wantCode(wire.CodeUnknownOutcome)
		if _, e := openAs(b, 30); e != nil {
			t.Errorf("producer 30, who was not in there, was refused: %v", e)
		}
		b.close()
	}
}

func TestSnapshotsAreTakenUnderwayAndTheOldOnesGo(t *testing.T) {
	fs := vfs.NewMem()
	b := openPartition(t, fs)
	b.openLane()
	value := strings.Repeat("v", 1<<10)
	next := batchfmt.Seq(0)
	send := func(n int) {
		for range n {
			b.give(next, value)
			b.wantStored(batchfmt.Offset(next), false)
			next++
		}
	}
	send(5 * testSnapshotBytes / (1 << 10))
	b.close()
	names, err := snapshots(fs, dir)
	if err != nil || len(names) != 2 {
		t.Fatalf("snapshots %v, %v, want %d", names, err, 2)
	}
	if want := snapshotName(batchfmt.Offset(next)); names[1] != want {
		t.Errorf("the newest is %s, want %s", names[1], want)
	}
	b = openPartition(t, fs)
	defer b.close()
	if m := b.openLane(); m.LastSequence != next-1 {
		t.Errorf("the lane is at %d, want %d", m.LastSequence, next-1)
	}
}

// A fence in the log raises the lane's epoch after a restart, uses no offset, and no
// reader sees it.
func TestControlBatchesInTheLog(t *testing.T) {
	fs := vfs.NewMem()
	log, _, err := seglog.Open(fs, dir, seglog.Config{SegmentBytes: 1 << 20})
	must(t, err)
	first := sealed(t, 7, 0, "a")
	first.Stamp(batchfmt.Stamp{Term: 1})
	fence, err := batchfmt.Parse(batchfmt.AppendControl(nil, 7, 0, batchfmt.Control{Kind: batchfmt.ControlFence, MinEpoch: 3}))
	must(t, err)
	fence.Stamp(batchfmt.Stamp{BaseOffset: 1, Term: 1})
	must(t, log.Append([]batchfmt.Batch{first, fence}))
	_, err = log.Sync()
	must(t, err)
	must(t, log.Close())

	b := openPartition(t, fs)
	defer b.close()
	b.openLane()
	b.give(1, "sealed under an epoch that the fence has passed")
	r := <-b.sink
	if r.Code != wire.CodeInvalidProducerEpoch || r.Expected != 3 || !r.NotStored {
		t.Fatalf("got %+v, want fenced below epoch 3 and surely not stored", r)
	}
	out, next, e := b.p.Read(nil, 0, 1<<20)
	if e != nil || next != 1 || len(out) != first.Size() {
		t.Fatalf("read %d bytes up to %d, %v", len(out), next, e)
	}
}

func TestReadOutOfRange(t *testing.T) {
	b := openPartition(t, vfs.NewMem())
	defer b.close()
	if _, _, e := b.p.Read(nil, 5, 100); e == nil || e.Code != wire.CodeOffsetOutOfRange {
		t.Fatalf("read behind the end: %v", e)
	}
}

func TestLookUpsAreBounded(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	b := openPartition(t, disk)
	defer b.close()
	const producers = maxSearches + 3
	lanes := make([]*Opening, producers)
	produce := func(i int, base batchfmt.Seq) {
		t.Helper()
		pr := Produce{Opening: lanes[i], Batch: sealed(t, batchfmt.ProducerID(100+i), base, "v"), Sink: b.sink, Confirmed: -1}
		if e := b.p.Produce(pr); e != nil {
			t.Fatal(e)
		}
	}
	for i := range producers {
		opened := make(chan struct{})
		lanes[i] = b.p.OpenLane(OpenRequest{Grant: NewGrant(batchfmt.ProducerID(100+i), 0), Reply: func(*wire.LaneOpened, *wire.Error) { close(opened) }})
		<-opened
		for n := range 7 {
			produce(i, batchfmt.Seq(n))
			b.wantStored(batchfmt.Offset(7*i+n), false)
		}
	}
	gate, began := make(chan struct{}), make(chan struct{}, 100)
	disk.Observe(func(op vfs.Op, _ string) {
		if op == vfs.OpRead {
			began <- struct{}{}
			<-gate
		}
	})
	for i := range producers {
		produce(i, 0) // behind the window
	}
	for range maxSearches {
		<-began
	}
	searching := make(chan int)
	b.p.do(func() { searching <- b.p.owner.searching })
	if n := <-searching; n != maxSearches || len(began) != 0 {
		t.Errorf("%d searches run at once, %d more have begun", n, len(began))
	}
	// Others wait their turn, and only beyond a limit they are sent away.
	b.p.do(func() {
		for i := len(b.p.owner.lookUps); i < maxLookUps; i++ {
			b.p.owner.lookUps[batchfmt.ProducerID(1_000_000+i)] = &lookUp{}
		}
	})
	lanes = append(lanes, lanes[0])
	fresh, _, e := b.enter(7, -1)
	if e != nil {
		t.Fatal(e)
	}
	lanes[producers] = fresh
	b.p.do(func() {
		// As if it had written long ago.
		for n := range batchfmt.Seq(7) {
			id := producerstate.IdentityOf(sealed(t, 7, n, "v"))
			b.p.owner.state.Apply(id, batchfmt.Offset(n), nil)
		}
	})
	pr := Produce{Opening: fresh, Batch: sealed(t, 7, 0, "v"), Sink: b.sink, Confirmed: -1}
	if e := b.p.Produce(pr); e != nil {
		t.Fatal(e)
	}
	b.wantCode(wire.CodeThrottled)
	b.p.do(func() {
		for i := range maxLookUps {
			delete(b.p.owner.lookUps, batchfmt.ProducerID(1_000_000+i))
		}
	})
	disk.Observe(nil)
	close(gate)
	seen := make(map[batchfmt.Offset]bool)
	for range producers {
		r := <-b.sink
		if r.Code != wire.CodeOK || !r.Duplicate || !r.Verified || r.BaseOffset%7 != 0 {
			t.Fatalf("look-up answered with %+v", r)
		}
		seen[r.BaseOffset] = true
	}
	if len(seen) != producers {
		t.Errorf("look-ups of %d lanes gave %d offsets", producers, len(seen))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The write of a group fails in its second part and cannot be undone: its first part may
// be found by the next start, so nobody may be told that nothing happened.
func TestGroupThatIsHalfWrittenAndNotUndone(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	b := openPartition(t, disk)
	b.openLane()
	big := strings.Repeat("v", 600<<10)
	b.together(func() {
		disk.FailWrite(2, syscall.EIO)
		disk.Fail(vfs.OpTruncate, 0, 1, syscall.EIO)
		b.give(0, big)
		b.give(1, big)
	})
	b.wantCode(wire.CodeDurabilityUnknown)
	b.wantCode(wire.CodeDurabilityUnknown)
	b.p.Close(wire.Errorf(wire.CodeShutdown, ""))
	b = openPartition(t, disk)
	defer b.close()
	if m := b.openLane(); m.LastSequence != 0 {
		t.Fatalf("the lane is at %d: the test does not test what it says", m.LastSequence)
	}
}

// Damage on the way of a look-up must not turn a stored batch into one that is not.
func TestLookUpMeetsDamage(t *testing.T) {
	fs := vfs.NewMem()
	b := openPartition(t, fs)
	defer b.close()
	b.openLane()
	for i := range 8 {
		b.give(batchfmt.Seq(i), "v")
		b.wantStored(batchfmt.Offset(i), false)
	}
	flipBatch(t, fs, 1)
	b.give(0, "v")
	r := <-b.sink
	if outcome := r.Code.Info().Outcome; r.Code != wire.CodeOK && outcome == wire.NothingHappened {
		t.Fatalf("a batch that is stored is answered with %v: %v", r.Code, outcome)
	}
}

// flipBatch damages the nth of batches that are all as large as one with the value "v".
func flipBatch(t *testing.T, fs vfs.FS, n int) {
	t.Helper()
	names, err := fs.List(dir)
	must(t, err)
	for _, name := range names {
		if !strings.HasSuffix(name, ".seg") {
			continue
		}
		f, err := fs.Open(filepath.Join(dir, name))
		must(t, err)
		at := int64(segmentHeader + n*sealed(t, 7, 0, "v").Size() + 20)
		var c [1]byte
		_, err = f.ReadAt(c[:], at)
		must(t, err)
		c[0] ^= 0xff
		_, err = f.WriteAt(c[:], at)
		must(t, err)
		must(t, f.Close())
	}
}

// segmentHeader is what stands in front of the batches of a segment.
const segmentHeader = 32

func TestCloseDuringALookUp(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	b := openPartition(t, disk)
	b.openLane()
	for i := range 8 {
		b.give(batchfmt.Seq(i), "v")
		b.wantStored(batchfmt.Offset(i), false)
	}
	gate, began := make(chan struct{}), make(chan struct{})
	var once sync.Once
	disk.Observe(func(op vfs.Op, name string) {
		if op == vfs.OpRead && filepath.Ext(name) == ".seg" {
			once.Do(func() { close(began) })
			<-gate
		}
	})
	b.give(0, "v")
	b.give(1, "v")
	<-began
	closed := make(chan error, 1)
	go func() { closed <- b.p.Close(wire.Errorf(wire.CodeShutdown, "bye")) }()
	for i := range 2 {
		// Stored long ago; SHUTDOWN leaves that open, and the order is kept.
		if r := <-b.sink; r.Code != wire.CodeShutdown || r.BaseSequence != batchfmt.Seq(i) {
			t.Errorf("answer %d is %v for batch %d", i, r.Code, r.BaseSequence)
		}
	}
	disk.Observe(nil)
	close(gate)
	must(t, <-closed)
}

func TestSnapshotsThatWereNotFinishedAreRemoved(t *testing.T) {
	fs := vfs.NewMem()
	b := openPartition(t, fs)
	f, err := fs.Create(filepath.Join(dir, snapshotName(0)+tempSuffix))
	must(t, err)
	must(t, f.Close())
	b.close()
	b = openPartition(t, fs)
	defer b.close()
	names, err := fs.List(dir)
	must(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, tempSuffix) {
			t.Errorf("%s is left", name)
		}
	}
}

// That another batch holds a sequence for ever is said when it is durable.
func TestConflictWithABatchThatIsNotDurable(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	b := openPartition(t, disk)
	defer b.close()
	b.openLane()
	gate, began := make(chan struct{}), make(chan struct{})
	var once sync.Once
	disk.Observe(func(op vfs.Op, _ string) {
		if op == vfs.OpSync {
			once.Do(func() { close(began) })
			<-gate
		}
	})
	b.give(0, "a")
	<-began
	b.give(0, "b")
	b.give(5, "gap") // its answer rests on nothing that must be durable
	b.wantCode(wire.CodeOutOfOrder)
	disk.Observe(nil)
	close(gate)
	b.wantStored(0, false)
	b.wantCode(wire.CodeSequenceConflict)
}
