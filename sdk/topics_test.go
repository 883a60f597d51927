package sdk_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
)

// A topic grows under a producer and a consumer: records go to the new partitions at once,
// those that were given before stay where they are, and the consumer gets all of them.
func TestTopicGrows(t *testing.T) {
	_, c, p := setUp(t, 1, servertest.InMemory())
	ctx := testContext(t)
	consumer, err := c.Consumer("t").From(sdk.Latest).Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	sent, altered := 0, false
	used := make(map[int]bool)
	for len(used) < 4 {
		key := fmt.Sprintf("k%d", sent)
		ack, err := p.Send(ctx, sdk.Record{Key: []byte(key), Value: []byte(fmt.Sprint(sent))})
		if err != nil {
			t.Fatal(err)
		}
		if altered && len(used) > 1 && ack.Partition != sdk.PartitionForKey([]byte(key), 4) {
			t.Errorf("key %s went to partition %d", key, ack.Partition)
		}
		used[ack.Partition] = true
		if sent++; sent == 5 {
			topic, err := c.AlterTopic(ctx, "t", sdk.SetPartitions(4))
			if err != nil || len(topic.Partitions) != 4 {
				t.Fatalf("%+v, %v", topic, err)
			}
			altered = true
		}
	}
	var got []int
	for r, err := range consumer.Records(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		var n int
		fmt.Sscan(string(r.Value), &n)
		if got = append(got, n); len(got) == sent {
			break
		}
	}
	slices.Sort(got)
	for i, n := range got {
		if n != i {
			t.Fatalf("record %d is missing or there twice: %v", i, got)
		}
	}
}

// A consumer of some partitions, or up to the end, does not begin others.
func TestConsumersThatDoNotGrow(t *testing.T) {
	_, c, _ := setUp(t, 1, servertest.InMemory())
	ctx := testContext(t)
	some, err := c.Consumer("t").Partitions(0).Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ending, err := c.Consumer("t").StopAtEnd().Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	growing, err := c.Consumer("t").Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AlterTopic(ctx, "t", sdk.SetPartitions(2)); err != nil {
		t.Fatal(err)
	}
	p := build(t, c.Producer("t").Idempotent().Partition(1))
	if _, err := p.Send(ctx, value(7)); err != nil {
		t.Fatal(err)
	}
	for r, err := range growing.Records(ctx) {
		if err != nil || r.Partition != 1 || string(r.Value) != "7" {
			t.Fatalf("%+v, %v", r, err)
		}
		break
	}
	if growing.Position(1) != 1 || some.Position(1) != -1 || ending.Position(1) != -1 {
		t.Errorf("positions in the new partition: %d, %d, %d", growing.Position(1), some.Position(1), ending.Position(1))
	}
	for r, err := range ending.Records(ctx) {
		t.Errorf("one that ends has read %+v, %v", r, err)
	}
}

// The limit of a batch is lowered and raised under a producer. Until it has heard of that the
// server refuses what is too large; nothing of it is stored.
func TestLimitIsAltered(t *testing.T) {
	_, c, p := setUp(t, 1, servertest.InMemory())
	ctx := testContext(t)
	large := sdk.Record{Value: make([]byte, 8<<10)}
	stored := 0
	send := func() error {
		_, err := p.Send(ctx, large)
		if err == nil {
			stored++
		}
		return err
	}
	if err := send(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AlterTopic(ctx, "t", sdk.SetMaxBatchBytes(4<<10)); err != nil {
		t.Fatal(err)
	}
	var tooLarge *sdk.RecordTooLargeError
	for !errors.As(send(), &tooLarge) {
	}
	if tooLarge.Limit != 4<<10 {
		t.Errorf("the limit is told as %d", tooLarge.Limit)
	}
	if stored != 1 {
		t.Errorf("%d records are stored over the limit", stored-1)
	}
	if _, err := p.Send(ctx, sdk.Record{Value: make([]byte, 1<<10)}); err != nil {
		t.Errorf("a small record: %v", err)
	}
	if _, err := c.AlterTopic(ctx, "t", sdk.SetMaxBatchBytes(0), sdk.SetStrictBatchVersion(true)); err != nil {
		t.Fatal(err)
	}
	for send() != nil {
	}
	topic, err := c.DescribeTopic(ctx, "t")
	if err != nil || topic.MaxBatchBytes != 1<<20 || !topic.StrictBatchVersion {
		t.Errorf("described as %+v, %v", topic, err)
	}
}

func TestAlterTopicRefusals(t *testing.T) {
	_, c, _ := setUp(t, 2, servertest.InMemory())
	ctx := testContext(t)
	for name, changes := range map[string][]sdk.TopicChange{
		"no partitions":     {sdk.SetPartitions(0)},
		"fewer partitions":  {sdk.SetPartitions(1)},
		"negative limit":    {sdk.SetMaxBatchBytes(-1)},
		"a limit too large": {sdk.SetMaxBatchBytes(17 << 20)},
		"a limit too small": {sdk.SetMaxBatchBytes(1)},
	} {
		if _, err := c.AlterTopic(ctx, "t", changes...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := c.AlterTopic(ctx, "other"); !errors.Is(err, sdk.ErrUnknownTopic) {
		t.Errorf("another topic: %v", err)
	}
	if topic, err := c.DescribeTopic(ctx, "t"); err != nil || len(topic.Partitions) != 2 || topic.MaxBatchBytes != 1<<20 {
		t.Errorf("%+v, %v", topic, err)
	}
}
