package partition

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// few gives room for four lanes.
func few(c *Config) { c.Producers = producerstate.Limits{MaxLanes: 4} }

// enter opens the lane of a producer that remembers what it has sent, and returns where the
// lane stands.
func (b *bench) enter(pid batchfmt.ProducerID, sent batchfmt.Seq) (o *Opening, m *wire.LaneOpened, e *wire.Error) {
	b.t.Helper()
	r := OpenRequest{Grant: NewGrant(pid, 0)}
	if sent >= 0 {
		r.Sent = &sent
	}
	done := make(chan struct{})
	r.Reply = func(opened *wire.LaneOpened, failure *wire.Error) {
		m, e = opened, failure
		close(done)
	}
	o = b.p.OpenLane(r)
	<-done
	return o, m, e
}

func (b *bench) leave(o *Opening) {
	quiet := make(chan struct{})
	b.p.CloseLane(o, func() { close(quiet) })
	<-quiet
}

// send gives a batch of any producer and returns its answer.
func (b *bench) send(o *Opening, base batchfmt.Seq, confirmed batchfmt.Seq) wire.ProduceResult {
	b.t.Helper()
	pr := Produce{Opening: o, Batch: sealed(b.t, o.ProducerID(), base, "v"), Sink: b.sink, Confirmed: confirmed}
	if e := b.p.Produce(pr); e != nil {
		b.t.Fatal(e)
	}
	return <-b.sink
}

// visit lets a producer come, write one record and go.
func (b *bench) visit(pid batchfmt.ProducerID) batchfmt.Offset {
	b.t.Helper()
	o, _, e := b.enter(pid, -1)
	if e != nil {
		b.t.Fatalf("producer %d: %v", pid, e)
	}
	r := b.send(o, 0, -1)
	if r.Code != wire.CodeOK || r.Duplicate {
		b.t.Fatalf("producer %d: %v %s", pid, r.Code, r.Detail)
	}
	b.leave(o)
	return r.BaseOffset
}

// wantRetry lets a producer come back with what it sent and had no answer for.
func (b *bench) wantRetry(pid batchfmt.ProducerID, offset batchfmt.Offset) {
	b.t.Helper()
	o, m, e := b.enter(pid, 0)
	if e != nil || m.LastSequence != 0 || m.LastOffset != offset {
		b.t.Fatalf("producer %d comes back to %+v, %v", pid, m, e)
	}
	if r := b.send(o, 0, -1); r.Code != wire.CodeOK || !r.Duplicate || r.BaseOffset != offset {
		b.t.Fatalf("producer %d: the retry is answered with %v at %d, not %d", pid, r.Code, r.BaseOffset, offset)
	}
	b.leave(o)
}

// lanes is how many are in memory.
func (b *bench) lanes() int {
	n := make(chan int, 1)
	b.p.do(func() { n <- b.p.owner.state.Len() })
	return <-n
}

func TestLanesLeaveForNewcomersAndComeBack(t *testing.T) {
	fs := vfs.NewMem()
	const producers = 40
	var at [producers + 1]batchfmt.Offset
	b := openPartition(t, fs, few)
	for pid := batchfmt.ProducerID(1); pid <= producers; pid++ {
		at[pid] = b.visit(pid)
		if n := b.lanes(); n > 4 {
			t.Fatalf("%d lanes are in memory", n)
		}
	}
	for range 2 {
		for pid := batchfmt.ProducerID(1); pid <= producers; pid++ {
			b.wantRetry(pid, at[pid])
		}
		if n := b.lanes(); n > 4 {
			t.Fatalf("%d lanes are in memory", n)
		}
		if end := b.p.HighWatermark(); end != producers {
			t.Fatalf("the log ends at %d", end)
		}
		b.close() // and the next start answers the same
		b = openPartition(t, fs, few)
	}
	b.close()
}

// A lane that has left, comes back, goes on and is found by a restart from a snapshot that
// does not have it must not lose what it had before.
func TestLaneThatCameBackSurvivesARestart(t *testing.T) {
	fs := vfs.NewMem()
	b := openPartition(t, fs, few)
	for pid := batchfmt.ProducerID(1); pid <= 8; pid++ {
		b.visit(pid)
	}
	b.close() // with a snapshot that does not have producer 1
	b = openPartition(t, fs, few)
	o, m, e := b.enter(1, 0)
	if e != nil || m.LastSequence != 0 {
		t.Fatalf("%+v, %v", m, e)
	}
	if r := b.send(o, 1, -1); r.Code != wire.CodeOK {
		t.Fatal(r.Code, r.Detail)
	}
	b.p.Abandon() // no snapshot is written
	b = openPartition(t, fs, few)
	defer b.close()
	o, m, e = b.enter(1, 1)
	if e != nil || m.LastSequence != 1 {
		t.Fatalf("%+v, %v", m, e)
	}
	for seq, want := range []batchfmt.Offset{0, 8} {
		if r := b.send(o, batchfmt.Seq(seq), -1); !r.Duplicate || r.BaseOffset != want {
			t.Errorf("sequence %d: %v at %d", seq, r.Code, r.BaseOffset)
		}
	}
}

