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
}

// A Topic is a topic as it was when it was described.
type Topic struct {
	Name          string
	ID            [16]byte // random; a topic that is made again under the same name has another one
	Created       time.Time
	MaxBatchBytes int
	Partitions    []Partition // by number
}

// A Partition is a partition as it was when its topic was described.
type Partition struct {
	LogStart      int64 // the oldest offset that can be read
	HighWatermark int64 // the offset that the next record gets
	Bytes         int64 // on disk
	Err           error // why it takes no writes, or nil
}

func topicOf(t *wire.TopicInfo) Topic {
	topic := Topic{Name: t.Name, ID: t.ID, Created: time.UnixMilli(t.Created), MaxBatchBytes: int(t.MaxBatchBytes)}
	for i, p := range t.Partitions {
		partition := Partition{LogStart: int64(p.LogStart), HighWatermark: int64(p.HighWatermark), Bytes: p.Bytes}
		if p.Code != wire.CodeOK {
			partition.Err = &ServerError{Op: "describe", Code: p.Code, Topic: t.Name, Partition: i, Sequence: -1, Expected: -1}
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
		Name: name, Partitions: int32(o.Partitions), MaxBatchBytes: uint32(o.MaxBatchBytes)}, false)
	if err != nil {
		return Topic{}, err
	}
	created, ok := reply.(*wire.TopicCreated)
	if !ok {
		return Topic{}, unexpected("create topic", reply)
	}
	return topicOf(&created.Topic), nil
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
	info, err := c.topicInfo(ctx, name)
	if err != nil {
		return Topic{}, err
	}
	return topicOf(info), nil
}

func (c *Client) topicInfo(ctx context.Context, name string) (*wire.TopicInfo, error) {
	reply, err := c.do(ctx, "describe topic", name, &wire.DescribeTopics{Names: []string{name}}, true)
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
