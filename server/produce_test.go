package server_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// fixture is a server with a topic of one partition, a producer and its open lane.
type fixture struct {
	*servertest.Server
	c     *rawclient.Client
	topic wire.TopicInfo
	p     *wire.ProducerInited
	lane  *rawclient.Lane
}

func setUp(t *testing.T, opts ...servertest.Option) *fixture {
	t.Helper()
	s := servertest.Start(t, opts...)
	c := rawclient.Dial(t, s.URL())
	f := &fixture{Server: s, c: c, topic: c.CreateTopic("orders", 1), p: c.NewProducer()}
	f.lane = c.Lane(f.p, f.topic, 0, -1)
	return f
}

// reconnect opens the lane anew on a new connection, as a client that has sent up to
// sent does.
func (f *fixture) reconnect(t *testing.T, sent batchfmt.Seq) {
	t.Helper()
	f.c = rawclient.Dial(t, f.URL())
	f.lane = f.c.Lane(f.p, f.topic, 0, sent)
}

func (f *fixture) batch(t *testing.T, base batchfmt.Seq, values ...string) []byte {
	return rawclient.Batch(t, f.p, base, values...)
}

func TestProduceAndRead(t *testing.T) {
	f := setUp(t)
	f.lane.Produce(f.batch(t, 0, "a", "b"))
	f.lane.Produce(f.batch(t, 2, "c"))
	wantStored(t, f.lane.Result(), 0, false)
	wantStored(t, f.lane.Result(), 2, false)
	wantValues(t, f.c, f.topic, 0, "a", "b", "c")
}

func TestRetryIsAnsweredWithTheOriginalOffset(t *testing.T) {
	f := setUp(t)
	var batches [][]byte
	for i := range 12 {
		b := f.batch(t, batchfmt.Seq(2*i), "x", "y")
		batches = append(batches, b)
		f.lane.Produce(b)
		wantStored(t, f.lane.Result(), batchfmt.Offset(2*i), false)
	}
	f.reconnect(t, 23)
	// The last five are in the window; those before are looked up in the log.
	for _, i := range []int{11, 9, 7, 6, 0, 3} {
		f.lane.Produce(batches[i])
		r := f.lane.Result()
		wantStored(t, r, batchfmt.Offset(2*i), true)
		if !r.Verified {
			t.Errorf("the duplicate of batch %d was not verified", i)
		}
	}
	f.lane.Produce(f.batch(t, 24, "z"))
	wantStored(t, f.lane.Result(), 24, false)
}

func TestBatchesBehindALookUpKeepTheirOrder(t *testing.T) {
	f := setUp(t)
	for i := range 8 {
		f.lane.Produce(f.batch(t, batchfmt.Seq(i), "v"))
		wantStored(t, f.lane.Result(), batchfmt.Offset(i), false)
	}
	f.lane.Produce(f.batch(t, 0, "v"))
	f.lane.Produce(f.batch(t, 8, "w"))
	f.lane.Produce(f.batch(t, 9, "x"))
	wantStored(t, f.lane.Result(), 0, true)
	wantStored(t, f.lane.Result(), 8, false)
	wantStored(t, f.lane.Result(), 9, false)
}

