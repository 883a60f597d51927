package partition

import (
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// write puts a batch into the queue whose sender does not wait for the sync.
func (b *bench) write(base batchfmt.Seq, values ...string) {
	b.t.Helper()
	b.writeAs(Produce{Opening: b.lane, Batch: sealed(b.t, 7, base, values...), Confirmed: -1})
}

func (b *bench) writeAs(pr Produce) {
	b.t.Helper()
	pr.Sink, pr.Durability = b.sink, wire.Written
	if e := b.p.Produce(pr); e != nil {
		b.t.Fatalf("produce: %v", e)
	}
}

// wantWritten takes the answer to a batch that is not durable yet.
func (b *bench) wantWritten(offset batchfmt.Offset, duplicate bool, persisted batchfmt.Seq) {
	b.t.Helper()
	r := <-b.sink
	if r.Code != wire.CodeOK || r.BaseOffset != offset || r.Duplicate != duplicate || !r.Provisional || r.PersistedThrough != persisted {
		b.t.Fatalf("got %+v, want offset %d, duplicate %v, provisional, persisted through %d", r, offset, duplicate, persisted)
	}
}

// wantSynced takes the answer to a batch that is durable.
func (b *bench) wantSynced(offset batchfmt.Offset, duplicate bool, persisted batchfmt.Seq) {
	b.t.Helper()
	r := <-b.sink
	if r.Code != wire.CodeOK || r.BaseOffset != offset || r.Duplicate != duplicate || r.Provisional || r.PersistedThrough != persisted {
		b.t.Fatalf("got %+v, want offset %d, duplicate %v, not provisional, persisted through %d", r, offset, duplicate, persisted)
	}
}

// silent checks that nothing is answered as long as nothing else happens.
func (b *bench) silent() {
	b.t.Helper()
	synctest.Wait()
	if len(b.sink) > 0 {
		b.t.Fatalf("answered: %+v", <-b.sink)
	}
}

// syncTimes notes when syncs of files begin, from the first call on.
type syncTimes struct {
	sync.Mutex
	start time.Time
	at    []time.Duration
	gate  chan struct{} // each sync waits for it; nil for none
}

func watchSyncs(disk *vfs.Faulty) *syncTimes {
	w := &syncTimes{start: time.Now()}
	disk.Observe(func(op vfs.Op, _ string) {
		if op != vfs.OpSync {
			return
		}
		w.Lock()
		w.at = append(w.at, time.Since(w.start))
		gate := w.gate
		w.Unlock()
		if gate != nil {
			<-gate
		}
	})
	return w
}

// hold makes syncs wait until the result is called.
func (w *syncTimes) hold() (release func()) {
	w.Lock()
	defer w.Unlock()
	gate := make(chan struct{})
	w.gate = gate
	return func() {
		w.Lock()
		w.gate = nil
		w.Unlock()
		close(gate)
	}
}

func (w *syncTimes) want(t *testing.T, when string, want ...time.Duration) {
	t.Helper()
	synctest.Wait()
	w.Lock()
	defer w.Unlock()
	if len(w.at) != len(want) {
		t.Fatalf("%s: syncs at %v, want %v", when, w.at, want)
	}
	for i := range want {
		if w.at[i] != want[i] {
			t.Fatalf("%s: syncs at %v, want %v", when, w.at, want)
		}
	}
}

// lazy runs a test with a partition whose lane is open, at time 0 of the watch.
func lazy(t *testing.T, test func(t *testing.T, b *bench, disk *vfs.Faulty, w *syncTimes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewFaulty(vfs.NewMem())
		b := openPartition(t, disk)
		b.openLane()
		test(t, b, disk, watchSyncs(disk))
	})
}

const ms = time.Millisecond

