package server_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/catalog"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// Who may write: zombies, clones, epochs, names, ids, and topics that are others by now.
var rightScenarios = []scenario{
	{22, "zombie-writes", "a stream of an instance that lost its name: INVALID_PRODUCER_EPOCH with the current one, not appended",
		[]string{"rights-off"}, zombieWrites},
	{23, "zombie-retries", "its batch that was stored: INVALID_PRODUCER_EPOCH and where it is; whoever asks learns that; the new holder's retry: DUPLICATE",
		[]string{"rights-off"}, zombieRetries},
	{27, "fence-in-flight", "fenced between append and sync: what was appended before is answered as stored, the rest as fenced",
		[]string{"early-ack", "rights-off"}, fenceInFlight},
	{28, "clones", "two processes with one identity: PRODUCER_CLONED or SEQUENCE_CONFLICT, nothing is lost silently",
		[]string{"conflict-taken", "witness-off"}, clones},
	{29, "zombie-without-history", "a zombie where nothing is known of its lane: INVALID_PRODUCER_EPOCH all the same",
		[]string{"rights-off"}, zombieWithoutHistory},
	{30, "epoch-never-issued", "an epoch that nobody issued: INVALID_PRODUCER_EPOCH",
		[]string{"rights-off"}, epochNeverIssued},
	{31, "last-epoch", "behind the last epoch a name goes on with a new id; epochs never wrap",
		[]string{"epoch-wraps"}, lastEpoch},
	{32, "id-before-a-crash", "a producer id is never given twice, whatever stops the server after it",
		[]string{"ids-again"}, idBeforeACrash},
	{33, "restored-backup", "the server is older than the producer's acknowledgements: DATA_LOSS",
		[]string{"witness-off"}, restoredBackup},
	{66, "topic-made-anew", "a topic that was deleted and made again: UNKNOWN_TOPIC_ID, nothing lands in the new one",
		[]string{"same-topic-id"}, topicMadeAnew},
	{92, "producer-names", "names of any bytes are checked when they are claimed; recovery does not stumble over them",
		[]string{"names-unchecked"}, producerNames},
}

// named asks for a name as one of several instances.
func named(c *rawclient.Client, name string, instance byte) wire.Message {
	m := &wire.InitProducer{Name: name}
	m.Instance[0] = instance
	return c.Request(m)
}

func mustName(t *testing.T, c *rawclient.Client, name string, instance byte) *wire.ProducerInited {
	t.Helper()
	m := named(c, name, instance)
	p, ok := m.(*wire.ProducerInited)
	if !ok {
		t.Fatalf("name %q: %+v", name, m)
	}
	return p
}

// setUpNamed is setUp with a producer that has a name.
func setUpNamed(t *testing.T, opts ...servertest.Option) *fixture {
	t.Helper()
	f := setUp(t, opts...)
	f.p = mustName(t, f.c, "checkout", 1)
	f.lane = f.c.Lane(f.p, f.topic, 0, -1)
	return f
}

// takeOver makes the fixture the second instance. The lane of the first is returned.
func (f *fixture) takeOver(t *testing.T) (zombie *rawclient.Lane) {
	t.Helper()
	zombie = f.lane
	f.p = mustName(t, f.c, "checkout", 2)
	if m, ok := f.openLane(func(m *wire.OpenLane) { m.Fresh = true }).(*wire.LaneOpened); !ok {
		t.Fatalf("the new holder's lane: %+v", m)
	}
	return zombie
}

// wantFenced checks a refusal that names the epoch of the second instance.
func wantFenced(t *testing.T, r wire.ProduceResult) {
	t.Helper()
	if wantCode(t, r, wire.CodeInvalidProducerEpoch); r.Expected != 1 {
		t.Fatalf("the current epoch is %d by the answer, want 1", r.Expected)
	}
}

func zombieWrites(t *testing.T) {
	f := setUpNamed(t)
	first := f.p
	if again := mustName(t, f.c, "checkout", 1); *again != *first {
		t.Fatalf("the same instance got %+v and then %+v", first, again)
	}
	f.stored(t, 0, 1)
	zombie := f.takeOver(t)
	if f.p.ProducerID != first.ProducerID || f.p.Epoch != 1 {
		t.Fatalf("the second instance got %+v after %+v", f.p, first)
	}
	zombie.Produce(rawclient.Batch(t, first, 2, "zombie"))
	wantFenced(t, zombie.Result())
	wantError(t, named(f.c, "checkout", 1), wire.CodeInvalidProducerEpoch) // no claim wars
	f.wantLog(t, 1)
	f.stored(t, 2, 1)
	f.wantLog(t, 2)
}

