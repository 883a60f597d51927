package sdk_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-io/quoin/sdk"
)

func TestRoundTrip(t *testing.T) {
	_, c, p := setUp(t, 3)
	ctx := testContext(t)
	at := time.UnixMilli(1_700_000_000_123)
	sent := map[string]sdk.Record{
		"full": {Key: []byte("k"), Value: []byte("v"), Timestamp: at,
			Headers: []sdk.Header{{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "", Value: []byte{}}}},
		"null":  {},
		"empty": {Key: []byte{}, Value: []byte{}, Timestamp: at},
	}
	acks := make(map[string]sdk.Ack)
	for name, r := range sent {
		ack, err := p.Send(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		if ack.Topic != "t" || ack.Offset < 0 || ack.Duplicate || ack.AppendTime.IsZero() {
			t.Errorf("ack of %s: %+v", name, ack)
		}
		acks[name] = ack
	}
	got := make(map[string]sdk.Record)
	for partition, records := range readAll(t, c, "t") {
		for _, r := range records {
			for name, ack := range acks {
				if ack.Partition == partition && ack.Offset == r.Offset {
					got[name] = *r
				}
			}
		}
	}
	for name, want := range sent {
		r, ack := got[name], acks[name]
		if (r.Key == nil) != (want.Key == nil) || (r.Value == nil) != (want.Value == nil) {
			t.Errorf("%s: null and empty are mixed up: %+v", name, r)
		}
		want.Topic, want.Partition, want.Offset = "t", ack.Partition, ack.Offset
		want.Producer = sdk.ProducerRef{ID: p.ID(), Epoch: p.Epoch(), Sequence: ack.Sequence}
		if want.Timestamp.IsZero() {
			want.Timestamp = r.Timestamp
			if age := time.Since(r.Timestamp); age < 0 || age > time.Minute {
				t.Errorf("%s: timestamp %v is not that of sending", name, r.Timestamp)
			}
		}
		if diff := cmp.Diff(want, r); diff != "" {
			t.Errorf("%s (-sent +read):\n%s", name, diff)
		}
	}
}

func TestKeysKeepTheirOrder(t *testing.T) {
	for _, compression := range []sdk.Compression{sdk.NoCompression, sdk.Snappy, sdk.Zstd} {
		t.Run(compression.String(), func(t *testing.T) {
			_, c, _ := setUp(t, 4)
			p := build(t, c.Producer("t").Compression(compression).BatchBytes(1000))
			ctx := testContext(t)
			const keys, each = 10, 50
			var wg sync.WaitGroup
			for k := range keys {
				wg.Go(func() {
					buf := make([]byte, 0, 100)
					for i := range each {
						buf = fmt.Appendf(buf[:0], "%d", i) // reused: the SDK has its own copy
						if err := p.SendAsync(ctx, sdk.Record{Key: fmt.Append(nil, k), Value: buf}, nil); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			if err := p.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			byKey := make(map[string][]string)
			for partition, records := range readAll(t, c, "t") {
				for _, r := range records {
					if want := sdk.PartitionForKey(r.Key, 4); partition != want {
						t.Fatalf("key %q is in partition %d, belongs in %d", r.Key, partition, want)
					}
					byKey[string(r.Key)] = append(byKey[string(r.Key)], string(r.Value))
				}
			}
			for k := range keys {
				if diff := cmp.Diff(numbers(0, each), byKey[fmt.Sprint(k)]); diff != "" {
					t.Errorf("key %d (-sent +read):\n%s", k, diff)
				}
			}
		})
	}
}

func TestPartitioning(t *testing.T) {
	_, c, p := setUp(t, 4)
	ctx := testContext(t)
	t.Run("without a key another partition every batch", func(t *testing.T) {
		used := make(map[int]bool)
		last := -1
		for i := range 100 {
			ack, err := p.Send(ctx, value(i))
			if err != nil {
				t.Fatal(err)
			}
			if ack.Partition == last {
				t.Fatalf("two batches in a row in partition %d", last)
			}
			last = ack.Partition
			used[last] = true
		}
		if len(used) != 4 {
			t.Errorf("used %v", used)
		}
	})
	t.Run("fixed", func(t *testing.T) {
		fixed := build(t, c.Producer("t").Partition(2))
		ack, err := fixed.Send(ctx, sdk.Record{Key: []byte("any")})
		if err != nil || ack.Partition != 2 {
			t.Errorf("%+v, %v", ack, err)
		}
	})
	t.Run("own partitioner", func(t *testing.T) {
		own := build(t, c.Producer("t").Partitioner(func(r *sdk.Record, n int) int { return n - 1 + len(r.Value) }))
		if ack, err := own.Send(ctx, sdk.Record{}); err != nil || ack.Partition != 3 {
			t.Errorf("%+v, %v", ack, err)
		}
		if _, err := own.Send(ctx, sdk.Record{Value: []byte("x")}); err == nil || !strings.Contains(err.Error(), "partitioner chose 4") {
			t.Errorf("a partition that does not exist: %v", err)
		}
	})
	t.Run("partition that the topic lacks", func(t *testing.T) {
		if _, err := c.Producer("t").Idempotent().Partition(4).Build(ctx); err == nil {
			t.Error("built")
		}
	})
}

// TestManyLanesShareStreams writes to more partitions than there are streams for lanes.
func TestManyLanesShareStreams(t *testing.T) {
	const partitions, each = 150, 4
	s, c, _ := setUp(t, partitions)
	ctx := testContext(t)
	next := 0
	p := build(t, c.Producer("t").Partitioner(func(*sdk.Record, int) int { next++; return next % partitions }))
	for round := range each {
		for range partitions {
			if err := p.SendAsync(ctx, value(round), nil); err != nil {
				t.Fatal(err)
			}
		}
		if round == 1 {
			s.CutConnection()
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	all := readAll(t, c, "t")
	for i := range partitions {
		if diff := cmp.Diff(numbers(0, each), values(all[i])); diff != "" {
			t.Fatalf("partition %d (-sent +read):\n%s", i, diff)
		}
	}
}

func TestAdmin(t *testing.T) {
	_, c, p := setUp(t, 2)
	ctx := testContext(t)
	if _, err := p.Send(ctx, value(1)); err != nil {
		t.Fatal(err)
	}
	createTopic(t, c, "other", 1)
	topic, err := c.DescribeTopic(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	if topic.Name != "t" || len(topic.Partitions) != 2 || topic.MaxBatchBytes == 0 ||
		topic.Partitions[0].HighWatermark+topic.Partitions[1].HighWatermark != 1 {
		t.Errorf("described as %+v", topic)
	}
	list, err := c.ListTopics(ctx)
	if err != nil || len(list) != 2 || list[0].Name != "other" || list[1].Name != "t" {
		t.Errorf("listed %+v, %v", list, err)
	}
	if _, err := c.CreateTopic(ctx, "t", sdk.TopicOptions{}); !isError(err, sdk.ErrTopicExists) {
		t.Errorf("created twice: %v", err)
	}
	if _, err := c.CreateTopic(ctx, "bad name", sdk.TopicOptions{}); !isError(err, sdk.ErrInvalidTopic) {
		t.Errorf("created with a bad name: %v", err)
	}
	if _, err := c.CreateTopic(ctx, "x", sdk.TopicOptions{Partitions: -1}); err == nil {
		t.Error("created with -1 partitions")
	}
	if err := c.DeleteTopic(ctx, "other"); err != nil {
		t.Error(err)
	}
	if err := c.DeleteTopic(ctx, "other"); !isError(err, sdk.ErrUnknownTopic) {
		t.Errorf("deleted twice: %v", err)
	}
	if _, err := c.Producer("other").Idempotent().Build(ctx); !isError(err, sdk.ErrUnknownTopic) {
		t.Errorf("producer of a topic that is gone: %v", err)
	}
}