func TestWrittenIsSyncedInTime(t *testing.T) {
	lazy(t, func(t *testing.T, b *bench, _ *vfs.Faulty, w *syncTimes) {
		defer b.close()
		b.write(0, "a")
		b.wantWritten(0, false, -1)
		moved := b.p.Moved()
		time.Sleep(60 * ms)
		b.write(1, "b") // the oldest counts
		b.wantWritten(1, false, -1)
		if hw := b.p.HighWatermark(); hw != 0 {
			t.Errorf("readers see up to %d before a sync", hw)
		}
		time.Sleep(39 * ms)
		w.want(t, "before it is due")
		<-moved
		w.want(t, "when it is due", 100*ms)
		if hw := b.p.HighWatermark(); hw != 2 {
			t.Errorf("readers see up to %d after the sync", hw)
		}
		time.Sleep(time.Minute)
		w.want(t, "with nothing left to sync", 100*ms)
		b.write(1, "b")
		b.wantSynced(1, true, 1)
		b.write(2, "c")
		b.wantWritten(2, false, 1)
		time.Sleep(100 * ms)
		w.want(t, "the next", 100*ms, time.Minute+200*ms)
	})
}

// A stream of writes is synced ten times a second, not once for each.
func TestSteadyWritesShareSyncs(t *testing.T) {
	lazy(t, func(t *testing.T, b *bench, _ *vfs.Faulty, w *syncTimes) {
		defer b.close()
		for i := range 100 {
			b.write(batchfmt.Seq(i), "v")
			if r := <-b.sink; r.Code != wire.CodeOK || !r.Provisional {
				t.Fatalf("batch %d: %+v", i, r)
			}
			time.Sleep(10*ms + time.Microsecond) // so that none comes at the moment of a sync
		}
		synctest.Wait()
		w.Lock()
		defer w.Unlock()
		for i, at := range w.at {
			if i > 0 && at-w.at[i-1] < 100*ms {
				t.Errorf("syncs %v and %v", w.at[i-1], at)
			}
		}
		if len(w.at) != 10 {
			t.Errorf("%d syncs in a second: %v", len(w.at), w.at)
		}
	})
}

// Whoever waits for the disk takes with him what nobody has waited for, and no second sync
// comes when that would have been due.
func TestWhoeverWaitsSyncsAtOnce(t *testing.T) {
	identity := func(t *testing.T) producerstate.Identity { return producerstate.IdentityOf(sealed(t, 7, 0, "a")) }
	rows := []struct {
		reason string
		wait   func(t *testing.T, b *bench)
	}{
		{"a batch that is to be synced", func(t *testing.T, b *bench) {
			b.give(1, "b")
			b.wantSynced(1, false, 1)
		}},
		{"a retry that is to be synced", func(t *testing.T, b *bench) {
			b.give(0, "a")
			b.wantSynced(0, true, 0)
		}},
		{"a conflict, which is for ever", func(t *testing.T, b *bench) {
			b.write(0, "x")
			b.wantCode(wire.CodeSequenceConflict)
		}},
		{"an opening", func(t *testing.T, b *bench) {
			if m := b.openLane(); m.LastSequence != 0 {
				t.Errorf("opened at %d", m.LastSequence)
			}
		}},
		{"the end of the stream", func(t *testing.T, b *bench) {
			quiet := make(chan struct{})
			b.p.CloseLane(b.lane, func() { close(quiet) })
			<-quiet
		}},
		{"a newer instance", func(t *testing.T, b *bench) {
			if e := <-b.p.Quiesce(7); e != nil {
				t.Error(e)
			}
		}},
		{"a settle", func(t *testing.T, b *bench) {
			done := make(chan *wire.Resolved, 1)
			b.p.Resolve(ResolveRequest{Batch: identity(t), Settle: true, Reply: func(m *wire.Resolved, _ *wire.Error) { done <- m }})
			if m := <-done; m == nil || m.Outcome != wire.ResolveStored || m.Offset != 0 {
				t.Errorf("settled: %+v", m)
			}
		}},
		{"the end of the producer", func(t *testing.T, b *bench) {
			done := make(chan *wire.Error, 1)
			b.p.CloseProducer(7, func(e *wire.Error) { done <- e })
			if e := <-done; e != nil {
				t.Error(e)
			}
		}},
	}
	for _, row := range rows {
		t.Run(row.reason, func(t *testing.T) {
			lazy(t, func(t *testing.T, b *bench, _ *vfs.Faulty, w *syncTimes) {
				defer b.close()
				b.write(0, "a")
				b.wantWritten(0, false, -1)
				time.Sleep(30 * ms)
				row.wait(t, b)
				if b.p.HighWatermark() < 1 {
					t.Error("it was not durable yet")
				}
				time.Sleep(time.Second)
				w.want(t, row.reason, 30*ms)
			})
		})
	}
}