func TestRefusals(t *testing.T) {
	limit := 4 << 10
	long := string(make([]byte, limit))
	rows := []struct {
		name  string
		batch func(t *testing.T, f *fixture) []byte
		code  wire.Code
	}{
		{"a gap", func(t *testing.T, f *fixture) []byte { return f.batch(t, 3, "x") }, wire.CodeOutOfOrder},
		{"same range, other content", func(t *testing.T, f *fixture) []byte { return f.batch(t, 0, "A", "b") }, wire.CodeSequenceConflict},
		{"same base, shorter", func(t *testing.T, f *fixture) []byte { return f.batch(t, 0, "a") }, wire.CodeSequenceConflict},
		{"same base, longer", func(t *testing.T, f *fixture) []byte { return f.batch(t, 0, "a", "b", "c") }, wire.CodeSequenceConflict},
		{"overlap with the end", func(t *testing.T, f *fixture) []byte { return f.batch(t, 1, "b", "c") }, wire.CodeSequenceConflict},
		{"over the topic's limit", func(t *testing.T, f *fixture) []byte { return f.batch(t, 2, long) }, wire.CodeMessageTooLarge},
		{"a bit is wrong", func(t *testing.T, f *fixture) []byte {
			b := f.batch(t, 2, "x")
			b[len(b)-1] ^= 1
			return b
		}, wire.CodeCorruptBatch},
		{"bytes behind the batch", func(t *testing.T, f *fixture) []byte { return append(f.batch(t, 2, "x"), 0) }, wire.CodeCorruptBatch},
		{"not a batch", func(*testing.T, *fixture) []byte { return []byte("hello") }, wire.CodeCorruptBatch},
		{"no bytes", func(*testing.T, *fixture) []byte { return nil }, wire.CodeCorruptBatch},
		{"negative base sequence", func(t *testing.T, f *fixture) []byte {
			b := f.batch(t, 2, "x")
			binary.LittleEndian.PutUint64(b[88:], 1<<63)
			return b
		}, wire.CodeCorruptBatch},
		{"sealed for another producer", func(t *testing.T, f *fixture) []byte {
			other := *f.p
			other.ProducerID++
			return rawclient.Batch(t, &other, 2, "x")
		}, wire.CodeCorruptBatch},
		{"an epoch that nobody issued", func(t *testing.T, f *fixture) []byte {
			other := *f.p
			other.Epoch++
			return rawclient.Batch(t, &other, 2, "x")
		}, wire.CodeInvalidProducerEpoch},
		{"a control batch", func(t *testing.T, f *fixture) []byte {
			return batchfmt.AppendControl(nil, f.p.ProducerID, 0, batchfmt.Control{Kind: batchfmt.ControlFence, Last: 1})
		}, wire.CodeUnsupportedRecords},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s := servertest.Start(t)
			c := rawclient.Dial(t, s.URL())
			created := c.Request(&wire.CreateTopic{Name: "small", Partitions: 1, MaxBatchBytes: uint32(limit)}).(*wire.TopicCreated)
			f := &fixture{Server: s, c: c, topic: created.Topic, p: c.NewProducer()}
			f.lane = c.Lane(f.p, f.topic, 0, -1)
			f.lane.Produce(f.batch(t, 0, "a", "b"))
			wantStored(t, f.lane.Result(), 0, false)
			f.lane.Produce(row.batch(t, f))
			wantCode(t, f.lane.Result(), row.code)
			// Nothing was appended, no sequence was taken, and the lane is alive.
			f.lane.Produce(f.batch(t, 2, "c"))
			wantStored(t, f.lane.Result(), 2, false)
			wantValues(t, c, f.topic, 0, "a", "b", "c")
		})
	}
}

func TestRetryMeetsTheOriginalBeforeItsSync(t *testing.T) {
	f := setUp(t)
	_, release := f.HoldSync()
	b := f.batch(t, 0, "a")
	f.lane.Produce(b)
	f.lane.Produce(b)
	f.lane.Produce(f.batch(t, 1, "b"))
	// All three are decided when this answer, which needs no sync, is there.
	f.lane.Produce(f.batch(t, 7, "z"))
	wantCode(t, f.lane.Result(), wire.CodeOutOfOrder)
	if _, next := f.c.Subscribe(f.topic, 0); next != 0 {
		t.Fatalf("a reader was shown %d records before the sync", next)
	}
	release()
	wantStored(t, f.lane.Result(), 0, false)
	wantStored(t, f.lane.Result(), 0, true)
	wantStored(t, f.lane.Result(), 1, false)
	wantValues(t, f.c, f.topic, 0, "a", "b")
}

func TestTooManyInFlight(t *testing.T) {
	f := setUp(t)
	_, release := f.HoldSync()
	for i := range 6 {
		f.lane.Produce(f.batch(t, batchfmt.Seq(i), "v"))
	}
	r := f.lane.Result()
	wantCode(t, r, wire.CodeTooManyInFlight)
	if r.BaseSequence != 5 {
		t.Fatalf("batch %d was refused, want the sixth", r.BaseSequence)
	}
	release()
	for i := range 5 {
		wantStored(t, f.lane.Result(), batchfmt.Offset(i), false)
	}
}

