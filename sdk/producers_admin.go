package sdk

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// PartitionProducers is what a partition knew of its producers when it was asked.
type PartitionProducers struct {
	Lanes         []ProducerLane // those in memory, by producer id
	Retired       int64          // how many more have left memory; [Client.DescribeProducer] finds each
	ForgottenUpTo uint64         // producer ids up to it may be forgotten; 0 when none is
}

// A ProducerLane is what a partition knows of one producer.
type ProducerLane struct {
	ProducerID uint64
	Name       string        // at most its first 255 bytes; empty when the producer has none
	Epoch      uint32        // the lowest that new batches may have
	Last       int64         // last sequence that was appended; -1 for none
	LastOffset int64         // of the record with that sequence; -1 when it is not known
	Floor      int64         // first sequence of the present numbering
	Confirmed  int64         // up to here the producer has the outcome of every record; -1 for none
	Window     []LaneBatch   // the newest batches, oldest first
	InFlight   int           // how many of them are not durable yet
	Idle       time.Duration // since it was last used, while the server ran, in seconds; 0 for a retired one
	Opening    uint64        // number of its newest opening; 0 for none since the server started
	Open       bool          // a stream has the lane open
	Closed     bool          // the producer said that it writes no more
	Suspect    bool          // damage to the log may have hidden batches of the lane
	Retired    bool          // it had left memory, and was looked up
	Position   []byte        // of the producer in its own source, from the last batch that had one
}

// A LaneBatch is a batch that a lane remembers.
type LaneBatch struct {
	First, Last int64 // sequences
	Offset      int64 // of its first record
	Digest      uint64
}

// A Decision is what a partition made of one batch of a producer, and why.
type Decision struct {
	Time        time.Time // by the server's clock
	ProducerID  uint64
	Epoch       uint32 // that the batch was sealed with
	First, Last int64  // sequences
	Row         int    // of the server's table of decisions; negative when it was none of these
	Kind        string // such as "accept", "duplicate", "gap"
	Reason      string // for people; it may change in any release
	Offset      int64  // of the batch, or of what stood in its way; -1 when it is not known
}

// DescribeProducers lists what a partition has in memory of its producers. Lanes that come
// or go meanwhile may be in the list or not. A partition that refuses for the moment, as one
// does that could not be opened, is asked again until ctx ends. The error is [ErrUnknownTopic]
// or [ErrUnknownPartition] when there is no such partition.
func (c *Client) DescribeProducers(ctx context.Context, topic string, partition int) (PartitionProducers, error) {
	const op = "describe producers"
	m, err := c.describeRequest(ctx, op, topic, partition)
	if err != nil {
		return PartitionProducers{}, err
	}
	return allLanes(func(after batchfmt.ProducerID) (*wire.ProducersDescribed, error) {
		m.After = after
		return c.producersPage(ctx, op, topic, m)
	})
}

// allLanes puts pages together. They must go on: a server could keep its caller for ever.
func allLanes(pageBehind func(batchfmt.ProducerID) (*wire.ProducersDescribed, error)) (PartitionProducers, error) {
	var all PartitionProducers
	after := batchfmt.NoProducer
	for {
		page, err := pageBehind(after)
		if err != nil {
			return PartitionProducers{}, err
		}
		all.Retired = int64(min(page.Retired, math.MaxInt64))
		all.ForgottenUpTo = uint64(page.Forgotten)
		for i := range page.Lanes {
			if page.Lanes[i].ProducerID <= after {
				return PartitionProducers{}, fmt.Errorf("sdk: describe producers: the server's pages do not go on behind producer %d", after)
			}
			after = page.Lanes[i].ProducerID
			all.Lanes = append(all.Lanes, laneOf(&page.Lanes[i]))
		}
		if !page.More || len(page.Lanes) == 0 {
			return all, nil
		}
	}
}