// What is written while a sync runs is not taken for part of it, and is due by its own time.
func TestWrittenDuringASync(t *testing.T) {
	lazy(t, func(t *testing.T, b *bench, _ *vfs.Faulty, w *syncTimes) {
		defer b.close()
		release := w.hold()
		b.give(0, "a")
		synctest.Wait()
		time.Sleep(10 * ms)
		b.write(1, "b")
		b.wantWritten(1, false, -1) // a is not durable, whatever b's sender asked for
		b.silent()
		time.Sleep(10 * ms)
		release()
		r := <-b.sink
		if r.BaseSequence != 0 || r.Provisional || r.PersistedThrough != 0 {
			t.Fatalf("the batch that waited got %+v", r)
		}
		time.Sleep(time.Second)
		if hw := b.p.HighWatermark(); hw != 2 {
			t.Errorf("readers see up to %d", hw)
		}
		w.want(t, "afterwards", 0, 110*ms)
	})
}

// A sync that takes longer than what is written may wait is followed by the next at once.
func TestSlowSyncs(t *testing.T) {
	lazy(t, func(t *testing.T, b *bench, _ *vfs.Faulty, w *syncTimes) {
		defer b.close()
		release := w.hold()
		b.give(0, "a")
		synctest.Wait()
		b.write(1, "b")
		b.wantWritten(1, false, -1)
		time.Sleep(250 * ms)
		release()
		b.wantSynced(0, false, 0)
		w.want(t, "behind the slow one", 0, 250*ms)
	})
}

// A retry is answered when the original is as durable as the one who retries asks.
func TestRetriesOfWhatIsOnlyWritten(t *testing.T) {
	lazy(t, func(t *testing.T, b *bench, _ *vfs.Faulty, w *syncTimes) {
		defer b.close()
		release := w.hold()
		b.write(0, "a")
		b.wantWritten(0, false, -1)
		b.write(0, "a")
		b.wantWritten(0, true, -1)
		b.give(0, "a")
		b.silent()
		b.write(0, "a") // nor does the one who waits hold up the one who does not
		b.wantWritten(0, true, -1)
		time.Sleep(time.Second)
		b.silent()
		release()
		b.wantSynced(0, true, 0)
		b.write(0, "a")
		b.wantSynced(0, true, 0)
	})
}

// The window holds five batches, and a sender who does not wait for syncs has more under way.
// One from behind it is found in the log, and is no more durable for it.
func TestRetryFromBehindTheWindowOfWhatIsOnlyWritten(t *testing.T) {
	lazy(t, func(t *testing.T, b *bench, _ *vfs.Faulty, w *syncTimes) {
		defer b.close()
		b.give(0, "v")
		b.wantSynced(0, false, 0)
		release := w.hold()
		for i := range batchfmt.Offset(8) {
			persisted := batchfmt.Seq(0)
			if i > 3 {
				persisted = -1 // by then the window knows of nothing that is durable
			}
			b.write(batchfmt.Seq(i+1), "v")
			b.wantWritten(i+1, false, persisted)
		}
		b.write(1, "v")
		b.wantWritten(1, true, -1)
		b.give(2, "v")
		b.silent()
		release()
		b.wantSynced(2, true, 2)
	})
}