func zombieRetries(t *testing.T) {
	f := setUpNamed(t)
	first := *f.p
	f.stored(t, 0, 1)
	b := f.batch(t, 2, two(2)...) // stored, and its answer is taken for lost
	f.lane.Produce(b)
	wantStored(t, f.lane.Result(), 2, false)
	zombie := f.takeOver(t)
	zombie.Produce(b)
	r := zombie.Result()
	if wantFenced(t, r); r.BaseOffset != 2 || r.NotStored {
		t.Fatalf("the batch is at offset 2; the answer: %+v", r)
	}
	// The zombie may ask, and its own key will do to make it final.
	ask := f.asking(t, b)
	for _, key := range []wire.Secret{{}, first.Key, f.p.Key} {
		for _, settle := range []bool{false, true} {
			if ask.Key, ask.Settle = key, settle; settle && key == (wire.Secret{}) {
				continue
			}
			if r := wantFate(t, f.c.Request(ask), wire.ResolveStored, 2); !r.Verified || r.LastSequence != 3 {
				t.Fatalf("its fate: %+v", r)
			}
		}
	}
	f.lane.Produce(b)
	wantStored(t, f.lane.Result(), 2, true)
	f.wantLog(t, 2)
}

func fenceInFlight(t *testing.T) {
	f := setUpNamed(t)
	began, release := f.HoldSync()
	f.lane.Produce(f.batch(t, 0, two(0)...))
	<-began
	f.appended(t, 7)
	taken := make(chan wire.Message, 1)
	other := rawclient.Dial(t, f.URL())
	go func() { taken <- named(other, "checkout", 2) }()
	late := f.batch(t, 2, two(2)...) // before the fence or behind it
	f.lane.Produce(late)
	select {
	case m := <-taken:
		t.Fatalf("the name changed hands before the sync: %+v", m)
	default:
	}
	release()
	wantStored(t, f.lane.Result(), 0, false) // appended before the fence
	r := f.lane.Result()
	before := r.Code == wire.CodeOK
	if !before {
		wantFenced(t, r)
	}
	if m, ok := (<-taken).(*wire.ProducerInited); !ok || m.Epoch != 1 {
		t.Fatalf("the second instance: %+v", m)
	}
	next := batchfmt.Seq(2)
	if before {
		wantStored(t, r, 2, false)
		next = 4
	}
	f.lane.Produce(f.batch(t, next, two(next)...))
	wantFenced(t, f.lane.Result())
	f.wantLog(t, int(next/2))
}

func clones(t *testing.T) {
	f := setUp(t)
	f.stored(t, 0, 1)
	// The clone has sent nothing by its own account, and finds something.
	wantError(t, f.openLane(func(*wire.OpenLane) {}), wire.CodeProducerCloned)
	// Or it has sent as much, but other batches.
	f.lane = f.c.Lane(f.p, f.topic, 0, 1)
	f.lane.Produce(f.batch(t, 0, "clone", "clone"))
	wantCode(t, f.lane.Result(), wire.CodeSequenceConflict)
	// If it is the first to write what comes next, it is the other one that finds out.
	f.lane.Produce(f.batch(t, 2, two(2)...))
	wantStored(t, f.lane.Result(), 2, false)
	wantError(t, f.openLane(func(m *wire.OpenLane) { m.Sent = seqPtr(1) }), wire.CodeProducerCloned)
	f.lane = f.c.Lane(f.p, f.topic, 0, 3)
	f.lane.Produce(f.batch(t, 2, "mine", "mine"))
	wantCode(t, f.lane.Result(), wire.CodeSequenceConflict)
	f.wantLog(t, 2)
}

