package sdk

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// TopicOptions are the settings of a new topic.
type TopicOptions struct {
	Partitions    int // at least 1; 0 is taken as 1
	MaxBatchBytes int // of one batch; 0 for the server's default, at most 16 MiB
	// StrictBatchVersion has readers that do not know the version of a batch refused, in front of
	// that batch. Without it they are given the batch in a version that they know, with the same
	// records at the same offsets, but without what only the newer version carries.
	StrictBatchVersion bool
}

// A Topic is a topic as it was when it was described.
type Topic struct {
	Name          string
	ID            [16]byte // random; a topic that is made again under the same name has another one
	Created       time.Time
	MaxBatchBytes int
	Partitions    []Partition // by number

	StrictBatchVersion bool // see [TopicOptions]
	// BatchVersions are the versions of the batches that the topic holds, ascending. Only
	// DescribeTopic looks at them. Where a partition cannot be looked at there may be others:
	// then VersionsPartial is set.
	BatchVersions   []int
	VersionsPartial bool
	// Readers is how many subscriptions were open, one for each partition that somebody reads,
	// and ReadersKnow the newest batch version that all of them can read; 0 without any.
	Readers     int
	ReadersKnow int
}

// A Partition is a partition as it was when its topic was described.
type Partition struct {
	LogStart      int64 // the oldest offset that can be read
	HighWatermark int64 // the offset that the next record gets
	Bytes         int64 // on disk
	Err           error // why it takes no writes, or nil
}

func topicOf(t *wire.TopicInfo) Topic {
	topic := Topic{Name: t.Name, ID: t.ID, Created: time.UnixMilli(t.Created), MaxBatchBytes: int(t.MaxBatchBytes),
		StrictBatchVersion: t.Strict, VersionsPartial: t.VersionsPartial, Readers: int(t.Readers), ReadersKnow: int(t.ReadersKnow)}
	for _, v := range t.BatchVersions {
		topic.BatchVersions = append(topic.BatchVersions, int(v))
	}
	for i, p := range t.Partitions {
		partition := Partition{LogStart: int64(p.LogStart), HighWatermark: int64(p.HighWatermark), Bytes: p.Bytes}
		if p.Code != wire.CodeOK {
			partition.Err = &ServerError{Op: "describe", Code: p.Code, Topic: t.Name, Partition: i, Sequence: -1, Expected: -1, Offset: -1}
		}
		topic.Partitions = append(topic.Partitions, partition)
	}
	return topic
}

// CreateTopic makes a topic and returns when it is durable. A connection that is lost
// before the answer gives [ErrConnectionLost]: then the topic may exist or not.
func (c *Client) CreateTopic(ctx context.Context, name string, o TopicOptions) (Topic, error) {
	if o.Partitions == 0 {
		o.Partitions = 1
	}
	if o.Partitions < 1 || o.Partitions > math.MaxInt32 {
		return Topic{}, fmt.Errorf("sdk: create topic %q: %d partitions are not allowed", name, o.Partitions)
	}
	if o.MaxBatchBytes < 0 || o.MaxBatchBytes > batchfmt.MaxBatchBytes {
		return Topic{}, fmt.Errorf("sdk: create topic %q: MaxBatchBytes %d is not 0 to %d", name, o.MaxBatchBytes, batchfmt.MaxBatchBytes)
	}
	reply, err := c.do(ctx, "create topic", name, &wire.CreateTopic{
		Name: name, Partitions: int32(o.Partitions), MaxBatchBytes: uint32(o.MaxBatchBytes), Strict: o.StrictBatchVersion}, false)
	if err != nil {
		return Topic{}, err
	}
	created, ok := reply.(*wire.TopicCreated)
	if !ok {
		return Topic{}, unexpected("create topic", reply)
	}
	return topicOf(&created.Topic), nil
}

// A TopicChange is one thing to change of a topic; see [Client.AlterTopic].
type TopicChange struct{ apply func(*wire.AlterTopic) error }

// SetPartitions raises the number of partitions. It cannot be lowered, as records would be
// lost. Producers and consumers that run notice it at once; a key may belong to another
// partition from then on, so records of one key that were sent before and after the change
// need not be in one partition.
func SetPartitions(n int) TopicChange {
	return TopicChange{func(m *wire.AlterTopic) error {
		if n < 1 || n > math.MaxInt32 {
			return fmt.Errorf("SetPartitions(%d) is not allowed", n)
		}
		m.Partitions = new(int32)
		*m.Partitions = int32(n)
		return nil
	}}
}