// DescribeProducer describes one producer of a partition, also one that has left memory.
// The error is [ErrUnknownProducer] when the partition knows nothing of it.
func (c *Client) DescribeProducer(ctx context.Context, topic string, partition int, producer uint64) (ProducerLane, error) {
	const op = "describe producer"
	if producer == 0 {
		return ProducerLane{}, fmt.Errorf("sdk: %s: 0 is not the id of a producer", op)
	}
	m, err := c.describeRequest(ctx, op, topic, partition)
	if err != nil {
		return ProducerLane{}, err
	}
	m.ProducerID = batchfmt.ProducerID(producer)
	page, err := c.producersPage(ctx, op, topic, m)
	switch {
	case err != nil:
		return ProducerLane{}, err
	case len(page.Lanes) == 1 && page.Lanes[0].ProducerID == m.ProducerID:
		return laneOf(&page.Lanes[0]), nil
	case len(page.Lanes) > 0:
		return ProducerLane{}, unexpected(op, page)
	}
	detail := "the partition has never heard of it"
	if m.ProducerID <= page.Forgotten {
		detail = fmt.Sprintf("the partition has nothing of it, and may have forgotten producers up to %d", page.Forgotten)
	}
	return ProducerLane{}, &ServerError{Op: op, Code: wire.CodeUnknownProducerID, Topic: topic, Partition: partition,
		ProducerID: producer, Sequence: -1, Expected: -1, Offset: -1, Detail: detail}
}

// ExplainProducers lists the latest decisions of a partition about batches, the newest last:
// those about one producer, or about all when producer is 0; at most limit of them, or all
// that the partition remembers, 256 as of now, when limit is 0. They do not outlive a restart
// of the server.
func (c *Client) ExplainProducers(ctx context.Context, topic string, partition int, producer uint64, limit int) ([]Decision, error) {
	const op = "explain producers"
	if limit < 0 {
		return nil, fmt.Errorf("sdk: %s: limit %d is negative", op, limit)
	}
	id, number, err := c.partitionID(ctx, op, topic, partition)
	if err != nil {
		return nil, err
	}
	reply, err := c.do(ctx, op, topic, &wire.ExplainProducers{TopicID: id, Partition: number,
		ProducerID: batchfmt.ProducerID(producer), Limit: uint32(min(limit, math.MaxUint32))}, true)
	if err != nil {
		return nil, err
	}
	explained, ok := reply.(*wire.ProducersExplained)
	if !ok {
		return nil, unexpected(op, reply)
	}
	var list []Decision
	for _, d := range explained.Decisions {
		list = append(list, Decision{Time: time.UnixMilli(d.Time), ProducerID: uint64(d.ProducerID), Epoch: uint32(d.Epoch),
			First: int64(d.Base), Last: int64(d.Last), Row: int(d.Row), Kind: d.Kind, Reason: d.Text, Offset: int64(d.Offset)})
	}
	return list, nil
}

func (c *Client) describeRequest(ctx context.Context, op, topic string, partition int) (*wire.DescribeProducers, error) {
	id, number, err := c.partitionID(ctx, op, topic, partition)
	return &wire.DescribeProducers{TopicID: id, Partition: number}, err
}

// partitionID finds out by which id a partition is asked for.
func (c *Client) partitionID(ctx context.Context, op, topic string, partition int) (id [16]byte, number int32, err error) {
	info, err := c.topicInfo(ctx, topic)
	if err != nil {
		return id, 0, err
	}
	if partition < 0 || partition >= len(info.Partitions) {
		return id, 0, &ServerError{Op: op, Code: wire.CodeUnknownPartition, Topic: topic, Partition: partition,
			Sequence: -1, Expected: -1, Offset: -1, Detail: fmt.Sprintf("there is no partition %d, the topic has %d", partition, len(info.Partitions))}
	}
	return info.ID, int32(partition), nil
}

func (c *Client) producersPage(ctx context.Context, op, topic string, m *wire.DescribeProducers) (*wire.ProducersDescribed, error) {
	reply, err := c.do(ctx, op, topic, m, true)
	if err != nil {
		return nil, err
	}
	page, ok := reply.(*wire.ProducersDescribed)
	if !ok {
		return nil, unexpected(op, reply)
	}
	return page, nil
}

func laneOf(l *wire.LaneInfo) ProducerLane {
	lane := ProducerLane{
		ProducerID: uint64(l.ProducerID), Name: l.Name, Epoch: uint32(l.Epoch),
		Last: int64(l.Last), LastOffset: int64(l.LastOffset), Floor: int64(l.Floor), Confirmed: int64(l.Confirmed),
		InFlight: int(l.InFlight), Idle: l.Idle, Opening: l.Opening,
		Open: l.Open, Closed: l.Closed, Suspect: l.Suspect, Retired: l.Retired,
		Position: append([]byte(nil), l.Position...),
	}
	for _, b := range l.Window {
		lane.Window = append(lane.Window, LaneBatch{First: int64(b.Base), Last: int64(b.Last), Offset: int64(b.Offset), Digest: uint64(b.Digest)})
	}
	return lane
}
