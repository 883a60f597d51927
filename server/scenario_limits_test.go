package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// What is left of a producer that was away, when memory or the table on disk has no room for
// it any more, or the disk does not give it back.
var limitScenarios = []scenario{
	{53, "idle-with-open-outcomes", "idle for a day with five open outcomes, and out of memory by then: five DUPLICATEs, also after restarts",
		[]string{"evict-without-row"}, idleWithOpenOutcomes},
	{54, "no-room-in-memory", "all in use: PRODUCER_LIMIT_REACHED, retriable; else the least recently used leaves, and is still answered",
		[]string{"evict-without-row"}, noRoomInMemory},
	{55, "forgotten-producer", "the first batch of a producer that was forgotten: DUPLICATE while the log has it, else UNKNOWN_PRODUCER_ID; one with a name is not forgotten",
		[]string{"evict-without-row", "forgotten-not-remembered", "resolve-guesses", "indexes-unasked"}, forgottenProducer},
	{56, "short-lived-producers", "hundreds that come, write and close: memory is bounded, they leave before all others, whoever writes notices nothing",
		[]string{"closed-stay"}, shortLivedProducers},
	{94, "memory-unreadable", "what is remembered on disk cannot be read: LOOK_UP_FAILED, or the partition is not served; never taken for new",
		[]string{"unread-as-new"}, memoryUnreadable},
	{102, "forgotten-and-in-the-log", "a producer that was forgotten, whose batches the log has: what it proves is told, DUPLICATE, SEQUENCE_CONFLICT or BATCH_UNREADABLE; what follows, or was fenced, or is removed: UNKNOWN_PRODUCER_ID, never appended",
		[]string{"index-lane-accepts", "indexes-unasked"}, forgottenAndInTheLog},
}

// limits gives partitions room for so many producers in memory, and on disk.
func limits(memory, disk int) servertest.Option {
	return servertest.Configure(func(c *server.Config) { c.MaxProducers, c.MaxRetired = memory, disk })
}

// A visitor is a producer that came, wrote, and went before it had an answer.
type visitor struct {
	p       *wire.ProducerInited
	batches [][]byte
	at      []batchfmt.Offset
}

// visit lets p come, write n batches of two records, and go.
func (f *fixture) visit(t *testing.T, p *wire.ProducerInited, n int) *visitor {
	t.Helper()
	v := &visitor{p: p}
	l := f.c.Lane(p, f.topic, 0, -1)
	for i := range n {
		v.write(t, l, batchfmt.Seq(2*i))
	}
	l.Leave()
	return v
}

// write appends the next batch.
func (v *visitor) write(t *testing.T, l *rawclient.Lane, base batchfmt.Seq) {
	t.Helper()
	b := rawclient.Batch(t, v.p, base, two(base)...)
	l.Produce(b)
	r := l.Result()
	wantStored(t, r, r.BaseOffset, false)
	v.batches, v.at = append(v.batches, b), append(v.at, r.BaseOffset)
}

func (v *visitor) sent() batchfmt.Seq { return batchfmt.Seq(2*len(v.batches)) - 1 }

// comesBack lets the visitor ask again for all that it sent, go on, and go.
func (v *visitor) comesBack(t *testing.T, f *fixture) {
	t.Helper()
	l := f.c.Lane(v.p, f.topic, 0, v.sent())
	for i, b := range v.batches {
		l.Produce(b)
		wantStored(t, l.Result(), v.at[i], true)
	}
	v.write(t, l, v.sent()+1)
	l.Leave()
}

// opening is how the visitor asks for its lane.
func (v *visitor) opening(f *fixture) *wire.OpenLane {
	return &wire.OpenLane{
		Lane: 1, ProducerID: v.p.ProducerID, Key: v.p.Key, Epoch: v.p.Epoch, TopicID: f.topic.ID, Sent: seqPtr(v.sent()),
	}
}

// lanes is what the partition knows of a producer, or of all if pid is 0.
func (f *fixture) lanes(t *testing.T, pid batchfmt.ProducerID) *wire.ProducersDescribed {
	t.Helper()
	m := f.c.Request(&wire.DescribeProducers{TopicID: f.topic.ID, ProducerID: pid})
	d, ok := m.(*wire.ProducersDescribed)
	if !ok {
		t.Fatalf("describe producers: %+v", m)
	}
	return d
}