// SetMaxBatchBytes changes the limit of a batch; 0 means the server's default. What is
// stored stays, and a retry of it is answered, whatever the limit is by then. Producers that run
// divide what they have gathered in larger batches; at most the five of a partition that are on
// their way end as not stored, and so does a record that alone is too large by now.
func SetMaxBatchBytes(n int) TopicChange {
	return TopicChange{func(m *wire.AlterTopic) error {
		if n < 0 || n > batchfmt.MaxBatchBytes {
			return fmt.Errorf("SetMaxBatchBytes(%d) is not 0 to %d", n, batchfmt.MaxBatchBytes)
		}
		m.MaxBatchBytes = new(uint32)
		*m.MaxBatchBytes = uint32(n)
		return nil
	}}
}

// SetStrictBatchVersion says what readers get that do not know the version of a batch, see
// [TopicOptions]. It holds for readers that are there already, too.
func SetStrictBatchVersion(strict bool) TopicChange {
	return TopicChange{func(m *wire.AlterTopic) error {
		m.Strict = &strict
		return nil
	}}
}

// AlterTopic changes a topic, all at once or nothing, and returns when the change is durable.
// It may be called again when its outcome is not known.
func (c *Client) AlterTopic(ctx context.Context, name string, changes ...TopicChange) (Topic, error) {
	m := &wire.AlterTopic{Name: name}
	for _, change := range changes {
		if err := change.apply(m); err != nil {
			return Topic{}, fmt.Errorf("sdk: alter topic %q: %w", name, err)
		}
	}
	reply, err := c.do(ctx, "alter topic", name, m, true)
	if err != nil {
		return Topic{}, err
	}
	altered, ok := reply.(*wire.TopicAltered)
	if !ok {
		return Topic{}, unexpected("alter topic", reply)
	}
	return topicOf(&altered.Topic), nil
}

// DeleteTopic deletes a topic and all records in it. A connection that is lost before
// the answer gives [ErrConnectionLost]: then the topic may exist or not.
func (c *Client) DeleteTopic(ctx context.Context, name string) error {
	reply, err := c.do(ctx, "delete topic", name, &wire.DeleteTopic{Name: name}, false)
	if err != nil {
		return err
	}
	if _, ok := reply.(*wire.TopicDeleted); !ok {
		return unexpected("delete topic", reply)
	}
	return nil
}

// DescribeTopic describes a topic. The error is [ErrUnknownTopic] when there is none.
func (c *Client) DescribeTopic(ctx context.Context, name string) (Topic, error) {
	info, err := c.describe(ctx, &wire.DescribeTopics{Names: []string{name}, Versions: true})
	if err != nil {
		return Topic{}, err
	}
	return topicOf(info), nil
}

// topicInfo is what there is to know of a topic without reading the disk.
func (c *Client) topicInfo(ctx context.Context, name string) (*wire.TopicInfo, error) {
	return c.describe(ctx, &wire.DescribeTopics{Names: []string{name}})
}

func (c *Client) describe(ctx context.Context, m *wire.DescribeTopics) (*wire.TopicInfo, error) {
	name := m.Names[0]
	reply, err := c.do(ctx, "describe topic", name, m, true)
	if err != nil {
		return nil, err
	}
	described, ok := reply.(*wire.TopicsDescribed)
	if !ok || len(described.Topics) != 1 || described.Topics[0].Name != name {
		return nil, unexpected("describe topic", reply)
	}
	return &described.Topics[0], nil
}

// ListTopics describes all topics, sorted by name.
func (c *Client) ListTopics(ctx context.Context) ([]Topic, error) {
	var topics []Topic
	after := ""
	for {
		reply, err := c.do(ctx, "list topics", "", &wire.DescribeTopics{After: after}, true)
		if err != nil {
			return nil, err
		}
		page, ok := reply.(*wire.TopicsDescribed)
		if !ok {
			return nil, unexpected("list topics", reply)
		}
		for i := range page.Topics {
			topics = append(topics, topicOf(&page.Topics[i]))
		}
		if !page.More || len(page.Topics) == 0 {
			return topics, nil
		}
		last := page.Topics[len(page.Topics)-1].Name
		if last <= after {
			return nil, fmt.Errorf("sdk: list topics: the server's pages do not go on behind %q", after)
		}
		after = last
	}
}

func unexpected(op string, m wire.Message) error {
	return fmt.Errorf("sdk: %s: the server answered with %v that does not fit", op, m.Kind())
}
