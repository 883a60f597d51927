package server_test

import (
	"testing"

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
		{"over the topic's limit", func(t *testing.T, f *fixture) []byte { return f.batch(t, 2, long) }, wire.CodeMessageTooLarge},
		{"a bit is wrong", func(t *testing.T, f *fixture) []byte {
			b := f.batch(t, 2, "x")
			b[len(b)-1] ^= 1
			return b
		}, wire.CodeCorruptBatch},
		{"a version of the future", func(t *testing.T, f *fixture) []byte {
			b := f.batch(t, 2, "x")
			b[3] = 9
			return b
		}, wire.CodeVersionUnsupported},
		{"bytes behind the batch", func(t *testing.T, f *fixture) []byte { return append(f.batch(t, 2, "x"), 0) }, wire.CodeCorruptBatch},
		{"not a batch", func(*testing.T, *fixture) []byte { return []byte("hello") }, wire.CodeCorruptBatch},
		{"no bytes", func(*testing.T, *fixture) []byte { return nil }, wire.CodeCorruptBatch},
		{"sealed for another producer", func(t *testing.T, f *fixture) []byte {
			other := *f.p
			other.ProducerID++
			return rawclient.Batch(t, &other, 2, "x")
		}, wire.CodeCorruptBatch},
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

func TestResultsAreGivenAfterTheClientEndedItsSide(t *testing.T) {
	f := setUp(t)
	_, release := f.HoldSync()
	f.lane.Produce(f.batch(t, 0, "a"))
	f.lane.Stream.Close()
	release()
	wantStored(t, f.lane.Result(), 0, false)
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