func TestResultsAreGivenAfterTheClientEndedItsSide(t *testing.T) {
	f := setUp(t)
	_, release := f.HoldSync()
	f.lane.Produce(f.batch(t, 0, "a"))
	f.lane.Stream.Close()
	release()
	wantStored(t, f.lane.Result(), 0, false)
}

func TestNewerOpeningTakesOver(t *testing.T) {
	f := setUp(t)
	f.lane.Produce(f.batch(t, 0, "a"))
	wantStored(t, f.lane.Result(), 0, false)
	old := f.lane
	f.reconnect(t, 0)
	old.Produce(f.batch(t, 1, "stale"))
	wantCode(t, old.Result(), wire.CodeSuperseded) // and not fenced: the instance holds the id
	f.lane.Produce(f.batch(t, 1, "b"))
	wantStored(t, f.lane.Result(), 1, false)
	wantValues(t, f.c, f.topic, 0, "a", "b")
}

func TestOpeningWaitsForWhatIsInFlight(t *testing.T) {
	f := setUp(t)
	began, release := f.HoldSync()
	f.lane.Produce(f.batch(t, 0, "a"))
	<-began
	sent := batchfmt.Seq(0)
	opened := make(chan wire.Message, 1)
	c := rawclient.Dial(t, f.URL())
	go func() {
		_, m := c.OpenLane(&wire.OpenLane{Lane: 1, ProducerID: f.p.ProducerID, Key: f.p.Key, TopicID: f.topic.ID, Sent: &sent})
		opened <- m
	}()
	// The lane of a stranger opens meanwhile: the partition is not held up.
	c2 := rawclient.Dial(t, f.URL())
	c2.Lane(c2.NewProducer(), f.topic, 0, -1)
	select {
	case m := <-opened:
		t.Fatalf("the lane was opened before the sync: %+v", m)
	default:
	}
	release()
	m, ok := (<-opened).(*wire.LaneOpened)
	if !ok || m.LastSequence != 0 || m.LastOffset != 0 {
		t.Fatalf("opened with %+v, want last sequence 0 at offset 0", m)
	}
}

func TestOpenLaneRefusals(t *testing.T) {
	f := setUp(t)
	f.lane.Produce(f.batch(t, 0, "a"))
	r := f.lane.Result()
	wantStored(t, r, 0, false)
	seq := func(s batchfmt.Seq) *batchfmt.Seq { return &s }
	rows := []struct {
		name string
		edit func(m *wire.OpenLane)
		code wire.Code
	}{
		{"unknown producer", func(m *wire.OpenLane) { m.ProducerID = 12345 }, wire.CodeUnknownProducerID},
		{"wrong key", func(m *wire.OpenLane) { m.Key[0]++ }, wire.CodeProducerKeyMismatch},
		{"an epoch that nobody issued", func(m *wire.OpenLane) { m.Epoch = 9 }, wire.CodeInvalidProducerEpoch},
		{"unknown topic", func(m *wire.OpenLane) { m.TopicID[0]++ }, wire.CodeUnknownTopicID},
		{"unknown partition", func(m *wire.OpenLane) { m.Partition = 1 }, wire.CodeUnknownPartition},
		{"negative partition", func(m *wire.OpenLane) { m.Partition = -1 }, wire.CodeUnknownPartition},
		{"the server has less than was acknowledged", func(m *wire.OpenLane) {
			m.Acked, m.Sent = &wire.LanePoint{Sequence: 4, Offset: 4}, seq(4)
		}, wire.CodeDataLoss},
		{"the server has another batch there", func(m *wire.OpenLane) {
			m.Acked, m.Sent = &wire.LanePoint{Sequence: 0, Offset: 0, Digest: 1}, seq(0)
		}, wire.CodeDataLoss},
		{"the server has what was never sent", func(m *wire.OpenLane) { m.Sent = nil }, wire.CodeProducerCloned},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			m := &wire.OpenLane{Lane: 1, ProducerID: f.p.ProducerID, Key: f.p.Key, TopicID: f.topic.ID, Sent: seq(0)}
			row.edit(m)
			_, reply := f.c.OpenLane(m)
			wantError(t, reply, row.code)
		})
	}
}

