package server_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

func ptr[T any](v T) *T { return &v }

func alter(t *testing.T, c *rawclient.Client, m *wire.AlterTopic) wire.TopicInfo {
	t.Helper()
	reply := c.Request(m)
	altered, ok := reply.(*wire.TopicAltered)
	if !ok {
		t.Fatalf("alter topic: %+v", reply)
	}
	return altered.Topic
}

// settings is what of a topic can be altered.
func settings(topic wire.TopicInfo) string {
	return fmt.Sprintf("%d partitions, %d bytes, strict %v", len(topic.Partitions), topic.MaxBatchBytes, topic.Strict)
}

func describe(t *testing.T, c *rawclient.Client, name string) wire.TopicInfo {
	t.Helper()
	reply := c.Request(&wire.DescribeTopics{Names: []string{name}})
	described, ok := reply.(*wire.TopicsDescribed)
	if !ok || len(described.Topics) != 1 {
		t.Fatalf("describe: %+v", reply)
	}
	return described.Topics[0]
}

func TestAlterTopic(t *testing.T) {
	f := setUp(t, servertest.InMemory())
	f.lane.Produce(f.batch(t, 0, "before"))
	wantStored(t, f.lane.Result(), 0, false)
	if got := settings(f.topic); got != "1 partitions, 1048576 bytes, strict false" {
		t.Fatalf("made with %s", got)
	}
	steps := []struct {
		m    *wire.AlterTopic
		want string
	}{
		{&wire.AlterTopic{Name: "orders"}, "1 partitions, 1048576 bytes, strict false"},
		{&wire.AlterTopic{Name: "orders", ID: f.topic.ID, Partitions: ptr(int32(3))}, "3 partitions, 1048576 bytes, strict false"},
		{&wire.AlterTopic{Name: "orders", Strict: ptr(true), MaxBatchBytes: ptr(uint32(2048))}, "3 partitions, 2048 bytes, strict true"},
		{&wire.AlterTopic{Name: "orders", MaxBatchBytes: ptr(uint32(0)), Partitions: ptr(int32(3))}, "3 partitions, 1048576 bytes, strict true"},
	}
	for _, step := range steps {
		altered := alter(t, f.c, step.m)
		if altered.ID != f.topic.ID || settings(altered) != step.want || settings(describe(t, f.c, "orders")) != step.want {
			t.Errorf("%+v: %s, described as %s, want %s", step.m, settings(altered), settings(describe(t, f.c, "orders")), step.want)
		}
	}
	// The lane that was open goes on, and a new partition takes and gives batches at once.
	f.lane.Produce(f.batch(t, 1, "after"))
	wantStored(t, f.lane.Result(), 1, false)
	added := f.c.Lane(f.p, f.topic, 2, -1)
	added.Produce(f.batch(t, 0, "new"))
	wantStored(t, added.Result(), 0, false)
	f.Crash()
	f.c = rawclient.Dial(t, f.URL())
	if got := settings(describe(t, f.c, "orders")); got != steps[3].want {
		t.Errorf("after a crash: %s", got)
	}
	wantValues(t, f.c, f.topic, 0, "before", "after")
	wantValues(t, f.c, f.topic, 2, "new")
}

func TestAlterTopicRefusals(t *testing.T) {
	f := setUp(t)
	alter(t, f.c, &wire.AlterTopic{Name: "orders", Partitions: ptr(int32(2))})
	before := settings(describe(t, f.c, "orders"))
	tests := []struct {
		name string
		m    *wire.AlterTopic
		code wire.Code
	}{
		{"no such name", &wire.AlterTopic{Name: "other", Strict: ptr(true)}, wire.CodeUnknownTopic},
		{"another incarnation", &wire.AlterTopic{Name: "orders", ID: [16]byte{1}, Strict: ptr(true)}, wire.CodeUnknownTopicID},
		{"fewer partitions", &wire.AlterTopic{Name: "orders", Partitions: ptr(int32(1)), Strict: ptr(true)}, wire.CodeInvalidPartitions},
		{"no partitions", &wire.AlterTopic{Name: "orders", Partitions: ptr(int32(0))}, wire.CodeInvalidPartitions},
		{"too many partitions", &wire.AlterTopic{Name: "orders", Partitions: ptr(int32(10_001))}, wire.CodeInvalidPartitions},
		{"batches too small", &wire.AlterTopic{Name: "orders", MaxBatchBytes: ptr(uint32(1)), Partitions: ptr(int32(5))}, wire.CodeInvalidTopic},
		{"batches too large", &wire.AlterTopic{Name: "orders", MaxBatchBytes: ptr(uint32(1 << 31))}, wire.CodeInvalidTopic},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			wantError(t, f.c.Request(test.m), test.code)
			if got := settings(describe(t, f.c, "orders")); got != before {
				t.Errorf("changed all the same: %s, was %s", got, before)
			}
		})
	}
}

// Whoever is connected is told of a change, on the control stream and between other frames.
func TestTopicChangedIsTold(t *testing.T) {
	f := setUp(t)
	other := rawclient.Dial(t, f.URL())
	other.Ping(1) // the server knows that it is there
	want := func(id [16]byte, deleted bool) {
		t.Helper()
		m, ok := other.Control().(*wire.TopicChanged)
		if !ok || m.Name != "orders" || m.ID != id || m.Deleted != deleted {
			t.Fatalf("told %+v", m)
		}
	}
	alter(t, f.c, &wire.AlterTopic{Name: "orders"}) // changes nothing, so nobody is told
	alter(t, f.c, &wire.AlterTopic{Name: "orders", Partitions: ptr(int32(2))})
	want(f.topic.ID, false)
	f.c.Request(&wire.DeleteTopic{Name: "orders"})
	want(f.topic.ID, true)
	other.Ping(2)
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