// Whoever asks what became of a batch that is only written learns that it is in flight.
func TestResolveOfWhatIsOnlyWritten(t *testing.T) {
	lazy(t, func(t *testing.T, b *bench, _ *vfs.Faulty, w *syncTimes) {
		defer b.close()
		release := w.hold()
		b.write(0, "a")
		b.wantWritten(0, false, -1)
		answers := make(chan *wire.Resolved, 2)
		ask := func(settle bool) {
			b.p.Resolve(ResolveRequest{
				Batch: producerstate.IdentityOf(sealed(t, 7, 0, "a")), Settle: settle,
				Reply: func(m *wire.Resolved, _ *wire.Error) { answers <- m },
			})
		}
		ask(false)
		if m := <-answers; m == nil || m.Outcome != wire.ResolveInFlight {
			t.Errorf("whoever only looks gets %+v", m)
		}
		ask(true)
		synctest.Wait()
		if len(answers) > 0 {
			t.Fatalf("settled before the sync: %+v", <-answers)
		}
		release()
		if m := <-answers; m == nil || m.Outcome != wire.ResolveStored {
			t.Errorf("settled: %+v", m)
		}
	})
}

// Who waited learns that nothing is certain; who did not wait had his answer.
func TestSyncOfWrittenFails(t *testing.T) {
	lazy(t, func(t *testing.T, b *bench, disk *vfs.Faulty, w *syncTimes) {
		b.write(0, "a")
		b.wantWritten(0, false, -1)
		disk.FailSync(1, syscall.EIO)
		time.Sleep(100 * ms)
		synctest.Wait()
		if !b.p.Failed() {
			t.Error("the partition goes on")
		}
		b.write(0, "a") // it may be lost
		b.wantCode(wire.CodeDurabilityUnknown)
		b.write(1, "b")
		b.wantCode(wire.CodePartitionStopped)
		time.Sleep(time.Second)
		w.want(t, "no second try", 100*ms)
		if n := b.p.cfg.Counters.Batches.Provisional.Load(); n != 1 {
			t.Errorf("%d provisional answers were counted", n)
		}
		b.p.Close(wire.Errorf(wire.CodeShutdown, ""))
	})
}

func TestAppendOfWrittenFails(t *testing.T) {
	lazy(t, func(t *testing.T, b *bench, disk *vfs.Faulty, _ *syncTimes) {
		defer b.close()
		disk.FailWrite(1, syscall.EIO)
		b.together(func() {
			b.write(0, "a")
			b.write(0, "a")
			b.give(0, "a")
		})
		for range 3 {
			b.wantCode(wire.CodeStorageError)
		}
		b.write(0, "a")
		b.wantWritten(0, false, -1)
	})
}

// A group with both kinds answers each as it asked.
func TestBothKindsInOneGroup(t *testing.T) {
	lazy(t, func(t *testing.T, b *bench, _ *vfs.Faulty, w *syncTimes) {
		defer b.close()
		release := w.hold()
		b.together(func() {
			b.give(0, "a")
			b.write(1, "b")
			b.give(2, "c")
			b.write(0, "a")
		})
		b.wantWritten(1, false, -1)
		b.wantWritten(0, true, -1)
		b.silent()
		release()
		b.wantSynced(0, false, 0)
		b.wantSynced(2, false, 2)
		w.want(t, "for both", 0)
	})
}

func TestPlainBatchesAreWritten(t *testing.T) {
	lazy(t, func(t *testing.T, b *bench, _ *vfs.Faulty, w *syncTimes) {
		defer b.close()
		lane, _ := b.p.OpenPlain()
		for i := range batchfmt.Offset(2) {
			b.writeAs(Produce{Opening: lane, Batch: plainBatch(t, "a"), Confirmed: 40})
			b.wantWritten(i, false, -1)
		}
		time.Sleep(time.Second)
		w.want(t, "in time", 100*ms)
		if hw := b.p.HighWatermark(); hw != 2 {
			t.Errorf("readers see up to %d", hw)
		}
	})
}