// wantRetired checks whether the lane of a producer is in memory or in the table on disk.
func (f *fixture) wantRetired(t *testing.T, pid batchfmt.ProducerID, retired bool) wire.LaneInfo {
	t.Helper()
	d := f.lanes(t, pid)
	if len(d.Lanes) != 1 || d.Lanes[0].Retired != retired {
		t.Fatalf("producer %d: %+v, want one lane, retired %v", pid, d.Lanes, retired)
	}
	return d.Lanes[0]
}

// until tries something again and again that comes true by itself.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(rawclient.Patience); !done(); {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// restarts checks something at once, and after each way in which a server can go down. The
// fixture must be in memory.
func (f *fixture) restarts(t *testing.T, check func()) {
	t.Helper()
	for _, restart := range []func(){func() {}, f.Restart, f.Kill, f.Crash} {
		f.c.Conn.CloseWithError(0, "")
		restart()
		f.c = rawclient.Dial(t, f.URL())
		check()
	}
}

// allRetired lets a day pass in which no producer is there.
func (f *fixture) allRetired(t *testing.T) {
	t.Helper()
	until(t, "idle lanes leave memory", func() bool {
		f.AdvanceUptime(25 * time.Hour)
		f.Running().RetireIdle()
		return f.lanes(t, 0).Total == 0
	})
}

func idleWithOpenOutcomes(t *testing.T) {
	f := setUp(t, servertest.InMemory())
	batches := f.fiveWithoutAcks(t)
	f.restarts(t, func() {
		f.allRetired(t)
		f.lane = f.c.Lane(f.p, f.topic, 0, 9)
		if info := f.wantRetired(t, f.p.ProducerID, false); len(info.Window) != 5 {
			t.Fatalf("it remembers %d batches", len(info.Window))
		}
		f.wantRetries(t, batches)
	})
	f.stored(t, 10, 1)
	// A stream whose opening is over may still be there when the lane leaves.
	old := f.lane
	f.c.Lane(f.p, f.topic, 0, 11).Leave()
	f.allRetired(t)
	for _, b := range [][]byte{batches[0], f.batch(t, 12, two(12)...)} {
		old.Produce(b)
		wantCode(t, old.Result(), wire.CodeSuperseded)
	}
	f.wantLog(t, 6)
}

func noRoomInMemory(t *testing.T) {
	t.Run("all in use", allInUse)
	t.Run("none in use", noneInUse)
}

func allInUse(t *testing.T) {
	f := setUp(t, limits(4, 0))
	away := f.visit(t, f.c.NewProducer(), 1)
	lanes := []*rawclient.Lane{f.lane}
	users := []*visitor{{p: f.p}}
	for range 3 {
		users = append(users, &visitor{p: f.c.NewProducer()})
		lanes = append(lanes, f.c.Lane(users[len(lanes)].p, f.topic, 0, -1))
	}
	for i, v := range users {
		v.write(t, lanes[i], 0)
	}
	newcomer := &visitor{p: f.c.NewProducer()}
	refused := func() {
		t.Helper()
		_, m := f.c.OpenLane(newcomer.opening(f))
		e := wantError(t, m, wire.CodeProducerLimitReached)
		if e.Expected != 4 || !strings.Contains(e.Detail, "4 producers") || !e.Code.Info().Retry || e.Code.Info().Outcome != wire.NothingHappened {
			t.Fatalf("the refusal: %+v", e)
		}
	}
	refused()
	for i, v := range users {
		v.write(t, lanes[i], 2)
	}
	f.wantRetired(t, away.p.ProducerID, true)
	wantFate(t, f.c.Request(f.asking(t, away.batches[0])), wire.ResolveStored, away.at[0])
	ask := f.asking(t, rawclient.Batch(t, away.p, 2, "never sent"))
	wantFate(t, f.c.Request(ask), wire.ResolveNotYet, -1)
	ask.Key, ask.Settle = away.p.Key, true // the fence takes a place
	wantError(t, f.c.Request(ask), wire.CodeProducerLimitReached)
	// Nor does one leave whose stream has ended, while a batch of it waits for its sync.
	began, release := f.HoldDisk(func(op vfs.Op, name string) bool {
		return op == vfs.OpSync && strings.HasSuffix(name, ".seg")
	})
	b := rawclient.Batch(t, users[1].p, 4, two(4)...)
	lanes[1].Produce(b)
	<-began
	lanes[1].Stream.Close()
	refused()
	release()
	r := lanes[1].Result()
	wantStored(t, r, r.BaseOffset, false)
	users[1].batches, users[1].at = append(users[1].batches, b), append(users[1].at, r.BaseOffset)
	lanes[1].Leave()
	f.visit(t, newcomer.p, 1).comesBack(t, f)
	f.wantRetired(t, users[1].p.ProducerID, true)
	users[1].comesBack(t, f)
	away.comesBack(t, f)
}