func zombieWithoutHistory(t *testing.T) {
	f := setUpNamed(t)
	first := *f.p
	f.takeOver(t)
	elsewhere := f.c.CreateTopic("elsewhere", 1) // where the producer never wrote
	for range 2 {
		for _, topic := range []wire.TopicInfo{f.topic, elsewhere} {
			_, m := f.c.OpenLane(&wire.OpenLane{Lane: 1, ProducerID: first.ProducerID, Key: first.Key, TopicID: topic.ID})
			if e := wantError(t, m, wire.CodeInvalidProducerEpoch); e.Expected != 1 {
				t.Fatalf("the current epoch is %d by the answer, want 1", e.Expected)
			}
			// Nor does it help to claim the new epoch, or to come with nothing.
			_, m = f.c.OpenLane(&wire.OpenLane{Lane: 1, ProducerID: first.ProducerID, Key: first.Key, Epoch: 1, TopicID: topic.ID, Fresh: true})
			wantError(t, m, wire.CodeInvalidProducerEpoch)
		}
		f.c.Conn.CloseWithError(0, "")
		f.Restart()
		f.c = rawclient.Dial(t, f.URL())
	}
}

func epochNeverIssued(t *testing.T) {
	f := setUp(t)
	invented := *f.p
	invented.Epoch = 7
	for _, base := range []batchfmt.Seq{0, 2} { // on a lane that is new, and on one that is not
		f.lane.Produce(rawclient.Batch(t, &invented, base, "x"))
		r := f.lane.Result()
		if wantCode(t, r, wire.CodeInvalidProducerEpoch); r.Expected != 0 {
			t.Fatalf("the current epoch is %d by the answer, want 0", r.Expected)
		}
		f.stored(t, base, 1)
	}
	wantError(t, f.openLane(func(m *wire.OpenLane) { m.Epoch, m.Sent = 7, seqPtr(3) }), wire.CodeInvalidProducerEpoch)
	f.wantLog(t, 2)
}

