package broker

import (
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/catalog"
	"github.com/quoin-io/quoin/server/internal/producerindex"
	"github.com/quoin-io/quoin/server/internal/seglog"
	"github.com/quoin-io/quoin/wire"
)

// pagePartitions is how many partitions a page of topics holds at most, a single large
// topic aside: a reply stays far below the limit of its frame.
const pagePartitions = 10_000

// CreateTopic makes a topic; it is durable, and all its partitions are open, before this
// returns.
func (b *Broker) CreateTopic(m *wire.CreateTopic) (wire.Message, *wire.Error) {
	b.admin.Lock()
	defer b.admin.Unlock()
	if m.MaxBatchBytes > math.MaxInt32 {
		return nil, wire.Errorf(wire.CodeInvalidTopic, "max batch bytes %d is too large", m.MaxBatchBytes)
	}
	t, err := b.catalog.CreateTopic(m.Name, m.Partitions, catalog.TopicConfig{MaxBatchBytes: int32(m.MaxBatchBytes), Strict: m.Strict})
	if err != nil {
		return nil, about(m.Name, refusal(err))
	}
	open, err := b.openTopic(t)
	if err != nil {
		b.cfg.Log.Error("topic could not be opened and is taken back", "topic", t.Name, "error", err)
		err = errors.Join(err, b.catalog.DeleteTopic(t.ID), b.removeTopic(t.ID))
		return nil, about(m.Name, refusal(err))
	}
	b.mu.Lock()
	b.mu.topics[t.ID] = open
	b.mu.Unlock()
	b.cfg.Log.Info("topic created", "topic", t.Name, "id", t.ID, "partitions", t.Partitions)
	return &wire.TopicCreated{Topic: open.info()}, nil
}

// DeleteTopic deletes a topic. From the moment that the catalog knows, nothing is found
// under its id any more, whatever a crash interrupts.
func (b *Broker) DeleteTopic(m *wire.DeleteTopic) (wire.Message, *wire.Error) {
	b.admin.Lock()
	defer b.admin.Unlock()
	t, failure := b.incarnation(m.Name, m.ID)
	if failure != nil {
		return nil, failure
	}
	if err := b.catalog.DeleteTopic(t.ID); err != nil {
		return nil, about(m.Name, refusal(err))
	}
	b.mu.Lock()
	open := b.mu.topics[t.ID]
	delete(b.mu.topics, t.ID)
	b.mu.Unlock()
	if open != nil { // else it could not be opened when it was made, nor taken back
		if err := open.close(wire.Errorf(wire.CodeUnknownTopicID, "the topic was deleted")); err != nil {
			b.cfg.Log.Warn("closing a deleted topic", "topic", t.Name, "error", err)
		}
	}
	if err := b.removeTopic(t.ID); err != nil {
		// It is deleted all the same; the files are removed at the next start.
		b.cfg.Log.Error("files of a deleted topic are left", "topic", t.Name, "id", t.ID, "error", err)
	}
	b.cfg.Log.Info("topic deleted", "topic", t.Name, "id", t.ID)
	b.tell(&wire.TopicChanged{Name: t.Name, ID: t.ID, Deleted: true})
	return &wire.TopicDeleted{ID: t.ID}, nil
}

// incarnation is the topic of a name, which must have that id unless the id is zero.
func (b *Broker) incarnation(name string, id catalog.TopicID) (catalog.Topic, *wire.Error) {
	t, err := b.catalog.TopicByName(name)
	if err != nil {
		return t, about(name, refusal(err))
	}
	if id != (catalog.TopicID{}) && t.ID != id {
		e := wire.Errorf(wire.CodeUnknownTopicID, "topic %q is another one by now", name)
		e.TopicID = id
		return t, about(name, e)
	}
	return t, nil
}

// removeTopic removes the files of a topic that the catalog lists as deleted.
func (b *Broker) removeTopic(id catalog.TopicID) error {
	if err := seglog.Remove(b.cfg.FS, b.topicDir(id)); err != nil {
		return err
	}
	return b.catalog.FinishDelete(id)
}

// DescribeTopics lists topics by name.
func (b *Broker) DescribeTopics(m *wire.DescribeTopics) (wire.Message, *wire.Error) {
	topics, unknown := b.named(m.Names)
	if unknown != nil {
		return nil, unknown
	}
	reply := &wire.TopicsDescribed{}
	partitions := 0
	for _, t := range topics {
		if t.Name <= m.After {
			continue
		}
		partitions += len(t.slots)
		if len(reply.Topics) > 0 && partitions > pagePartitions {
			reply.More = true
			break
		}
		info := t.info()
		if m.Versions {
			info.BatchVersions, info.VersionsPartial = b.versions(t)
		}
		reply.Topics = append(reply.Topics, info)
	}
	return reply, nil
}

// named returns the open topics of these names, or all, sorted by name.
func (b *Broker) named(names []string) ([]*topic, *wire.Error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	byName := make(map[string]*topic, len(b.mu.topics))
	for _, t := range b.mu.topics {
		byName[t.Name] = t
	}
	var topics []*topic
	if len(names) == 0 {
		for _, t := range byName {
			topics = append(topics, t)
		}
	}
	for _, name := range names {
		t := byName[name]
		if t == nil {
			return nil, about(name, wire.Errorf(wire.CodeUnknownTopic, "no topic has the name %q", name))
		}
		topics = append(topics, t)
	}
	slices.SortFunc(topics, func(x, y *topic) int { return strings.Compare(x.Name, y.Name) })
	return slices.Compact(topics), nil
}

func (t *topic) info() wire.TopicInfo {
	info := wire.TopicInfo{
		Name: t.Name, ID: t.ID, Created: t.Created, MaxBatchBytes: uint32(t.Config.MaxBatchBytes), Strict: t.Config.Strict,
	}
	info.Readers, info.ReadersKnow = t.live.readers.look()
	for i := range t.slots {
		info.Partitions = append(info.Partitions, t.slots[i].describe())
	}
	return info
}

// versions are those of all batches of a topic. Where that cannot be said for a partition the
// others count, and it is partial.
func (b *Broker) versions(t *topic) (list []batchfmt.Version, partial bool) {
	var all producerindex.Versions
	for n, s := range t.slots {
		p := s.open.Load()
		if p == nil {
			partial = true
			continue
		}
		versions, err := p.Versions()
		if err != nil {
			partial = true
			b.cfg.Log.Warn("batch versions not known", "topic", t.Name, "partition", n, "error", err)
		}
		all |= versions
	}
	return all.List(), partial
}

func about(topic string, e *wire.Error) *wire.Error {
	if len(topic) <= 255 { // a name that long is refused, and would not fit into the reply
		e.Topic = topic
	}
	return e
}
