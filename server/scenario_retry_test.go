package server_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// Batches that come again, late, twice, or past each other.
var retryScenarios = []scenario{
	{1, "lost-ack", "a batch whose answer was lost, again: DUPLICATE at its offset, nothing appended",
		[]string{"dedup-off"}, lostAck},
	{2, "five-lost-acks", "five in flight, all answers lost, again in order: five DUPLICATEs at their offsets",
		[]string{"dedup-off"}, fiveLostAcks},
	{3, "shuffled-copies", "many copies over many connections: each stored once, the rest DUPLICATE or retriable",
		[]string{"dedup-off", "gap-accepted"}, shuffledCopies},
	{4, "older-than-the-window", "a retry from behind the window is found in the log: DUPLICATE at its offset",
		[]string{"dedup-off", "window-only"}, olderThanTheWindow},
	{13, "retry-before-the-sync", "a retry joins the original that waits for its sync; both are answered after it",
		[]string{"early-ack"}, retryBeforeTheSync},
	{15, "overtaking", "a batch that overtakes the one before it: OUT_OF_ORDER_SEQUENCE_NUMBER, not appended",
		[]string{"dedup-off", "gap-accepted"}, overtaking},
	{16, "late-copy", "a copy from an old connection after the retry was answered: SUPERSEDED, not appended",
		[]string{"dedup-off"}, lateCopy},
	{19, "overload-in-the-middle", "one of many in flight is refused for now: those behind it are not appended before it",
		[]string{"gap-accepted"}, overloadInTheMiddle},
	{20, "one-partition-fails", "lanes of one stream, one partition fails: each has its own outcome",
		[]string{"early-state"}, onePartitionFails},
	{21, "two-producers", "two producers in one partition: sequences of their own, duplicates at their own offsets",
		[]string{"dedup-off"}, twoProducers},
	{87, "early-data", "produce is not taken from early data, which can be replayed",
		[]string{"early-data"}, earlyData},
	{88, "stream-reset", "a stream that is reset behind a batch: one copy, whoever asks learns of it",
		[]string{"dedup-off"}, streamReset},
	{103, "copies", "a frame comes as a copy too, before itself or behind: carried out once, in its turn, also where nobody has an identity",
		[]string{"copy-twice"}, copiesOfFrames},
	{93, "only-duplicates", "a request of nothing but duplicates: normal answers, nothing appended",
		[]string{"dedup-off"}, onlyDuplicates},
}

func lostAck(t *testing.T) {
	f := setUp(t)
	values := rawclient.Values("v", 10)
	b := f.batch(t, 0, values...)
	f.DropAck(1)
	f.lane.Produce(b)
	<-f.c.Conn.Context().Done()
	f.reconnect(t, 9)
	f.lane.Produce(b)
	wantStored(t, f.lane.Result(), 0, true)
	wantValues(t, f.c, f.topic, 0, values...)
}

func fiveLostAcks(t *testing.T) {
	f := setUp(t)
	batches := f.fiveWithoutAcks(t)
	f.reconnect(t, 9)
	f.wantRetries(t, batches)
	f.wantLog(t, 5)
}

func shuffledCopies(t *testing.T) {
	f := setUp(t)
	batches := f.stored(t, 0, 1)
	for i := range 4 {
		seq := batchfmt.Seq(2 + 2*i)
		batches = append(batches, f.batch(t, seq, two(seq)...))
	}
	// Every volley comes over a connection of its own and does not wait for the answers
	// of the one before.
	random := rand.New(rand.NewPCG(3, 3))
	lanes := []*rawclient.Lane{f.lane}
	for range 6 {
		for _, i := range random.Perm(5) {
			f.lane.Produce(batches[i])
		}
		f.reconnect(t, 9)
		lanes = append(lanes, f.lane)
	}
	first := [5]int{1}
	for _, l := range lanes[:6] {
		for range 5 {
			switch r := l.Result(); {
			case r.Code == wire.CodeOK && r.BaseOffset == batchfmt.Offset(r.BaseSequence):
				if !r.Duplicate {
					first[r.BaseSequence/2]++
				}
			case r.Code == wire.CodeOutOfOrder && r.Code.Info().Retry, r.Code == wire.CodeSuperseded:
			default:
				t.Fatalf("sequence %d: %v (%s) at offset %d", r.BaseSequence, r.Code, r.Detail, r.BaseOffset)
			}
		}
	}
	for i, b := range batches { // whatever is missing is stored now, in order
		f.lane.Produce(b)
		r := f.lane.Result()
		wantStored(t, r, batchfmt.Offset(2*i), first[i] > 0)
	}
	if slices.Max(first[:]) > 1 {
		t.Errorf("batches were stored so often: %v", first)
	}
	f.wantLog(t, 5)
}

func olderThanTheWindow(t *testing.T) {
	f := setUp(t)
	batches := f.stored(t, 0, 12)
	f.reconnect(t, 23)
	for _, i := range []int{11, 7, 6, 0, 3} { // 6 is the sixth-oldest
		f.lane.Produce(batches[i])
		r := f.lane.Result()
		wantStored(t, r, batchfmt.Offset(2*i), true)
		if !r.Verified {
			t.Errorf("the duplicate of batch %d was not compared", i)
		}
	}
	f.wantLog(t, 12)
	f.stored(t, 24, 1)
}