// setEpoch writes an epoch into the catalog of a server that is down. A value there is a
// version byte, for producers a kind byte, then the epoch; and at the end a checksum of
// key and value.
func setEpoch(t *testing.T, data string, id batchfmt.ProducerID, epoch batchfmt.Epoch) {
	t.Helper()
	db, err := bolt.Open(filepath.Join(data, catalog.FileName), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		bucket := tx.Bucket([]byte("producers"))
		key := binary.BigEndian.AppendUint64(nil, uint64(id))
		value := append([]byte(nil), bucket.Get(key)...)
		binary.BigEndian.PutUint32(value[2:], uint32(epoch))
		head, table := value[:len(value)-4], crc32.MakeTable(crc32.Castagnoli)
		binary.BigEndian.PutUint32(value[len(head):], crc32.Update(crc32.Checksum(key, table), table, head))
		return bucket.Put(key, value)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func lastEpoch(t *testing.T) {
	f := setUpNamed(t)
	first := *f.p
	f.stored(t, 0, 1)
	f.c.Conn.CloseWithError(0, "")
	f.RestartWith(func() { setEpoch(t, f.Data(), first.ProducerID, catalog.MaxEpoch-1) })
	f.c = rawclient.Dial(t, f.URL())
	f.takeOver(t)
	if f.p.ProducerID != first.ProducerID || f.p.Epoch != catalog.MaxEpoch {
		t.Fatalf("the last epoch: %+v", f.p)
	}
	f.stored(t, 2, 1)
	next := mustName(t, f.c, "checkout", 3)
	if next.ProducerID == first.ProducerID || next.Epoch != 0 {
		t.Fatalf("behind the last epoch: %+v", next)
	}
	f.p = next
	f.lane = f.c.Lane(f.p, f.topic, 0, -1)
	f.lane.Produce(f.batch(t, 0, two(4)...))
	wantStored(t, f.lane.Result(), 4, false)
	f.wantLog(t, 3)
}

func idBeforeACrash(t *testing.T) {
	s := servertest.Start(t, servertest.InMemory()) // the catalog is on a real disk all the same
	seen := make(map[batchfmt.ProducerID]bool)
	for i := range 4 {
		c := rawclient.Dial(t, s.URL())
		for range 1 + 5*i {
			p := c.NewProducer()
			if seen[p.ProducerID] || p.ProducerID == 0 || p.Epoch != 0 {
				t.Fatalf("got %+v, given before: %v", p, seen[p.ProducerID])
			}
			seen[p.ProducerID] = true
		}
		if i%2 == 0 {
			s.Crash()
			continue
		}
		c.Conn.CloseWithError(0, "")
		s.Restart()
	}
}

func restoredBackup(t *testing.T) {
	f := setUp(t)
	backup := t.TempDir()
	f.stored(t, 0, 1)
	f.restart(t, 1, func() {
		if err := os.CopyFS(backup, os.DirFS(f.Data())); err != nil {
			t.Fatal(err)
		}
	})
	lost := f.stored(t, 2, 2)
	front, err := batchfmt.ParseFront(lost[1])
	if err != nil {
		t.Fatal(err)
	}
	f.c.Conn.CloseWithError(0, "")
	f.RestartWith(func() {
		err := os.RemoveAll(f.Data())
		if err := errors.Join(err, os.CopyFS(f.Data(), os.DirFS(backup))); err != nil {
			t.Fatal(err)
		}
	})
	f.c = rawclient.Dial(t, f.URL())
	acked := wire.LanePoint{Sequence: 5, Offset: 5, Digest: front.Digest}
	e := wantError(t, f.openLane(func(m *wire.OpenLane) { m.Acked, m.Sent = &acked, seqPtr(5) }), wire.CodeDataLoss)
	if e.Sequence != 1 || e.Expected != 5 {
		t.Fatalf("the answer has %d and expects %d, want 1 and 5", e.Sequence, e.Expected)
	}
	// The epoch is nobody's to raise by itself: whoever decides to go on does so from 2.
	f.lane = f.c.Lane(f.p, f.topic, 0, 5)
	f.lane.Produce(f.batch(t, 6, "next"))
	wantCode(t, f.lane.Result(), wire.CodeOutOfOrder)
	f.wantLog(t, 1)
}

func topicMadeAnew(t *testing.T) {
	f := setUp(t)
	stored := f.stored(t, 0, 1)
	if m, ok := f.c.Request(&wire.DeleteTopic{Name: "orders"}).(*wire.TopicDeleted); !ok {
		t.Fatalf("not deleted: %+v", m)
	}
	again := f.c.CreateTopic("orders", 1)
	if again.ID == f.topic.ID {
		t.Error("the new topic has the old id")
	}
	for _, b := range [][]byte{stored[0], f.batch(t, 2, "late")} {
		f.lane.Produce(b)
		wantCode(t, f.lane.Result(), wire.CodeUnknownTopicID)
	}
	wantError(t, f.openLane(func(m *wire.OpenLane) { m.Sent = seqPtr(3) }), wire.CodeUnknownTopicID)
	wantValues(t, f.c, again, 0)
}

func producerNames(t *testing.T) {
	s := servertest.Start(t)
	c := rawclient.Dial(t, s.URL())
	long := strings.Repeat("n", 255)
	good := []string{"n", long, "prüfung/7 🦆"}
	bad := map[string]wire.Code{
		long + "n":                wire.CodeInvalidProducerName,
		strings.Repeat("n", 4096): wire.CodeInvalidProducerName,
		"a\x00b":                  wire.CodeInvalidProducerName,
		"a\nb":                    wire.CodeInvalidProducerName,
		"\xff\xfe":                wire.CodeProtocol, // no text at all: the frame is refused
	}
	held := make(map[string]batchfmt.ProducerID)
	for _, name := range good {
		held[name] = mustName(t, c, name, 1).ProducerID
	}
	for name, code := range bad {
		if e := wantError(t, named(c, name, 1), code); e.Detail == "" {
			t.Errorf("%.9q: the refusal says nothing", name)
		}
	}
	// One that is longer than the frame of the request may be is refused with the frame.
	huge := stream(t, c.Conn)
	head := make([]byte, wire.HeaderSize, 20<<10)
	wire.PutHeader(head, wire.KindInitProducer, 17<<10)
	huge.Write(head[:cap(head)])
	wantError(t, readFrame(t, huge), wire.CodeProtocol)
	// Of none: an id without a name, which is the same for the same instance.
	held[""] = mustName(t, c, "", 1).ProducerID
	c.Conn.CloseWithError(0, "")
	s.Restart()
	c = rawclient.Dial(t, s.URL())
	for name, id := range held {
		if p := mustName(t, c, name, 1); p.ProducerID != id || p.Epoch != 0 {
			t.Errorf("%.9q has id %d and epoch %d after a restart, want %d and 0", name, p.ProducerID, p.Epoch, id)
		}
	}
}
