package sdk_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/wire"
)

// What happens to topics while producers use them.
var topicScenarios = []scenario{
	{68, "topic-grows-in-a-retry", "the topic gets partitions while a batch is sent again: it stays in its own, its key goes elsewhere from now on, new ones begin with 0",
		[]string{"reroute"}, topicGrowsInARetry},
	{69, "metadata-says-less", "the server says for a while that the topic is missing, or has fewer partitions: lanes and their sequences are kept",
		[]string{"topic-shrinks"}, metadataSaysLess},
}

func topicGrowsInARetry(t *testing.T) {
	s := startStage(t, 1)
	partitions := 0 // as p knows it
	p := build(t, s.client.Producer("t").Partitioner(func(r *sdk.Record, n int) int {
		if partitions = n; r.Key == nil {
			return n // which is refused
		}
		return sdk.PartitionForKey(r.Key, n)
	}))
	send := func(i int) sdk.Ack {
		t.Helper()
		ack, err := p.Send(testContext(t), keyed(3, 4, i))
		if err != nil {
			t.Fatal(err)
		}
		return ack
	}
	send(0)
	var cut, back atomic.Bool
	s.net.loseReplies(func(k wire.Kind) bool {
		if k == wire.KindLaneOpened && cut.Load() {
			back.Store(true)
		}
		return false
	})
	full := answerInstead(wire.CodeDiskFull)
	s.net.editAnswers(func(m *wire.ProduceResults) {
		if m.Results[0].BaseSequence == 1 && !back.Load() {
			full(m)
		}
	})
	told := make(chan telling, 1)
	if err := p.SendAsync(testContext(t), keyed(3, 4, 1), func(ack sdk.Ack, err error) { told <- telling{1, ack, err} }); err != nil {
		t.Fatal(err)
	}
	await(t, s.throttled, 1)
	if _, err := s.client.AlterTopic(testContext(t), "t", sdk.SetPartitions(4)); err != nil {
		t.Fatal(err)
	}
	for ctx := testContext(t); partitions != 4; {
		if _, err := s.client.DescribeTopic(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		if err := p.TrySend(value(9), nil); err == nil {
			t.Fatal("a partition that is not there is taken")
		}
	}
	if ack := send(2); ack.Partition != 3 || ack.Sequence != 0 || ack.Offset != 0 {
		t.Errorf("after the change: %+v", ack)
	}
	cut.Store(true)
	s.server.CutConnection()
	if one := await(t, told, 1)[0]; one.err != nil || one.ack.Partition != 0 || one.ack.Sequence != 1 || !one.ack.Duplicate {
		t.Errorf("the retry: %+v, %v", one.ack, one.err)
	}
	all := readAll(t, s.client, "t")
	if diff := cmp.Diff([]string{"0 1", "2"}, []string{strings.Join(values(all[0]), " "), strings.Join(values(all[3]), " ")}); diff != "" {
		t.Errorf("(-sent +read):\n%s", diff)
	}
}

func metadataSaysLess(t *testing.T) {
	s := startStage(t, 2)
	p := build(t, s.client.Producer("t"))
	send := func(i int, sequence int64) {
		t.Helper()
		for partition := range 2 {
			ack, err := p.Send(testContext(t), keyed(partition, 2, i))
			if err != nil || ack.Partition != partition || ack.Sequence != sequence || ack.Duplicate {
				t.Errorf("record %d for partition %d: %+v, %v", i, partition, ack, err)
			}
		}
	}
	send(0, 0)
	var lies atomic.Int64
	said := make(chan struct{}, 1000)
	s.net.edit(wire.KindTopicsDescribed, func(m wire.Message) wire.Message {
		defer func() { said <- struct{}{} }()
		if lies.Add(1)%2 == 0 {
			return wire.Errorf(wire.CodeUnknownTopic, "a moment ago there was none")
		}
		topic := &m.(*wire.TopicsDescribed).Topics[0]
		topic.Partitions = topic.Partitions[:1]
		return m
	})
	_, release := s.server.HoldSync()
	told := make(chan telling, 1)
	if err := p.SendAsync(testContext(t), keyed(1, 2, 1), func(ack sdk.Ack, err error) { told <- telling{1, ack, err} }); err != nil {
		t.Fatal(err)
	}
	admin := dial(t, s.server)
	for i := range 3 { // when it asks for the third time, it has heard of two
		if _, err := admin.AlterTopic(testContext(t), "t", sdk.SetStrictBatchVersion(i%2 == 0)); err != nil {
			t.Fatal(err)
		}
		await(t, said, 1)
	}
	s.server.CutConnection()
	release()
	if one := await(t, told, 1)[0]; one.err != nil || one.ack.Partition != 1 || one.ack.Sequence != 1 {
		t.Errorf("the one in flight: %+v, %v", one.ack, one.err)
	}
	if ack, err := p.Send(testContext(t), keyed(0, 2, 1)); err != nil || ack.Sequence != 1 {
		t.Errorf("%+v, %v", ack, err)
	}
	send(2, 2)
	s.net.edit(wire.KindTopicsDescribed, nil)
	all := readAll(t, s.client, "t")
	if diff := cmp.Diff([]string{"0 1 2", "0 1 2"}, []string{strings.Join(values(all[0]), " "), strings.Join(values(all[1]), " ")}); diff != "" {
		t.Errorf("(-sent +read):\n%s", diff)
	}
}
