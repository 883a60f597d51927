package sdk

import (
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/transport"
	"github.com/quoin-io/quoin/wire"
)

// A carrier is what a sender needs of a connection. See [transport.Conn] for what its methods do.
type carrier interface {
	NewLane(key uint64, sink transport.LaneSink) (*laneHandle, error)
	Limits() *wire.HelloOK
	Done() <-chan struct{}
	Draining() <-chan struct{}
	Err() error
}

// A laneHandle is one opening of a lane on a carrier. See [transport.Lane].
type laneHandle struct{ laneWriter }

type laneWriter interface {
	Open(m *wire.OpenLane, deadline time.Time) error
	Produce(frame []byte, head wire.Produce, deadline time.Time) error
	Confirm(through batchfmt.Seq) (said bool, err error)
	Close()
	Interrupt()
}

// network is the carrier over a network.
type network struct{ *transport.Conn }

func (n network) NewLane(key uint64, sink transport.LaneSink) (*laneHandle, error) {
	l, err := n.Conn.NewLane(key, sink)
	if err != nil {
		return nil, err
	}
	return &laneHandle{l}, nil
}

// networkHome is the connection where a lane belongs, nil while there is none, and what is closed
// when that has changed.
func (p *Producer) networkHome(key uint64) (carrier, <-chan struct{}) {
	conn, changed := p.client.transport.Home(key)
	if conn == nil {
		return nil, changed
	}
	return network{conn}, changed
}
