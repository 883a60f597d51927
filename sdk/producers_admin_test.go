package sdk_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/servertest"
)

// onlyLane is the one lane of partition 0 of topic "t".
func onlyLane(t *testing.T, c *sdk.Client) sdk.ProducerLane {
	t.Helper()
	got, err := c.DescribeProducers(testContext(t), "t", 0)
	if err != nil || len(got.Lanes) != 1 {
		t.Fatalf("lanes %+v, %v", got, err)
	}
	return got.Lanes[0]
}

func TestDescribeProducers(t *testing.T) {
	s := servertest.Start(t)
	c := dial(t, s)
	createTopic(t, c, "t", 2)
	p := build(t, c.Producer("t").Partition(0))
	for i := range 7 {
		if _, err := p.Send(testContext(t), value(i)); err != nil {
			t.Fatal(err)
		}
	}
	lane := onlyLane(t, c)
	if lane.Name != "" || lane.Last != 6 || lane.LastOffset != 6 || lane.Floor != 0 || lane.Epoch != 0 ||
		!lane.Open || lane.Closed || lane.Suspect || lane.Retired || lane.Opening == 0 || lane.InFlight != 0 {
		t.Errorf("got %+v", lane)
	}
	if lane.Confirmed < 4 || lane.Confirmed > 6 {
		t.Errorf("confirmed through %d; the sixth record was sent after the outcome of the fifth", lane.Confirmed)
	}
	if n := len(lane.Window); n != 5 || lane.Window[0].First != 2 || lane.Window[4].Last != 6 || lane.Window[4].Offset != 6 || lane.Window[4].Digest == 0 {
		t.Errorf("window %+v", lane.Window)
	}
	one, err := c.DescribeProducer(testContext(t), "t", 0, lane.ProducerID)
	if err != nil || one.ProducerID != lane.ProducerID || one.Last != 6 {
		t.Errorf("by its id %+v, %v", one, err)
	}
	s.AdvanceClock(time.Hour)
	if lane := onlyLane(t, c); lane.Idle < 0 || lane.Idle > time.Minute {
		t.Errorf("idle for %v when the wall clock had gone on by an hour: only the server's running time counts", lane.Idle)
	}
	if other, err := c.DescribeProducers(testContext(t), "t", 1); err != nil || len(other.Lanes) != 0 {
		t.Errorf("the other partition has %+v, %v", other, err)
	}
}

// A producer that had to leave memory is counted, and found by its id.
func TestDescribeRetiredProducer(t *testing.T) {
	s := servertest.Start(t, servertest.Configure(func(cfg *server.Config) { cfg.MaxProducers = 1 }))
	c := dial(t, s)
	createTopic(t, c, "t", 1)
	first := build(t, c.Producer("t"))
	if _, err := first.Send(testContext(t), value(0)); err != nil {
		t.Fatal(err)
	}
	id := onlyLane(t, c).ProducerID
	if _, err := first.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := build(t, c.Producer("t")).Send(testContext(t), value(1)); err != nil {
		t.Fatal(err)
	}
	all, err := c.DescribeProducers(testContext(t), "t", 0)
	if err != nil || len(all.Lanes) != 1 || all.Lanes[0].ProducerID == id || all.Retired != 1 || all.ForgottenUpTo != 0 {
		t.Errorf("got %+v, %v", all, err)
	}
	lane, err := c.DescribeProducer(testContext(t), "t", 0, id)
	if err != nil || !lane.Retired || lane.Open || lane.Last != 0 || lane.Idle != 0 || len(lane.Window) != 1 {
		t.Errorf("got %+v, %v", lane, err)
	}
}

func TestExplainProducers(t *testing.T) {
	_, c, p := setUp(t, 1)
	for i := range 3 {
		if _, err := p.Send(testContext(t), value(i)); err != nil {
			t.Fatal(err)
		}
	}
	id := onlyLane(t, c).ProducerID
	list, err := c.ExplainProducers(testContext(t), "t", 0, id, 0)
	if err != nil || len(list) != 3 {
		t.Fatalf("got %+v, %v", list, err)
	}
	last := list[len(list)-1]
	if last.ProducerID != id || last.First != 2 || last.Last != 2 || last.Row != 9 || last.Kind != "accept" || last.Reason == "" {
		t.Errorf("the newest is %+v", last)
	}
	if age := time.Since(last.Time); age < -time.Minute || age > time.Minute {
		t.Errorf("it was %v ago", age)
	}
	if newest, err := c.ExplainProducers(testContext(t), "t", 0, 0, 2); err != nil || len(newest) != 2 || newest[1].First != 2 {
		t.Errorf("the two newest of all are %+v, %v", newest, err)
	}
	if none, err := c.ExplainProducers(testContext(t), "t", 0, id+1, 0); err != nil || len(none) != 0 {
		t.Errorf("of nobody there are %+v, %v", none, err)
	}
}

func TestProducersThatAreNotThere(t *testing.T) {
	_, c, p := setUp(t, 1)
	if _, err := p.Send(testContext(t), value(0)); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name      string
		topic     string
		partition int
		producer  uint64
		want      error
		text      string
	}{
		{"no such topic", "other", 0, 1, sdk.ErrUnknownTopic, `"other"`},
		{"a partition above the last", "t", 1, 1, sdk.ErrUnknownPartition, "no partition 1, the topic has 1"},
		{"a partition below 0", "t", -1, 1, sdk.ErrUnknownPartition, "no partition -1"},
		{"no such producer", "t", 0, 1 << 40, sdk.ErrUnknownProducer, "never heard of it"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, one := c.DescribeProducer(testContext(t), row.topic, row.partition, row.producer)
			_, all := c.DescribeProducers(testContext(t), row.topic, row.partition)
			_, why := c.ExplainProducers(testContext(t), row.topic, row.partition, 0, 1)
			if !errors.Is(one, row.want) || !strings.Contains(fmt.Sprint(one), row.text) {
				t.Errorf("describing one: %v", one)
			}
			if want := row.want != sdk.ErrUnknownProducer; errors.Is(all, row.want) != want || errors.Is(why, row.want) != want {
				t.Errorf("listing: %v; explaining: %v", all, why)
			}
		})
	}
	if _, err := c.DescribeProducer(testContext(t), "t", 0, 0); err == nil {
		t.Error("producer 0 was described")
	}
	if _, err := c.ExplainProducers(testContext(t), "t", 0, 0, -1); err == nil {
		t.Error("fewer than no decisions were asked for")
	}
}