func TestNamedProducerFencesTheOlderInstance(t *testing.T) {
	s := servertest.Start(t)
	c := rawclient.Dial(t, s.URL())
	topic := c.CreateTopic("orders", 1)
	initNamed := func(instance byte) wire.Message {
		m := &wire.InitProducer{Name: "checkout"}
		m.Instance[0] = instance
		return c.Request(m)
	}
	first := initNamed(1).(*wire.ProducerInited)
	if again := initNamed(1).(*wire.ProducerInited); *again != *first {
		t.Fatalf("the same instance got %+v and then %+v", first, again)
	}
	old := c.Lane(first, topic, 0, -1)
	old.Produce(rawclient.Batch(t, first, 0, "a"))
	wantStored(t, old.Result(), 0, false)

	second := initNamed(2).(*wire.ProducerInited)
	if second.ProducerID != first.ProducerID || second.Epoch != first.Epoch+1 {
		t.Fatalf("the second instance got %+v after %+v", second, first)
	}
	old.Produce(rawclient.Batch(t, first, 1, "zombie"))
	wantCode(t, old.Result(), wire.CodeInvalidProducerEpoch)
	_, reply := c.OpenLane(&wire.OpenLane{Lane: 1, ProducerID: first.ProducerID, Key: first.Key, TopicID: topic.ID})
	wantError(t, reply, wire.CodeInvalidProducerEpoch)
	wantError(t, initNamed(1), wire.CodeInvalidProducerEpoch)

	l, opened := c.OpenLane(&wire.OpenLane{Lane: 1, ProducerID: second.ProducerID, Key: second.Key, Epoch: second.Epoch, TopicID: topic.ID, Fresh: true})
	if m, ok := opened.(*wire.LaneOpened); !ok || m.LastSequence != 0 {
		t.Fatalf("the new holder's lane: %+v", opened)
	}
	l.Produce(rawclient.Batch(t, second, 1, "b"))
	wantStored(t, l.Result(), 1, false)
	wantValues(t, c, topic, 0, "a", "b")
}

func TestProducerLimit(t *testing.T) {
	s := servertest.Start(t, servertest.Configure(func(c *server.Config) { c.MaxProducers = 2 }))
	c := rawclient.Dial(t, s.URL())
	topic := c.CreateTopic("orders", 1)
	lanes := []*rawclient.Lane{c.Lane(c.NewProducer(), topic, 0, -1), c.Lane(c.NewProducer(), topic, 0, -1)}
	third := c.NewProducer()
	open := &wire.OpenLane{Lane: 1, ProducerID: third.ProducerID, Key: third.Key, TopicID: topic.ID}
	_, reply := c.OpenLane(open)
	e := wantError(t, reply, wire.CodeProducerLimitReached)
	if e.Expected != 2 || !e.Code.Info().Retry {
		t.Errorf("the refusal does not name the limit: %+v", e)
	}
	// A lane that never wrote leaves with its stream, and there is room again.
	lanes[0].Stream.Close()
	if _, err := lanes[0].Stream.Read(make([]byte, 1)); err == nil {
		t.Fatal("the server did not end the stream")
	}
	c.Lane(third, topic, 0, -1)
}

func TestAppendTimeNeverGoesBack(t *testing.T) {
	f := setUp(t)
	f.lane.Produce(f.batch(t, 0, "a"))
	first := f.lane.Result()
	f.AdvanceClock(-time.Hour)
	f.lane.Produce(f.batch(t, 1, "b"))
	second := f.lane.Result()
	f.AdvanceClock(2 * time.Hour)
	f.lane.Produce(f.batch(t, 2, "c"))
	third := f.lane.Result()
	if second.AppendTime < first.AppendTime {
		t.Errorf("append time went back from %d to %d with the clock", first.AppendTime, second.AppendTime)
	}
	if third.AppendTime < first.AppendTime+int64(50*time.Minute/time.Millisecond) {
		t.Errorf("append time %d did not follow the clock on from %d", third.AppendTime, first.AppendTime)
	}
}
