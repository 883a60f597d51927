package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// mixed is a topic with a plain batch, two of a producer, a fence between, and a plain one.
func mixed(t *testing.T, strict bool) (*servertest.Server, wire.TopicInfo) {
	t.Helper()
	s := servertest.Start(t, servertest.InMemory())
	c := rawclient.Dial(t, s.URL())
	topic := c.Request(&wire.CreateTopic{Name: "mixed", Partitions: 1, Strict: strict}).(*wire.TopicCreated).Topic
	plainLane, _ := c.OpenLane(&wire.OpenLane{Lane: 1, TopicID: topic.ID})
	p := c.NewProducer()
	lane := c.Lane(p, topic, 0, -1)
	produce := func(l *rawclient.Lane, b []byte, offset batchfmt.Offset) {
		t.Helper()
		l.Produce(b)
		wantStored(t, l.Result(), offset, false)
	}
	produce(plainLane, plain(t, "p0", "p1"), 0)
	produce(lane, rawclient.Batch(t, p, 0, "i2", "i3"), 2)
	settled := c.Request(&wire.Resolve{ProducerID: p.ProducerID, Key: p.Key, Epoch: p.Epoch, TopicID: topic.ID, Base: 2, Last: 2, Settle: true})
	if m, ok := settled.(*wire.Resolved); !ok || m.Outcome != wire.ResolveNever {
		t.Fatalf("settle: %+v", settled)
	}
	bumped := c.Request(&wire.BumpEpoch{ProducerID: p.ProducerID, Key: p.Key, Request: [16]byte{1}}).(*wire.EpochBumped)
	p.Epoch = bumped.Epoch
	lane = c.Lane(p, topic, 0, 1)
	produce(lane, rawclient.Batch(t, p, 2, "i4"), 4)
	produce(plainLane, plain(t, "p5"), 5)
	return s, topic
}

// A topic says which versions it holds, also after it was stopped or has crashed, and a control
// batch, which no reader is given, does not count.
func TestTopicsSayWhichVersionsTheyHold(t *testing.T) {
	s, _ := mixed(t, false)
	c := rawclient.Dial(t, s.URL())
	f := &fixture{Server: s, c: c}
	want := func(name string, versions ...batchfmt.Version) {
		t.Helper()
		reply := f.c.Request(&wire.DescribeTopics{Names: []string{name}, Versions: true})
		described, ok := reply.(*wire.TopicsDescribed)
		if !ok || len(described.Topics) != 1 {
			t.Fatalf("describe: %+v", reply)
		}
		if got := described.Topics[0]; !slices.Equal(got.BatchVersions, versions) || got.VersionsPartial {
			t.Errorf("topic %q holds %v, want %v; partial %v", name, got.BatchVersions, versions, got.VersionsPartial)
		}
	}
	plainTopic := c.CreateTopic("plain", 2)
	l, _ := c.OpenLane(&wire.OpenLane{Lane: 1, TopicID: plainTopic.ID, Partition: 1})
	l.Produce(plain(t, "a"))
	wantStored(t, l.Result(), 0, false)
	settled := c.CreateTopic("settled", 1)
	p := c.NewProducer()
	c.Request(&wire.Resolve{ProducerID: p.ProducerID, Key: p.Key, Epoch: p.Epoch, TopicID: settled.ID, Base: 0, Last: 0, Settle: true})
	check := func() {
		t.Helper()
		want("mixed", 1, 2)
		want("plain", 1)
		want("settled")
	}
	check()
	for _, down := range []func(){s.Restart, s.Crash, s.Restart} {
		down()
		f.c = rawclient.Dial(t, s.URL())
		check()
	}
}

var mixedValues = []string{"p0", "p1", "i2", "i3", "i4", "p5"}

func versionsOf(t *testing.T, batches [][]byte) (versions []batchfmt.Version) {
	t.Helper()
	for _, b := range batches {
		batch, err := batchfmt.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, batch.Version())
	}
	return versions
}