func plainBatch(t *testing.T, value string) batchfmt.Batch {
	t.Helper()
	var builder batchfmt.Builder
	must(t, builder.Add(&batchfmt.Record{Value: []byte(value)}))
	raw, err := builder.Seal(nil, batchfmt.Seal{Version: batchfmt.Version1})
	must(t, err)
	b, err := batchfmt.Parse(raw)
	must(t, err)
	return b
}

// A stop in good order syncs what nobody waits for; a crash takes it, and whoever was told that
// it is written learns of that when he opens the lane again.
func TestWrittenAndThenTheEnd(t *testing.T) {
	rows := []struct {
		reason string
		end    func(*bench)
		last   batchfmt.Seq
	}{
		{"a stop in good order", (*bench).close, 1},
		{"a crash", func(*bench) {}, 0},
	}
	for _, row := range rows {
		t.Run(row.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := vfs.NewMem()
				b := openPartition(t, mem)
				b.openLane()
				b.give(0, "a")
				b.wantSynced(0, false, 0)
				b.write(1, "b")
				b.wantWritten(1, false, 0)
				row.end(b)
				left := mem.CrashClone()
				if b.p.queueIsOpen() {
					b.p.Abandon()
				}
				b.reopenAfterCrash(left, row.last)
			})
		})
	}
}

func (p *Partition) queueIsOpen() bool {
	p.queue.Lock()
	defer p.queue.Unlock()
	return p.queue.closed == nil
}

// reopenAfterCrash opens the lane as one does to whom sequence 1 was acknowledged.
func (b *bench) reopenAfterCrash(left vfs.FS, last batchfmt.Seq) {
	t := b.t
	t.Helper()
	b = openPartition(t, left)
	defer b.close()
	sent := batchfmt.Seq(1)
	acked := &wire.LanePoint{Sequence: 1, Offset: 1, Digest: sealed(t, 7, 1, "b").Digest()}
	opened, refused := make(chan *wire.LaneOpened, 1), make(chan *wire.Error, 1)
	b.p.OpenLane(OpenRequest{Grant: b.grant, Acked: acked, Sent: &sent, Reply: func(m *wire.LaneOpened, e *wire.Error) {
		opened <- m
		refused <- e
	}})
	m, e := <-opened, <-refused
	switch {
	case last == 1:
		if e != nil || m.LastSequence != 1 {
			t.Errorf("opened at %+v, %v", m, e)
		}
	case e == nil || e.Code != wire.CodeDataLoss || e.Sequence != 0 || e.Expected != 1:
		t.Errorf("opened at %+v, %v", m, e)
	}
	if hw := b.p.HighWatermark(); hw != batchfmt.Offset(last)+1 {
		t.Errorf("readers see up to %d", hw)
	}
}

// The durable offset in a batch's header is what was synced when it was appended, not what was
// acknowledged.
func TestWrittenHeadersTellTheTruth(t *testing.T) {
	lazy(t, func(t *testing.T, b *bench, _ *vfs.Faulty, _ *syncTimes) {
		defer b.close()
		b.give(0, "a")
		b.wantSynced(0, false, 0)
		for i := range batchfmt.Offset(3) {
			b.write(batchfmt.Seq(i+1), "b")
			b.wantWritten(i+1, false, 0)
		}
		time.Sleep(time.Second)
		got, next, e := b.p.Read(nil, 0, 1<<20)
		if e != nil || next != 4 {
			t.Fatalf("read up to %d: %v", next, e)
		}
		for len(got) > 0 {
			x, err := batchfmt.Parse(got)
			must(t, err)
			if want := min(x.BaseOffset(), 1); x.Durable() != want {
				t.Errorf("batch at %d says durable up to %d, want %d", x.BaseOffset(), x.Durable(), want)
			}
			got = got[x.Size():]
		}
	})
}