func TestNoRoomWhileAllAreInUse(t *testing.T) {
	b := openPartition(t, vfs.NewMem(), few)
	defer b.close()
	var held []*Opening
	for pid := batchfmt.ProducerID(1); pid <= 4; pid++ {
		o, _, e := b.enter(pid, -1)
		if e != nil {
			t.Fatal(e)
		}
		if r := b.send(o, 0, -1); r.Code != wire.CodeOK {
			t.Fatal(r.Code)
		}
		held = append(held, o)
	}
	if _, _, e := b.enter(5, -1); e == nil || e.Code != wire.CodeProducerLimitReached || e.Expected != 4 {
		t.Fatalf("the newcomer is told %v", e)
	}
	for i, o := range held { // nobody was harmed
		if r := b.send(o, 1, -1); r.Code != wire.CodeOK {
			t.Errorf("producer %d: %v", i+1, r.Code)
		}
	}
	b.leave(held[2])
	if _, _, e := b.enter(5, -1); e != nil {
		t.Fatalf("when one has left: %v", e)
	}
	if refused := b.p.cfg.Counters.Producers.Refusals.Load(); refused != 1 {
		t.Errorf("%d refusals were counted", refused)
	}
}

// When rows cannot be written nobody leaves; newcomers are told why, and later get in.
func TestRowsThatCannotBeWritten(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	b := openPartition(t, disk, few)
	defer b.close()
	for pid := batchfmt.ProducerID(1); pid <= 4; pid++ {
		b.visit(pid)
	}
	disk.LimitSpace(0)
	if _, _, e := b.enter(5, -1); e == nil || e.Code != wire.CodeDiskFull {
		t.Fatalf("the newcomer is told %v", e)
	}
	b.wantRetry(1, 0)
	disk.Heal()
	if at := b.visit(5); at != 4 {
		t.Errorf("stored at %d", at)
	}
	for pid := batchfmt.ProducerID(1); pid <= 5; pid++ {
		b.wantRetry(pid, batchfmt.Offset(pid-1))
	}
}

func TestIdleLanesLeave(t *testing.T) {
	var uptime atomic.Int64
	b := openPartition(t, vfs.NewMem(), func(c *Config) {
		c.IdleAfter = time.Hour
		c.Uptime = func() time.Duration { return time.Duration(uptime.Load()) }
	})
	defer b.close()
	b.visit(1)
	uptime.Store(int64(50 * time.Minute))
	b.visit(2)
	held, _, e := b.enter(3, -1)
	if e != nil {
		t.Fatal(e)
	}
	b.send(held, 0, -1)
	for _, row := range []struct {
		uptime time.Duration
		lanes  int
	}{{59 * time.Minute, 3}, {61 * time.Minute, 2}, {30 * time.Hour, 1}, {90 * time.Hour, 1}} {
		uptime.Store(int64(row.uptime))
		b.p.RetireIdle()
		b.quiet()
		if n := b.lanes(); n != row.lanes {
			t.Errorf("after %v there are %d lanes, not %d", row.uptime, n, row.lanes)
		}
	}
	b.wantRetry(1, 0)
	b.wantRetry(2, 1)
	if r := b.send(held, 1, -1); r.Code != wire.CodeOK {
		t.Errorf("the lane in use: %v", r.Code)
	}
}

// quiet waits until no lane is on its way to the retired table.
func (b *bench) quiet() {
	for retiring := true; retiring; {
		done := make(chan bool)
		b.p.do(func() { done <- b.p.owner.retiring })
		retiring = <-done
	}
}

// What has been dropped from the retired table is not taken for new.
func TestForgottenProducers(t *testing.T) {
	fs := vfs.NewMem()
	little := func(c *Config) { few(c); c.MaxRetired = 8 }
	b := openPartition(t, fs, little)
	for pid := batchfmt.ProducerID(1); pid <= 40; pid++ {
		b.visit(pid)
	}
	for range 2 {
		unknown := 0
		for pid := batchfmt.ProducerID(1); pid <= 40; pid++ {
			o, m, e := b.enter(pid, 0)
			switch {
			case e == nil && m.LastSequence == 0:
				b.leave(o)
			case e != nil && e.Code == wire.CodeUnknownProducerID:
				unknown++
			default:
				t.Fatalf("producer %d comes back to %+v, %v", pid, m, e)
			}
		}
		if unknown == 0 || unknown == 40 {
			t.Fatalf("%d of 40 were forgotten", unknown)
		}
		if _, _, e := b.enter(41, -1); e != nil {
			t.Fatalf("a new producer: %v", e)
		}
		b.close()
		b = openPartition(t, fs, little)
	}
	b.close()
}

// A row that rots is not taken for a producer that was never here.
func TestRottenRow(t *testing.T) {
	fs := vfs.NewMem()
	b := openPartition(t, fs, few)
	for pid := batchfmt.ProducerID(1); pid <= 8; pid++ {
		b.visit(pid)
	}
	b.close()
	names, err := fs.List(dir)
	must(t, err)
	for _, name := range names {
		if strings.HasPrefix(name, "retired-") {
			f, err := fs.Open(dir + "/" + name)
			must(t, err)
			size, err := f.Size()
			must(t, err)
			junk := make([]byte, size)
			_, err = f.WriteAt(junk, 0)
			must(t, err)
			must(t, f.Close())
		}
	}
	b = openPartition(t, fs, few)
	defer b.close()
	if !strings.Contains(b.logs.String(), "damaged") {
		t.Error("nobody shouts")
	}
	if _, m, e := b.enter(1, 0); e == nil || e.Code != wire.CodeUnknownProducerID {
		t.Errorf("producer 1 comes back to %+v, %v", m, e)
	}
	if _, _, e := b.enter(51, -1); e != nil {
		t.Errorf("a producer that came after the damage: %v", e)
	}
}