func noneInUse(t *testing.T) {
	f := setUp(t, limits(4, 0), servertest.InMemory())
	f.lane.Leave() // never written, so it is not remembered
	var all []*visitor
	for i := range 12 {
		all = append(all, f.visit(t, f.c.NewProducer(), 5))
		for j, v := range all {
			f.wantRetired(t, v.p.ProducerID, j <= i-4)
		}
	}
	f.restarts(t, func() {
		for _, v := range all {
			v.comesBack(t, f)
		}
		all = append(all, f.visit(t, f.c.NewProducer(), 5))
		if n := f.lanes(t, 0).Total; n > 4 {
			t.Fatalf("%d lanes are in memory", n)
		}
	})
	var end batchfmt.Offset
	for _, v := range all {
		end += batchfmt.Offset(v.sent() + 1)
	}
	if _, next := f.c.Subscribe(f.topic, 0); next != end {
		t.Fatalf("the log ends at %d, want %d", next, end)
	}
}

// shortLived is how many come and go: what can be had in a few seconds.
const shortLived = 200

func shortLivedProducers(t *testing.T) {
	addr := freeAddr(t)
	f := setUp(t, limits(16, 0), servertest.InMemory(), servertest.Configure(func(c *server.Config) { c.AdminAddr = addr }))
	live := []*visitor{{p: f.p}}
	lanes := []*rawclient.Lane{f.lane}
	for range 2 {
		live = append(live, &visitor{p: f.c.NewProducer()})
		lanes = append(lanes, f.c.Lane(live[len(lanes)].p, f.topic, 0, -1))
	}
	var away []*visitor // they have not closed, and may come back
	for range 3 {
		away = append(away, f.visit(t, f.c.NewProducer(), 2))
	}
	var first *visitor
	cost := f.costOf(func() { live[0].write(t, lanes[0], 0) })
	for i := range shortLived {
		v := f.shortLived(t)
		if first == nil {
			first = v
		}
		if i%25 > 0 {
			continue
		}
		if n := f.lanes(t, 0).Total; n > 16 {
			t.Fatalf("%d lanes are in memory", n)
		}
		for j, v := range live {
			v.write(t, lanes[j], v.sent()+1)
		}
		for _, v := range away {
			f.wantRetired(t, v.p.ProducerID, false)
		}
	}
	if now := f.costOf(func() { live[0].write(t, lanes[0], live[0].sent()+1) }); now != cost {
		t.Errorf("a batch takes %d calls of the log's files, it took %d", now, cost)
	}
	for _, v := range live {
		if info := f.wantRetired(t, v.p.ProducerID, false); !info.Open || info.Opening > uint64(len(live)) {
			t.Errorf("the lane of a producer that writes was opened anew: %+v", info)
		}
	}
	f.wantRetired(t, first.p.ProducerID, true)
	_, m := f.c.OpenLane(first.opening(f))
	wantError(t, m, wire.CodeUnknownProducerID) // whoever closes gives up the id
	wantMetrics(t, "http://"+addr+"/", "quoin_lanes 16", `quoin_lookups_total{result="found"} 0`,
		"quoin_producer_limit_refusals_total 0")
	for _, v := range away {
		v.comesBack(t, f)
	}
}

