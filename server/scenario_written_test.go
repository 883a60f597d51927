package server_test

import (
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// Batches that are acknowledged when they are written, before their sync.
var writtenScenarios = []scenario{
	{97, "written-and-lost", "acknowledged as written, and the power goes off before the sync: it was provisional, no reader saw it, and the lane is DATA_LOSS; what dies with the process alone is not lost",
		[]string{"early-ack", "written-as-synced", "witness-off"}, writtenAndLost},
	{98, "written-and-retried", "a retry of what is only written: a provisional DUPLICATE at once for a sender who asks for no more, after the sync for one who does",
		[]string{"early-ack", "early-duplicate", "written-as-synced"}, writtenAndRetried},
	{99, "written-beside-synced", "both kinds in one lane: each is answered as it asked, and what is written takes nothing before it for persisted",
		[]string{"early-ack", "written-persists"}, writtenBesideSynced},
	{100, "written-in-time", "nobody waits for a sync: it comes all the same, and readers see the batch after it",
		[]string{"sync-not-due"}, writtenInTime},
	{101, "written-and-a-failed-sync", "the sync of what was acknowledged as written fails: the partition stops, those who waited learn nothing, after a restart the lane is DATA_LOSS",
		[]string{"retry-failed-sync"}, writtenAndAFailedSync},
}

// write sends a batch and asks for no more than that it is written.
func (f *fixture) write(batch []byte) {
	f.lane.Send(&wire.Produce{Lane: 1, Durability: wire.Written, ConfirmedThrough: -1, Batch: batch})
}

// wantWritten checks the answer to a batch that is not durable.
func wantWritten(t *testing.T, r wire.ProduceResult, offset batchfmt.Offset, duplicate bool, persisted batchfmt.Seq) {
	t.Helper()
	wantStored(t, r, offset, duplicate)
	if !r.Provisional || r.PersistedThrough != persisted {
		t.Fatalf("provisional %v, persisted through %d; want provisional and %d", r.Provisional, r.PersistedThrough, persisted)
	}
}

// wantSynced checks the answer to a batch that is durable.
func wantSynced(t *testing.T, r wire.ProduceResult, offset batchfmt.Offset, duplicate bool, persisted batchfmt.Seq) {
	t.Helper()
	wantStored(t, r, offset, duplicate)
	if r.Provisional || r.PersistedThrough != persisted {
		t.Fatalf("provisional %v, persisted through %d; want %d, and not provisional", r.Provisional, r.PersistedThrough, persisted)
	}
}

// openAcked opens the lane on a new connection as one does to whom a batch was acknowledged.
func (f *fixture) openAcked(t *testing.T, batch []byte, offset batchfmt.Offset) wire.Message {
	t.Helper()
	b, err := batchfmt.Parse(batch)
	if err != nil {
		t.Fatal(err)
	}
	f.c = rawclient.Dial(t, f.URL())
	last := b.LastSequence()
	acked := wire.LanePoint{Sequence: last, Offset: offset + batchfmt.Offset(last-b.BaseSequence()), Digest: b.Digest()}
	return f.openLane(func(m *wire.OpenLane) { m.Acked, m.Sent = &acked, &last })
}

// wantLoss checks that the lane is refused, which has up to have.
func (f *fixture) wantLoss(t *testing.T, reply wire.Message, have, expected batchfmt.Seq) {
	t.Helper()
	if e := wantError(t, reply, wire.CodeDataLoss); e.Sequence != int64(have) || e.Expected != int64(expected) {
		t.Fatalf("the answer has %d and expects %d, want %d and %d", e.Sequence, e.Expected, have, expected)
	}
}

func writtenAndLost(t *testing.T) {
	rows := []struct {
		reason string
		crash  func(f *fixture, release func())
		lost   bool
	}{
		{"power-off", func(f *fixture, release func()) { f.CrashWith(release) }, true},
		{"kill", func(f *fixture, release func()) { release(); f.Kill() }, false},
	}
	for _, row := range rows {
		t.Run(row.reason, func(t *testing.T) {
			f := setUp(t, servertest.InMemory())
			f.stored(t, 0, 1)
			_, release := f.HoldSync()
			first, last := f.batch(t, 2, two(2)...), f.batch(t, 4, two(4)...)
			f.write(first)
			wantWritten(t, f.lane.Result(), 2, false, 1)
			f.write(last)
			wantWritten(t, f.lane.Result(), 4, false, 1)
			f.wantLog(t, 1)
			row.crash(f, release)

			reply := f.openAcked(t, last, 4)
			if !row.lost {
				if m, ok := reply.(*wire.LaneOpened); !ok || m.LastSequence != 5 || m.LastOffset != 5 {
					t.Fatalf("opened with %+v", reply)
				}
				f.wantLog(t, 3)
				return
			}
			f.wantLoss(t, reply, 1, 5)
			f.wantLog(t, 1)
			// Whoever decides to go on does so behind what there is.
			f.reconnect(t, 5)
			f.lane.Produce(first)
			wantSynced(t, f.lane.Result(), 2, false, 3)
		})
	}
}

func writtenAndRetried(t *testing.T) {
	f := setUp(t)
	_, release := f.HoldSync()
	b := f.batch(t, 0, two(0)...)
	f.write(b)
	wantWritten(t, f.lane.Result(), 0, false, -1)
	f.write(b)
	wantWritten(t, f.lane.Result(), 0, true, -1)
	f.lane.Produce(b)
	f.appended(t, 9)
	f.write(b)
	wantWritten(t, f.lane.Result(), 0, true, -1)
	release()
	wantSynced(t, f.lane.Result(), 0, true, 1)
	f.write(b)
	wantSynced(t, f.lane.Result(), 0, true, 1)
	f.wantLog(t, 1)
}

func writtenBesideSynced(t *testing.T) {
	f := setUp(t)
	began, release := f.HoldSync()
	f.lane.Produce(f.batch(t, 0, two(0)...))
	<-began
	f.write(f.batch(t, 2, two(2)...))
	if r := f.lane.Result(); r.BaseSequence != 2 {
		t.Fatalf("sequence %d was answered before its sync: %v", r.BaseSequence, r.Code)
	} else {
		wantWritten(t, r, 2, false, -1)
	}
	f.lane.Produce(f.batch(t, 4, two(4)...))
	f.appended(t, 9)
	release()
	r := f.lane.Result()
	if r.BaseSequence != 0 || r.PersistedThrough < 1 {
		t.Fatalf("sequence %d, persisted through %d", r.BaseSequence, r.PersistedThrough)
	}
	wantStored(t, r, 0, false)
	wantSynced(t, f.lane.Result(), 4, false, 5)
	f.write(f.batch(t, 6, two(6)...))
	r = f.lane.Result()
	if wantStored(t, r, 6, false); r.Provisional && r.PersistedThrough != 5 {
		t.Fatalf("persisted through %d", r.PersistedThrough)
	}
}

func writtenInTime(t *testing.T) {
	f := setUp(t)
	plainLane, _ := f.c.OpenLane(&wire.OpenLane{Lane: 1, TopicID: f.topic.ID})
	plainLane.Send(&wire.Produce{Lane: 1, Durability: wire.Written, ConfirmedThrough: -1, Batch: plain(t, "plain")})
	plainLane.Result()
	f.write(f.batch(t, 0, two(0)...))
	f.lane.Result()
	deadline := time.Now().Add(rawclient.Patience)
	for {
		values, next := f.c.Subscribe(f.topic, 0)
		switch {
		case next == 3 && len(values) == 3 && values[0] == "plain":
			return
		case time.Now().After(deadline):
			t.Fatalf("readers see %q up to %d", values, next)
		}
	}
}

func writtenAndAFailedSync(t *testing.T) {
	f := setUp(t, servertest.InMemory()) // where a failed sync drops what it was to write
	f.stored(t, 0, 1)
	began, release := f.HoldSync()
	b := f.batch(t, 2, two(2)...)
	f.write(b)
	wantWritten(t, f.lane.Result(), 2, false, 1)
	f.lane.Produce(f.batch(t, 4, two(4)...))
	<-began
	f.appended(t, 9)
	f.FailSync()
	release()
	wantCode(t, f.lane.Result(), wire.CodeDurabilityUnknown)
	f.write(b)
	wantCode(t, f.lane.Result(), wire.CodeDurabilityUnknown)
	f.write(f.batch(t, 6, two(6)...))
	wantCode(t, f.lane.Result(), wire.CodePartitionStopped)
	f.wantLog(t, 1)

	f.c.Conn.CloseWithError(0, "")
	f.Restart()
	f.wantLoss(t, f.openAcked(t, b, 2), 1, 3)
	f.wantLog(t, 1)
}

// A topic that is closed in good order has what was only written, and a crash right behind it
// takes nothing.
func TestWrittenAndACleanStop(t *testing.T) {
	f := setUp(t, servertest.InMemory())
	batches := make([][]byte, 5)
	for i := range batches {
		seq := batchfmt.Seq(2 * i)
		batches[i] = f.batch(t, seq, two(seq)...)
		f.write(batches[i])
		wantStored(t, f.lane.Result(), batchfmt.Offset(seq), false)
	}
	f.restart(t, 9, nil)
	f.Crash()
	if m, ok := f.openAcked(t, batches[4], 8).(*wire.LaneOpened); !ok {
		t.Fatalf("opened with %+v", m)
	}
	f.wantRetries(t, batches)
	f.wantLog(t, 5)
}

// Settling waits for the sync: "stored" is never said of what a crash may still take.
func TestSettleOfWhatIsOnlyWritten(t *testing.T) {
	f := setUp(t)
	_, release := f.HoldSync()
	b := f.batch(t, 0, two(0)...)
	f.write(b)
	wantWritten(t, f.lane.Result(), 0, false, -1)
	inspect := f.settling(t, b)
	inspect.Settle = false
	if m, ok := f.c.Request(inspect).(*wire.Resolved); !ok || m.Outcome != wire.ResolveInFlight {
		t.Fatalf("whoever only looks gets %+v", m)
	}
	settled, settle := make(chan wire.Message, 1), f.settling(t, b)
	other := rawclient.Dial(t, f.URL())
	go func() { settled <- other.Request(settle) }()
	f.write(b) // answered by the same owner, whether the settle came before or not
	wantWritten(t, f.lane.Result(), 0, true, -1)
	select {
	case m := <-settled:
		t.Fatalf("settled before the sync: %+v", m)
	default:
	}
	release()
	if m, ok := (<-settled).(*wire.Resolved); !ok || m.Outcome != wire.ResolveStored || m.Offset != 0 {
		t.Fatalf("settled: %+v", m)
	}
}

// A durability that nobody has heard of is refused, and the lane goes on.
func TestDurabilitiesThatAreNotOffered(t *testing.T) {
	f := setUp(t)
	for _, d := range []wire.Durability{0, 3, 255} {
		f.lane.Send(&wire.Produce{Lane: 1, Durability: d, ConfirmedThrough: -1, Batch: f.batch(t, 0, two(0)...)})
		wantCode(t, f.lane.Result(), wire.CodeInvalidDurability)
	}
	f.stored(t, 0, 1)
}
