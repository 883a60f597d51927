package sdk

import (
	"log/slog"
	"sync"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/transport"
	"github.com/quoin-io/quoin/wire"
)

// A discardingServer is a carrier without a network: it drops every batch and answers that it is
// stored. Its one goroutine ends with close.
type discardingServer struct {
	pause time.Duration // from a batch to its answer, as a network would take; 0 for none
	done  chan struct{} // never closed
	given chan discarded
	wg    sync.WaitGroup
}

// discarded is a batch that was dropped.
type discarded struct {
	sink transport.LaneSink
	base batchfmt.Seq
}

// DiscardingProducer is an idempotent producer of partitions whose records go nowhere and are
// acknowledged pause later. stop ends what the producer, once closed, leaves.
func DiscardingProducer(partitions int, pause time.Duration) (p *Producer, stop func()) {
	d := &discardingServer{pause: pause, done: make(chan struct{}), given: make(chan discarded, 1000)}
	d.wg.Go(d.answer)
	c := &Client{logger: slog.New(slog.DiscardHandler), events: newEvents(nil)}
	c.mu.open = make(map[closer]struct{})
	info := &wire.TopicInfo{Partitions: make([]wire.PartitionInfo, partitions)}
	b := c.Producer("t").Idempotent()
	p = newProducer(b, b.config, info, &wire.ProducerInited{ProducerID: 1}, 1<<20)
	p.home = func(uint64) (carrier, <-chan struct{}) { return d, nil }
	p.gone.Store(true)
	return p, func() {
		close(d.given)
		d.wg.Wait()
	}
}

// StopSenders ends the goroutines of a producer that has flushed, and says nothing to a server.
func StopSenders(p *Producer) {
	for _, s := range p.allSenders() {
		s.stop(ErrClosed, time.Now(), false)
		s.wait(false, nil)
	}
}

func (d *discardingServer) answer() {
	var all []discarded
	for first := range d.given {
		all = append(all[:0], first)
		if d.pause > 0 {
			time.Sleep(d.pause)
		}
		for n := len(d.given); n > 0; n-- {
			all = append(all, <-d.given)
		}
		for _, one := range all {
			one.sink.LaneResult(&wire.ProduceResult{BaseSequence: one.base, BaseOffset: batchfmt.Offset(one.base), Expected: -1, PersistedThrough: -1})
		}
	}
}

func (d *discardingServer) NewLane(_ uint64, sink transport.LaneSink) (*laneHandle, error) {
	return &laneHandle{&discardingLane{d, sink}}, nil
}

func (d *discardingServer) Limits() *wire.HelloOK     { return &wire.HelloOK{MaxInFlight: 5} }
func (d *discardingServer) Done() <-chan struct{}     { return d.done }
func (d *discardingServer) Draining() <-chan struct{} { return d.done }
func (d *discardingServer) Err() error                { return nil }

// A discardingLane is an opening there.
type discardingLane struct {
	server *discardingServer
	sink   transport.LaneSink
}

func (l *discardingLane) Open(*wire.OpenLane, time.Time) error {
	l.sink.LaneOpened(&wire.LaneOpened{LastSequence: -1, LastOffset: -1})
	return nil
}

// Produce does what a lane on a connection does up to the write, and drops the frame there.
func (l *discardingLane) Produce(frame []byte, head wire.Produce, _ time.Time) error {
	wire.PutProduceFrame(frame, &head)
	base, err := batchfmt.Parse(frame[frameRoom:])
	if err != nil {
		return err
	}
	l.server.given <- discarded{l.sink, base.BaseSequence()}
	return nil
}

func (l *discardingLane) Confirm(batchfmt.Seq) (said bool, err error) { return true, nil }
func (l *discardingLane) Close()                                      {}
func (l *discardingLane) Interrupt()                                  {}
