package sdk

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/outbox"
	"github.com/quoin-io/quoin/wire"
)

// BatchesInOutbox counts the batches without an outcome in a copy of an outbox directory.
func BatchesInOutbox(t *testing.T, dir, topic, name string) int {
	t.Helper()
	scratch := t.TempDir()
	if err := os.CopyFS(scratch, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	_, _, err := outbox.Open(scratch, outbox.Binding{Topic: topic, Producer: name}, outbox.Options{})
	binding, ok := errors.AsType[*outbox.BindingError](err)
	if !ok {
		t.Fatalf("open without a topic id: %v", err)
	}
	box, found, err := outbox.Open(scratch, binding.Have, outbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	return found.Batches()
}

// lateAnswers is the sink of an opening that sends one batch.
type lateAnswers struct {
	opened chan error
	result chan wire.ProduceResult
	lost   chan error
}

func (l lateAnswers) LaneOpened(*wire.LaneOpened)      { l.opened <- nil }
func (l lateAnswers) LaneRefused(err *wire.Error)      { l.opened <- err }
func (l lateAnswers) LaneResult(r *wire.ProduceResult) { l.result <- *r }
func (l lateAnswers) LaneLost(err error)               { l.lost <- err }

// SendLate sends the copy of a batch of p that was in a buffer until now, under the newest
// opening of its lane and the epoch that p has since the batch was settled. It returns the
// server's answer.
func SendLate(ctx context.Context, p *Producer, partition int, batch []byte) (wire.ProduceResult, error) {
	epoch, err := p.raise(ctx, 1)
	for err == nil {
		var r wire.ProduceResult
		if r, err = p.sendLate(ctx, partition, batch, epoch); r.Code != wire.CodeSuperseded { // by p itself
			return r, err
		}
	}
	return wire.ProduceResult{}, err
}

func (p *Producer) sendLate(ctx context.Context, partition int, batch []byte, epoch batchfmt.Epoch) (wire.ProduceResult, error) {
	conn, err := p.client.transport.Wait(ctx)
	if err != nil {
		return wire.ProduceResult{}, err
	}
	sink := lateAnswers{make(chan error, 2), make(chan wire.ProduceResult, 1), make(chan error, 1)} // it may be opened and then refused
	l, err := conn.NewLane(0, sink)
	if err != nil {
		return wire.ProduceResult{}, err
	}
	defer l.Close()
	soon := time.Now().Add(10 * time.Second)
	err = l.Open(&wire.OpenLane{ProducerID: p.identity.ProducerID, Key: p.identity.Key, Epoch: epoch, TopicID: p.topicID,
		Partition: int32(partition), Fresh: true}, soon)
	if err == nil {
		select {
		case err = <-sink.opened:
		case err = <-sink.lost:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err == nil {
		frame := append(make([]byte, frameRoom), batch...)
		err = l.Produce(frame, wire.Produce{Durability: wire.Synced, ConfirmedThrough: -1}, soon)
	}
	if err != nil {
		return wire.ProduceResult{}, err
	}
	select {
	case r := <-sink.result:
		return r, nil
	case err := <-sink.lost:
		return wire.ProduceResult{}, err
	case <-ctx.Done():
		return wire.ProduceResult{}, ctx.Err()
	}
}