func retryBeforeTheSync(t *testing.T) {
	f := setUp(t)
	_, release := f.HoldSync()
	b := f.batch(t, 0, "a")
	f.lane.Produce(b)
	f.lane.Produce(b)
	f.appended(t, 7)
	if _, next := f.c.Subscribe(f.topic, 0); next != 0 {
		t.Fatalf("a reader was shown %d records before the sync", next)
	}
	// Another connection that opens the lane must wait as well: else it would be told
	// that nothing is stored, or of what may still be lost.
	old, opened := f.lane, make(chan wire.Message, 1)
	other := rawclient.Dial(t, f.URL())
	var lane *rawclient.Lane
	go func() {
		var m wire.Message
		lane, m = other.OpenLane(&wire.OpenLane{Lane: 1, ProducerID: f.p.ProducerID, Key: f.p.Key, TopicID: f.topic.ID, Sent: seqPtr(0)})
		opened <- m
	}()
	f.c.Lane(f.c.NewProducer(), f.topic, 0, -1) // a stranger need not wait
	select {
	case m := <-opened:
		t.Fatalf("the lane was opened before the sync: %+v", m)
	default:
	}
	release()
	wantStored(t, old.Result(), 0, false)
	wantStored(t, old.Result(), 0, true)
	if m, ok := (<-opened).(*wire.LaneOpened); !ok || m.LastSequence != 0 || m.LastOffset != 0 {
		t.Fatalf("opened with %+v, want last sequence 0 at offset 0", m)
	}
	lane.Produce(b)
	wantStored(t, lane.Result(), 0, true)
	wantValues(t, other, f.topic, 0, "a")
}

func overtaking(t *testing.T) {
	f := setUp(t)
	f.stored(t, 0, 1)
	slow := f.lane
	f.lane = f.c.Lane(f.p, f.topic, 0, 1) // another stream of the same connection
	f.lane.Produce(f.batch(t, 4, two(4)...))
	r := f.lane.Result()
	wantCode(t, r, wire.CodeOutOfOrder)
	if r.Expected != 2 || !r.Code.Info().Retry {
		t.Fatalf("the answer expects %d, want 2, and must be retriable", r.Expected)
	}
	slow.Produce(f.batch(t, 2, two(2)...))
	wantCode(t, slow.Result(), wire.CodeSuperseded)
	f.wantLog(t, 1)
	f.stored(t, 2, 2)
	f.wantLog(t, 3)
}

func lateCopy(t *testing.T) {
	f := setUp(t)
	f.stored(t, 0, 1)
	old := f.lane
	f.reconnect(t, 3)
	b := f.batch(t, 2, two(2)...)
	f.lane.Produce(b)
	wantStored(t, f.lane.Result(), 2, false)
	old.Produce(b)
	wantCode(t, old.Result(), wire.CodeSuperseded) // not fenced: the instance holds the id
	f.lane.Produce(b)
	wantStored(t, f.lane.Result(), 2, true)
	f.wantLog(t, 2)
}

func overloadInTheMiddle(t *testing.T) {
	f := setUp(t)
	_, release := f.HoldSync()
	for i := range 6 { // one more than the lane may have in flight
		f.lane.Produce(f.batch(t, batchfmt.Seq(2*i), two(batchfmt.Seq(2*i))...))
	}
	r := f.lane.Result()
	wantCode(t, r, wire.CodeTooManyInFlight)
	if r.BaseSequence != 10 || !r.Code.Info().Retry {
		t.Fatalf("sequence %d was refused, want 10", r.BaseSequence)
	}
	release()
	for i := range 5 {
		wantStored(t, f.lane.Result(), batchfmt.Offset(2*i), false)
	}
	for _, seq := range []batchfmt.Seq{12, 14} { // they were on their way already
		f.lane.Produce(f.batch(t, seq, two(seq)...))
		r := f.lane.Result()
		wantCode(t, r, wire.CodeOutOfOrder)
		if r.Expected != 10 {
			t.Fatalf("sequence %d: expected %d, want 10", seq, r.Expected)
		}
	}
	f.stored(t, 10, 3)
	f.wantLog(t, 8)
}