// shortLived lets a producer come, write, close and go.
func (f *fixture) shortLived(t *testing.T) *visitor {
	t.Helper()
	v := &visitor{p: f.c.NewProducer()}
	l := f.c.Lane(v.p, f.topic, 0, -1)
	v.write(t, l, 0)
	if m, ok := f.c.Request(&wire.CloseProducer{ProducerID: v.p.ProducerID, Key: v.p.Key}).(*wire.ProducerClosed); !ok {
		t.Fatalf("not closed: %+v", m)
	}
	l.Leave()
	return v
}

// costOf counts the calls of the log's own files while fn runs.
func (f *fixture) costOf(fn func()) int64 {
	var calls atomic.Int64
	f.ObserveDisk(func(_ vfs.Op, name string) {
		if strings.HasSuffix(name, ".seg") {
			calls.Add(1)
		}
	})
	fn()
	f.ObserveDisk(nil)
	return calls.Load()
}

func memoryUnreadable(t *testing.T) {
	f := setUp(t, limits(2, 0))
	f.lane.Leave()
	var all []*visitor
	for range 6 {
		all = append(all, f.visit(t, f.c.NewProducer(), 2))
	}
	away := all[0]
	f.allRetired(t)

	f.FailReads()
	for _, code := range []wire.Code{f.openingCode(t, away), f.fateCode(t, away, false), f.fateCode(t, away, true)} {
		if code != wire.CodeLookUpFailed || !code.Info().Retry || code.Info().Outcome != wire.OutcomeUnknown {
			t.Fatalf("the disk does not read: %v", code)
		}
	}
	f.FreeDisk()
	away.comesBack(t, f)

	// At a start: the table is not to be had, and nothing else knows what is in there.
	for _, name := range []string{"retired.head", "retired-*.tab"} {
		f.restartWithout(t, name)
		for _, code := range []wire.Code{f.openingCode(t, away), f.openingCode(t, all[5]), f.fateCode(t, away, false), f.fateCode(t, away, true)} {
			if code != wire.CodePartitionStopped {
				t.Fatalf("without %s: %v", name, code)
			}
		}
		f.restartWithout(t, "")
		away.comesBack(t, f)
	}

	// A snapshot is not to be had: the log says the same.
	f.restartWithout(t, "*.snap")
	for _, v := range all {
		v.comesBack(t, f)
	}

	// The table is gone for good, and the snapshot knows that there was one.
	f.restartWithout(t, "")
	f.allRetired(t)
	f.visit(t, f.c.NewProducer(), 1) // else the stop would write no snapshot
	f.c.Conn.CloseWithError(0, "")
	f.RestartWith(func() {
		for _, pattern := range []string{"retired.head", "retired-*.tab"} {
			names, err := filepath.Glob(filepath.Join(f.partitionDir(), pattern))
			if err != nil || len(names) == 0 {
				t.Fatalf("no files %s: %v", pattern, err)
			}
			for _, name := range names {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
	f.c = rawclient.Dial(t, f.URL())
	if code := f.openingCode(t, away); code != wire.CodeUnknownProducerID {
		t.Fatalf("the table is gone: %v", code)
	}
}

// restartWithout starts the server anew while files of the pattern cannot be opened.
func (f *fixture) restartWithout(t *testing.T, pattern string) {
	t.Helper()
	f.c.Conn.CloseWithError(0, "")
	f.RestartWith(func() {
		f.FailOpen(func(name string) bool {
			match, _ := filepath.Match(pattern, filepath.Base(name))
			return match
		})
	})
	f.c = rawclient.Dial(t, f.URL())
}

// openingCode is why the visitor's lane is not opened.
func (f *fixture) openingCode(t *testing.T, v *visitor) wire.Code {
	t.Helper()
	_, m := f.c.OpenLane(v.opening(f))
	refused, ok := m.(*wire.LaneRefused)
	if !ok {
		t.Fatalf("the lane: %+v", m)
	}
	return refused.Err.Code
}

// fateCode is why nothing is said of what became of the visitor's first batch.
func (f *fixture) fateCode(t *testing.T, v *visitor, settle bool) wire.Code {
	t.Helper()
	ask := f.asking(t, v.batches[0])
	ask.Key, ask.Settle = v.p.Key, settle
	m := f.c.Request(ask)
	e, ok := m.(*wire.Error)
	if !ok {
		t.Fatalf("its fate: %+v", m)
	}
	return e.Code
}