// Whoever knows both versions gets what is stored; one who knows the first alone gets the
// same records at the same offsets in it, and neither ever sees a control batch.
func TestOldReaderGetsTheSameRecords(t *testing.T) {
	s, topic := mixed(t, false)
	tests := []struct {
		name  string
		knows []batchfmt.Version
		gets  []batchfmt.Version
	}{
		{"both", []batchfmt.Version{1, 2}, []batchfmt.Version{1, 2, 2, 1}},
		{"the first", []batchfmt.Version{1}, []batchfmt.Version{1, 1, 1, 1}},
		{"the first and one that nobody knows", []batchfmt.Version{9, 1, 9}, []batchfmt.Version{1, 1, 1, 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := rawclient.DialAs(t, s.URL(), test.knows...)
			batches, _ := c.Fetch(topic, 0, wire.FromEarliest)
			if got := versionsOf(t, batches); !slices.Equal(got, test.gets) {
				t.Errorf("got versions %v, want %v", got, test.gets)
			}
			wantValues(t, c, topic, 0, mixedValues...) // verifies both checksums of each
			batches, _ = c.Fetch(topic, 0, 3)
			if first, err := batchfmt.Parse(batches[0]); err != nil || first.BaseOffset() != 2 || first.NextOffset() != 4 {
				t.Errorf("from the middle of a batch: %v at %d", err, first.BaseOffset())
			}
		})
	}
}

// Where nothing is converted the reader is told so in front of the batch, and may go on
// behind it.
func TestReaderIsRefusedInFrontOfTheBatch(t *testing.T) {
	tests := []struct {
		name   string
		strict bool
		knows  []batchfmt.Version
		at     []batchfmt.Offset // of refusals
		next   []batchfmt.Offset
		gets   []batchfmt.Offset // batches at
	}{
		{"strict, the first version only", true, []batchfmt.Version{1}, []batchfmt.Offset{2}, []batchfmt.Offset{5}, []batchfmt.Offset{0, 5}},
		{"strict, both", true, []batchfmt.Version{1, 2}, nil, nil, []batchfmt.Offset{0, 2, 4, 5}},
		{"the second version only", false, []batchfmt.Version{2}, []batchfmt.Offset{0, 5}, []batchfmt.Offset{2, 6}, []batchfmt.Offset{2, 4}},
		{"neither", false, []batchfmt.Version{7}, []batchfmt.Offset{0}, []batchfmt.Offset{6}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, topic := mixed(t, test.strict)
			c := rawclient.DialAs(t, s.URL(), test.knows...)
			from := wire.FromEarliest
			var gets []batchfmt.Offset
			for i := 0; ; i++ {
				batches, end := c.Fetch(topic, 0, from)
				for _, b := range batches {
					batch, _ := batchfmt.Parse(b)
					gets = append(gets, batch.BaseOffset())
				}
				if _, ok := end.(*wire.EndReached); ok {
					if i != len(test.at) {
						t.Errorf("%d refusals, want %d", i, len(test.at))
					}
					break
				}
				e := wantError(t, end, wire.CodeVersionUnsupported)
				if i >= len(test.at) || !strings.Contains(e.Detail, fmt.Sprintf("the batch at offset %d has version", test.at[i])) || e.Expected != int64(test.next[i]) || e.TopicID != topic.ID || e.Topic != "mixed" {
					t.Fatalf("refusal %d: %+v", i, e)
				}
				from = batchfmt.Offset(e.Expected)
			}
			if !slices.Equal(gets, test.gets) {
				t.Errorf("got batches at %v, want %v", gets, test.gets)
			}
		})
	}
}

// A topic may become strict, and lenient again, while readers are there; and it says who
// reads it.
func TestStrictIsAlteredLive(t *testing.T) {
	s, topic := mixed(t, true)
	old, admin := rawclient.DialAs(t, s.URL(), 1), rawclient.Dial(t, s.URL())
	_, end := old.Fetch(topic, 0, 2)
	wantError(t, end, wire.CodeVersionUnsupported)
	alter(t, admin, &wire.AlterTopic{Name: "mixed", Strict: ptr(false)})
	wantValues(t, old, topic, 0, mixedValues...)

	knows := func(readers uint32, version batchfmt.Version) {
		t.Helper()
		until(t, "the readers are counted", func() bool {
			info := describe(t, admin, "mixed")
			return info.Readers == readers && info.ReadersKnow == version
		})
	}
	knows(0, 0)
	follow := func(c *rawclient.Client) (leave func()) {
		stream, err := c.Conn.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		wire.Write(stream, &wire.Subscribe{TopicID: topic.ID, From: wire.FromLatest, Credit: 1})
		return func() { stream.Close() }
	}
	leaveNew := follow(admin)
	knows(1, 2)
	leaveOld := follow(old)
	knows(2, 1)
	leaveOld()
	knows(1, 2)
	leaveNew()
	knows(0, 0)
}
