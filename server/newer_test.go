package server_test

import (
	"bufio"
	"encoding/binary"
	"strings"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// critical makes a batch of a later release: it has an extension that must be known.
func critical(b []byte) []byte {
	b[batchfmt.HeaderSize2+1] |= 0x80
	binary.LittleEndian.PutUint64(b[40:], xxhash.Sum64(b[48:]))
	return b
}

// A newer producer that uses a critical extension meets an older server: it is to be told
// which side to upgrade, and not that its bytes are damaged.
func TestCriticalExtensionSaysWhichSideIsOlder(t *testing.T) {
	f := setUp(t)
	b := critical(f.sealed(t, batchfmt.Seal{Extensions: []batchfmt.Extension{{Type: 0x7f03, Data: []byte("x")}}}, batchfmt.Record{Value: []byte("v")}))
	f.lane.Produce(b)
	r := f.lane.Result()
	if r.Code != wire.CodeVersionUnsupported || !strings.Contains(r.Detail, "upgrade the server") {
		t.Errorf("%v: %s", r.Code, r.Detail)
	}
}

// A subscription that stops at the end gives nothing from behind that end.
func TestStopAtEndStopsThere(t *testing.T) {
	f := setUp(t)
	f.lane.Produce(f.batch(t, 0, "a"))
	wantStored(t, f.lane.Result(), 0, false)
	stream, err := f.c.Conn.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(stream)
	wire.Write(stream, &wire.Subscribe{TopicID: f.topic.ID, From: wire.FromEarliest, StopAtEnd: true})
	m, err := wire.Read(in)
	if err != nil {
		t.Fatal(err)
	}
	end := m.(*wire.Subscribed).HighWatermark
	f.lane.Produce(f.batch(t, 1, "b"))
	wantStored(t, f.lane.Result(), 1, false)
	wire.Write(stream, &wire.Credit{Bytes: 1 << 20})
	var got batchfmt.Offset
	for {
		m, err := wire.Read(in)
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case *wire.Batches:
			for rest := m.Batches; len(rest) > 0; {
				b, err := batchfmt.Parse(rest)
				if err != nil {
					t.Fatal(err)
				}
				got, rest = b.NextOffset(), rest[b.Size():]
			}
		case *wire.EndReached:
			if got != end || m.Next != end {
				t.Errorf("the end was at %d, batches came up to %d, EndReached says %d", end, got, m.Next)
			}
			return
		}
	}
}

// Every producer and consumer that is built, and all of them after each connection, look their
// topic up by name. That must not read an index of every segment there is.
func TestLookingUpATopicReadsNoDisk(t *testing.T) {
	s := servertest.Start(t, servertest.InMemory(), servertest.Configure(func(c *server.Config) { c.SegmentBytes = 64 << 10 }))
	c := rawclient.Dial(t, s.URL())
	topic, p := c.CreateTopic("orders", 1), c.NewProducer()
	lane := c.Lane(p, topic, 0, -1)
	for i := range 200 {
		lane.Produce(rawclient.Batch(t, p, batchfmt.Seq(i), strings.Repeat("v", 40<<10)))
		wantStored(t, lane.Result(), batchfmt.Offset(i), false)
	}
	s.Restart()
	c = rawclient.Dial(t, s.URL())
	calls, files := 0, map[string]bool{}
	var mu sync.Mutex
	s.ObserveDisk(func(_ vfs.Op, name string) {
		mu.Lock()
		defer mu.Unlock()
		calls++
		files[name] = true
	})
	describe(t, c, "orders")
	s.ObserveDisk(nil)
	mu.Lock()
	defer mu.Unlock()
	if calls > 10 {
		t.Errorf("one look at a topic made %d calls to the disk, over %d files", calls, len(files))
	}
}
