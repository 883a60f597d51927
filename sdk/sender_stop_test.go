package sdk

import (
	"sync"
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/batcher"
	"github.com/quoin-io/quoin/sdk/internal/lane"
	"github.com/quoin-io/quoin/wire"
)

// idleSender is a sender without its goroutine.
func idleSender() *sender {
	p := &Producer{client: new(Client), topic: "t", epoch: newEpoch(0), buffer: buffer{max: 1 << 20},
		identity: wire.ProducerInited{ProducerID: 7}}
	p.batches = sync.Pool{New: func() any { return new(batcher.Batch[delivery]) }}
	p.frames = sync.Pool{New: func() any { return new([]byte) }}
	p.config.deliveryTimeout = time.Minute
	s := &sender{p: p, wake: make(chan struct{}, 1), own: lane.New(), callbacks: newCallbacks(nil)}
	s.core, s.mu.moved.L = s.own, &s.mu
	s.mu.batcher = batcher.New[delivery](batcher.Config{BatchBytes: 1, Limit: 1 << 20, Pool: &p.batches})
	return s
}

// What makes a producer with a position stop may happen in the very step in which its lane is
// opened: nothing is sent behind it any more.
func TestNothingIsSentOnceItStops(t *testing.T) {
	stops := map[string]func(*sender){
		"":                       func(*sender) {},
		"a record is not stored": func(s *sender) { s.stopBehind(ErrDeliveryTimeout) },
		"a record is not stored while Close flushes": func(s *sender) {
			s.refuse()
			s.stopBehind(ErrDeliveryTimeout)
		},
	}
	for why, stop := range stops {
		s := idleSender()
		s.p.config.position = func(*Record) []byte { return nil }
		now := time.Now()
		if err := s.add(&batchfmt.Record{Value: []byte("behind")}, 1, delivery{}, now, false); err != nil {
			t.Fatal(err)
		}
		s.core.Connected(now)
		s.core.Opened(now, &wire.LaneOpened{LastSequence: -1, LastOffset: -1})
		s.core.Actions() // there is no connection to carry them out on
		stop(s)
		s.sendDue()
		if sent := !s.core.Idle(); sent != (why == "") {
			t.Errorf("%q: sent %v", why, sent)
		}
	}
}
