package sdk_test

import (
	"sync/atomic"
	"testing"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/wire"
)

// A topic grows, and the one question about it is answered with an error (any that is not
// retriable; or no stream is left): the producer has to learn it all the same.
func TestGrowthIsLearnedThoughAnAnswerFails(t *testing.T) {
	s := startStage(t, 1)
	p := build(t, s.client.Producer("t"))
	if _, err := p.Send(testContext(t), keyed(0, 1, 0)); err != nil {
		t.Fatal(err)
	}
	var lies atomic.Bool
	s.net.edit(wire.KindTopicsDescribed, func(m wire.Message) wire.Message {
		if lies.CompareAndSwap(false, true) {
			return wire.Errorf(wire.CodeInternal, "a moment ago something was wrong")
		}
		return m
	})
	if _, err := dial(t, s.server).AlterTopic(testContext(t), "t", sdk.SetPartitions(2)); err != nil {
		t.Fatal(err)
	}
	for {
		ack, err := p.Send(testContext(t), keyed(1, 2, 1))
		if err != nil {
			t.Fatal(err)
		}
		if ack.Partition == 1 {
			return
		}
	}
}
