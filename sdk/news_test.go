package sdk

import (
	"context"
	"testing"
	"time"

	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// A listener follows an incarnation of a topic.
type listener struct {
	name string
	id   [16]byte
	told chan *wire.TopicInfo
}

func (l *listener) follows() (string, [16]byte)           { return l.name, l.id }
func (l *listener) learn(info *wire.TopicInfo)            { l.told <- info }
func (l *listener) closeWith(context.Context, bool) error { return nil }

// listen makes a topic of three partitions with a listener.
func listen(t *testing.T) (*servertest.Server, *Client, *listener) {
	t.Helper()
	s := servertest.Start(t, servertest.InMemory())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	c, err := Dial(ctx, s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(ctx) })
	topic, err := c.CreateTopic(ctx, "t", TopicOptions{Partitions: 3})
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{name: "t", id: topic.ID, told: make(chan *wire.TopicInfo, 16)}
	if err := c.register(l); err != nil {
		t.Fatal(err)
	}
	return s, c, l
}

func (l *listener) await(t *testing.T) {
	t.Helper()
	if info := <-l.told; len(info.Partitions) != 3 || info.ID != l.id {
		t.Errorf("told %+v", info)
	}
}

// What changed while there was no connection is asked for when there is one again.
func TestTopicsAreLookedAtAfterAConnection(t *testing.T) {
	s, _, l := listen(t)
	s.CutConnection()
	l.await(t)
}

// What changed between the look at a topic and the registration of its producer is not missed.
func TestNothingIsMissedWhileAProducerIsBuilt(t *testing.T) {
	_, c, l := listen(t)
	seen := c.news.count()
	c.news.told([16]byte{9})
	c.news.since(seen, l.id)
	l.await(t)
	c.news.since(c.news.count(), l.id) // nothing happened meanwhile, so nobody asks
	c.news.close()
	if len(l.told) != 0 {
		t.Error("asked for nothing")
	}
	c.news = newNews(c) // for Close
}

// Who follows another incarnation of the name is not told about this one.
func TestOtherIncarnationsAreNotLearned(t *testing.T) {
	_, c, l := listen(t)
	old := &listener{name: "t", id: [16]byte{1}, told: make(chan *wire.TopicInfo, 16)}
	c.news.ask("t", []follower{old, l})
	c.news.ask("gone", []follower{old, l}) // there is no such topic, which is not for us to tell
	l.await(t)
	if len(old.told)+len(l.told) != 0 {
		t.Error("told about what is not its topic")
	}
}

// Metadata that lags takes no partition away, and limits follow the topic.
func TestProducersOnlyGrow(t *testing.T) {
	_, c, _ := listen(t)
	p, err := c.Producer("t").Idempotent().Build(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	three := p.slots()
	info := func(partitions int, maxBatch uint32) *wire.TopicInfo {
		return &wire.TopicInfo{Name: "t", ID: p.topicID, Partitions: make([]wire.PartitionInfo, partitions), MaxBatchBytes: maxBatch}
	}
	for _, step := range []struct {
		told       *wire.TopicInfo
		partitions int
		limit      int64
	}{
		{info(2, 1<<20), 3, 1 << 20},
		{info(0, 1<<10), 3, 1 << 10},
		{info(5, 1<<30), 5, 16 << 20}, // no more than the connection takes
	} {
		p.learn(step.told)
		if got := p.slots(); len(got) != step.partitions || got[2] != three[2] || p.limit.Load() != step.limit {
			t.Errorf("told %d partitions of %d bytes: %d and %d", len(step.told.Partitions), step.told.MaxBatchBytes, len(got), p.limit.Load())
		}
	}
}