func onePartitionFails(t *testing.T) {
	s := servertest.Start(t)
	c := rawclient.Dial(t, s.URL())
	topic, p := c.CreateTopic("wide", 2), c.NewProducer()
	l := c.Lane(p, topic, 0, -1)
	l.Send(&wire.OpenLane{Lane: 2, ProducerID: p.ProducerID, Key: p.Key, TopicID: topic.ID, Partition: 1})
	if m, ok := l.Read().(*wire.LaneOpened); !ok {
		t.Fatalf("the second lane: %+v", m)
	}
	// The first partition's write waits, so that the fault strikes the second's.
	_, release := s.HoldDisk(func(op vfs.Op, name string) bool {
		return op == vfs.OpWrite && filepath.Base(filepath.Dir(name)) == "0"
	})
	s.FailAppend()
	b := rawclient.Batch(t, p, 0, "a")
	frame := func(lane uint32) []byte {
		return wire.Append(nil, &wire.Produce{Lane: lane, Durability: wire.Synced, ConfirmedThrough: -1, Batch: b})
	}
	l.Stream.Write(append(frame(1), frame(2)...))
	r := l.Result()
	if wantCode(t, r, wire.CodeStorageError); r.Lane != 2 {
		t.Fatalf("lane %d failed", r.Lane)
	}
	release()
	if r = l.Result(); r.Lane != 1 {
		t.Fatalf("lane %d was answered", r.Lane)
	}
	wantStored(t, r, 0, false)
	l.Stream.Write(frame(2))
	wantStored(t, l.Result(), 0, false)
	wantValues(t, c, topic, 0, "a")
	wantValues(t, c, topic, 1, "a")
}

func twoProducers(t *testing.T) {
	f := setUp(t)
	q := f.c.NewProducer()
	other := f.c.Lane(q, f.topic, 0, -1)
	var mine, theirs [][]byte
	for i := range 7 { // 7, so that the window of each has forgotten some
		mine = append(mine, f.batch(t, batchfmt.Seq(i), fmt.Sprint("p", i)))
		theirs = append(theirs, rawclient.Batch(t, q, batchfmt.Seq(2*i), fmt.Sprint("q", i), "+"))
		f.lane.Produce(mine[i])
		wantStored(t, f.lane.Result(), batchfmt.Offset(3*i), false)
		other.Produce(theirs[i])
		wantStored(t, other.Result(), batchfmt.Offset(3*i+1), false)
	}
	for i := range 7 {
		f.lane.Produce(mine[i])
		wantStored(t, f.lane.Result(), batchfmt.Offset(3*i), true)
		other.Produce(theirs[i])
		wantStored(t, other.Result(), batchfmt.Offset(3*i+1), true)
	}
}

// dialEarly connects with the session ticket of a connection before, if there is one, so
// early that it could send before the server has answered.
func dialEarly(t *testing.T, rawURL string, cache tls.ClientSessionCache) *quic.Conn {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), rawclient.Patience)
	defer cancel()
	conf := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{wire.ALPN}, ClientSessionCache: cache}
	conn, err := quic.DialAddrEarly(ctx, u.Host, conf, &quic.Config{KeepAlivePeriod: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseWithError(0, "") })
	return conn
}

func earlyData(t *testing.T) {
	f := setUp(t)
	// A ticket comes with the first answers, hence the Hello.
	cache := tls.NewLRUClientSessionCache(1)
	hello := &wire.Hello{MinProtocol: 1, MaxProtocol: 1, BatchVersions: []batchfmt.Version{2}}
	for range 2 {
		conn := dialEarly(t, f.URL(), cache)
		s := stream(t, conn)
		wire.Write(s, hello)
		m, err := wire.Read(s)
		if err != nil {
			t.Fatalf("Hello: %v", err)
		}
		if m.Kind() != wire.KindHelloOK {
			t.Fatalf("Hello was answered with %+v", m)
		}
		<-conn.HandshakeComplete()
		if state := conn.ConnectionState(); state.Used0RTT {
			t.Fatal("the server took early data, which anybody who saw it can send again")
		}
		conn.CloseWithError(0, "")
	}
	f.stored(t, 0, 1)
	f.wantLog(t, 1)
}

func streamReset(t *testing.T) {
	f := setUp(t)
	f.stored(t, 0, 1)
	read := make(chan struct{})
	f.HookFrames(servertest.FrameHooks{End: func(in bool, m wire.Message) bool {
		if in && m.Kind() == wire.KindProduce {
			close(read)
		}
		return false
	}})
	b := f.batch(t, 2, two(2)...)
	f.lane.Produce(b)
	<-read
	f.HookFrames(servertest.FrameHooks{})
	f.lane.Stream.CancelWrite(1)
	f.lane.Stream.CancelRead(1)
	f.lane = f.c.Lane(f.p, f.topic, 0, 3) // the outcome is open until the lane is
	f.lane.Produce(b)
	if r := f.lane.Result(); r.Code != wire.CodeOK || r.BaseOffset != 2 {
		t.Fatalf("again: %v (%s) at offset %d", r.Code, r.Detail, r.BaseOffset)
	}
	f.lane.Produce(b)
	wantStored(t, f.lane.Result(), 2, true)
	f.wantLog(t, 2)
}

func onlyDuplicates(t *testing.T) {
	f := setUp(t)
	batches := f.stored(t, 0, 5)
	var frames []byte
	for _, b := range batches {
		frames = wire.Append(frames, &wire.Produce{Lane: 1, Durability: wire.Synced, ConfirmedThrough: -1, Batch: b})
	}
	f.lane.Stream.Write(frames)
	for i := range batches {
		wantStored(t, f.lane.Result(), batchfmt.Offset(2*i), true)
	}
	f.wantLog(t, 5)
	f.stored(t, 10, 1)
}
