package broker

import (
	"context"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/catalog"
	"github.com/quoin-io/quoin/server/internal/partition"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type sink chan wire.ProduceResult

func (s sink) Result(r wire.ProduceResult) { s <- r }

// bench is a broker with a topic of one partition, on a disk that can be held.
type bench struct {
	t     *testing.T
	b     *Broker
	disk  *vfs.Faulty
	topic catalog.TopicID
	part  *partition.Partition
}

func openBroker(t *testing.T) *bench {
	t.Helper()
	return openBrokerWith(t, Config{})
}

func openBrokerWith(t *testing.T, cfg Config) *bench {
	t.Helper()
	disk := vfs.NewFaulty(vfs.NewMem())
	cfg.Data, cfg.FS, cfg.Now, cfg.Log = t.TempDir(), disk, time.Now, slog.New(slog.DiscardHandler)
	b, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	m, e := b.CreateTopic(&wire.CreateTopic{Name: "t", Partitions: 1})
	if e != nil {
		t.Fatal(e)
	}
	id := m.(*wire.TopicCreated).Topic.ID
	part, e := b.Partition(id, 0)
	if e != nil {
		t.Fatal(e)
	}
	return &bench{t: t, b: b, disk: disk, topic: id, part: part}
}

// init gets a producer id for an instance, with a name or without.
func (x *bench) init(ctx context.Context, instance byte, name string) (*wire.ProducerInited, *wire.Error) {
	m := &wire.InitProducer{Name: name}
	m.Instance[0] = instance
	r, e := x.b.InitProducer(ctx, m, "somebody")
	if e != nil {
		return nil, e
	}
	return r.(*wire.ProducerInited), nil
}

func (x *bench) mustInit(instance byte, name string) *wire.ProducerInited {
	x.t.Helper()
	p, e := x.init(context.Background(), instance, name)
	if e != nil {
		x.t.Fatal(e)
	}
	return p
}

func (x *bench) authorize(p *wire.ProducerInited) (*partition.Grant, *wire.Error) {
	return x.b.Authorize(&wire.OpenLane{ProducerID: p.ProducerID, Key: p.Key, Epoch: p.Epoch}, x.part)
}

// open opens a lane as a session does.
func (x *bench) open(p *wire.ProducerInited) (*partition.Grant, *partition.Opening) {
	x.t.Helper()
	g, e := x.authorize(p)
	if e != nil {
		x.t.Fatal(e)
	}
	opened := make(chan *wire.Error, 1)
	o := x.part.OpenLane(partition.OpenRequest{Grant: g, Epoch: p.Epoch, Fresh: true, Reply: func(_ *wire.LaneOpened, e *wire.Error) { opened <- e }})
	if e := <-opened; e != nil {
		x.t.Fatal(e)
	}
	return g, o
}

// closeLane lets go of a lane as a session does.
func (x *bench) closeLane(g *partition.Grant, o *partition.Opening) {
	x.part.CloseLane(o, func() { x.b.Release(g, x.part) })
}

func (x *bench) produce(o *partition.Opening, p *wire.ProducerInited, base batchfmt.Seq, s sink) {
	x.t.Helper()
	var b batchfmt.Builder
	if err := b.Add(&batchfmt.Record{Value: []byte("v")}); err != nil {
		x.t.Fatal(err)
	}
	raw, err := b.Seal(nil, batchfmt.Seal{Version: batchfmt.Version2, ProducerID: p.ProducerID, Epoch: p.Epoch, BaseSequence: base})
	if err != nil {
		x.t.Fatal(err)
	}
	batch, err := batchfmt.Parse(raw)
	if err != nil {
		x.t.Fatal(err)
	}
	if e := x.part.Produce(partition.Produce{Opening: o, Batch: batch, Sink: s, Confirmed: -1}); e != nil {
		x.t.Fatal(e)
	}
}

// hold makes calls of one kind wait. began is closed when the first has come.
func (x *bench) hold(kind vfs.Op) (began chan struct{}, release func()) {
	began, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	x.disk.Observe(func(op vfs.Op, _ string) {
		if op == kind {
			once.Do(func() { close(began) })
			<-gate
		}
	})
	return began, func() {
		x.disk.Observe(nil)
		close(gate)
	}
}

// takeOver lets a second instance take the name and reports when it has its answer.
func (x *bench) takeOver() <-chan *wire.Error {
	done := make(chan *wire.Error, 1)
	go func() {
		_, e := x.init(context.Background(), 2, "n")
		done <- e
	}()
	return done
}

// wantWaiting checks that the answer is not there, given the time for it. It proves
// nothing when it passes, and always finds an answer that comes too soon in the end: the
// order of what happens next is checked as well.
func (x *bench) wantWaiting(done <-chan *wire.Error) {
	x.t.Helper()
	select {
	case e := <-done:
		x.t.Fatalf("answered while the older instance still has a batch under way: %v", e)
	case <-time.After(50 * time.Millisecond):
	}
}

// The stream of the older instance has ended, but its batch still stands in the queue of
// an owner that is busy: the newer instance is not answered before it is settled.
func TestTakingOverWaitsForBatchesOfEndedStreams(t *testing.T) {
	x := openBroker(t)
	first, stranger := x.mustInit(1, "n"), x.mustInit(9, "")
	g, o := x.open(first)
	_, other := x.open(stranger)
	began, release := x.hold(vfs.OpWrite)
	results := make(sink, 4)
	x.produce(other, stranger, 0, results)
	<-began
	x.produce(o, first, 0, results)
	x.closeLane(g, o)
	done := x.takeOver()
	x.wantWaiting(done)
	release()
	if e := <-done; e != nil {
		t.Fatal(e)
	}
	select {
	case <-results:
	default:
		t.Fatal("answered before the batches were")
	}
}

// The first asking was given up while it waited; asking again waits again.
func TestTakingOverAgainWaitsAgain(t *testing.T) {
	x := openBroker(t)
	first := x.mustInit(1, "n")
	_, o := x.open(first)
	began, release := x.hold(vfs.OpSync)
	results := make(sink, 4)
	x.produce(o, first, 0, results)
	<-began
	ctx, cancel := context.WithCancel(context.Background())
	given := make(chan *wire.Error, 1)
	go func() {
		_, e := x.init(ctx, 2, "n")
		given <- e
	}()
	x.wantWaiting(given)
	cancel()
	if e := <-given; e == nil {
		t.Fatal("the first asking succeeded")
	}
	done := x.takeOver()
	x.wantWaiting(done)
	release()
	if e := <-done; e != nil {
		t.Fatal(e)
	}
	if r := <-results; r.Code != wire.CodeOK {
		t.Errorf("the batch in flight ended with %v", r.Code)
	}
}

// Whatever the race between a lane that opens and an instance that takes over: after the
// answer nobody holds the older epoch.
func TestNobodyHoldsTheOlderEpochAfterATakeOver(t *testing.T) {
	x := openBroker(t)
	for round := range 40 {
		old := x.mustInit(byte(2*round+1), "n")
		var stop atomic.Bool
		var running sync.WaitGroup
		for range 4 {
			running.Go(func() {
				for !stop.Load() {
					g, e := x.authorize(old)
					if e != nil {
						return
					}
					x.b.Release(g, x.part)
				}
			})
		}
		fresh := x.mustInit(byte(2*round+2), "n")
		x.b.grants.Lock()
		for _, h := range x.b.grants.holdings[old.ProducerID] {
			if h.grant.Epoch < fresh.Epoch && h.grant.Holds() {
				t.Errorf("epoch %d holds after epoch %d was given", h.grant.Epoch, fresh.Epoch)
			}
		}
		x.b.grants.Unlock()
		stop.Store(true)
		running.Wait()
	}
	x.b.grants.Lock()
	defer x.b.grants.Unlock()
	if n := len(x.b.grants.holdings); n != 0 {
		t.Errorf("%d holdings are left with no lane open", n)
	}
}

// A topic that could neither be opened when it was made nor taken back can be deleted.
func TestDeleteOfATopicThatIsNotOpen(t *testing.T) {
	x := openBroker(t)
	if _, err := x.b.catalog.CreateTopic("x", 1, catalog.TopicConfig{}); err != nil {
		t.Fatal(err)
	}
	if _, e := x.b.DeleteTopic(&wire.DeleteTopic{Name: "x"}); e != nil {
		t.Fatal(e)
	}
	if _, e := x.b.CreateTopic(&wire.CreateTopic{Name: "x", Partitions: 1}); e != nil {
		t.Fatal(e)
	}
}

// A deletion that a crash has cut short is finished by the next start.
func TestDeletionIsFinishedAtTheNextStart(t *testing.T) {
	data, fs := t.TempDir(), vfs.NewMem()
	open := func() *Broker {
		b, err := Open(Config{Data: data, FS: fs, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := open()
	m, e := b.CreateTopic(&wire.CreateTopic{Name: "t", Partitions: 2})
	if e != nil {
		t.Fatal(e)
	}
	id := m.(*wire.TopicCreated).Topic.ID
	if err := b.catalog.DeleteTopic(id); err != nil { // and then the crash
		t.Fatal(err)
	}
	b.Abandon()
	b = open()
	defer b.Close()
	if _, e := b.Partition(id, 0); e == nil {
		t.Error("the topic is open")
	}
	if names, err := fs.List(b.topicDir(id)); err == nil {
		t.Errorf("its files are left: %v", names)
	}
}

// The background finds damage that nobody has read yet.
func TestScrubRunsInTheBackground(t *testing.T) {
	x := openBrokerWith(t, Config{ScrubEvery: time.Millisecond})
	p := x.mustInit(1, "")
	_, o := x.open(p)
	results := make(sink, 4)
	for i := range 2 {
		x.produce(o, p, batchfmt.Seq(i), results)
		if r := <-results; r.Code != wire.CodeOK {
			t.Fatalf("%+v", r)
		}
	}
	x.damage()
	for len(x.part.Damaged()) == 0 {
		runtime.Gosched()
	}
}

// damage flips a bit in the first batch of the partition.
func (x *bench) damage() {
	x.t.Helper()
	dir := filepath.Join(x.b.topicDir(x.topic), "0")
	names, err := x.disk.List(dir)
	if err != nil {
		x.t.Fatal(err)
	}
	for _, name := range names {
		if filepath.Ext(name) != ".seg" {
			continue
		}
		f, err := x.disk.Open(filepath.Join(dir, name))
		if err != nil {
			x.t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{0xff}, 60); err != nil {
			x.t.Fatal(err)
		}
		f.Close()
	}
}
