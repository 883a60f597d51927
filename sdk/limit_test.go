package sdk_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

const loweredLimit = 4000 // bytes of a batch

// sized is a record of so many bytes whose value begins with its number.
func sized(i, bytes int) sdk.Record {
	text := fmt.Sprint(i, " ")
	return sdk.Record{Value: []byte(text + strings.Repeat("x", bytes-len(text)))}
}

// tellings has records sent whose outcomes come in the order in which they are told.
func tellings(t *testing.T, p *sdk.Producer, records int, bytes func(i int) int) <-chan telling {
	t.Helper()
	told := make(chan telling, records)
	for i := range records {
		if err := p.SendAsync(testContext(t), sized(i, bytes(i)), func(ack sdk.Ack, err error) { told <- telling{i, ack, err} }); err != nil {
			t.Fatal(err)
		}
	}
	return told
}

func lowerLimit(t *testing.T, c *sdk.Client) {
	t.Helper()
	if _, err := c.AlterTopic(testContext(t), "t", sdk.SetMaxBatchBytes(loweredLimit)); err != nil {
		t.Fatal(err)
	}
}

// wantNumbers wants the records of partition 0 to be those, in this order.
func wantNumbers(t *testing.T, c *sdk.Client, want []int) {
	t.Helper()
	var got []int
	for _, r := range readAll(t, c, "t")[0] {
		var n int
		fmt.Sscan(string(r.Value), &n)
		got = append(got, n)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("stored are %v, want %v", got, want)
	}
}

// The limit of the topic is lowered while records gather in larger batches: those are divided,
// each record keeps its place, and only what alone does not fit is refused, when its turn comes.
func TestWhatGathersIsDividedWhenTheLimitIsLowered(t *testing.T) {
	const records, large = 40, 17
	s := startStage(t, 1)
	direct := dial(t, s.server)
	for name, builder := range map[string]*sdk.ProducerBuilder{
		"idempotent": s.client.Producer("t").Idempotent(),
		"plain":      s.client.Producer("t"),
		"compressed": s.client.Producer("t").Idempotent().Compression(sdk.Zstd),
		"outbox":     s.client.Producer("t").Named("n").Outbox(t.TempDir()),
	} {
		t.Run(name, func(t *testing.T) {
			before := len(readAll(t, direct, "t")[0])
			if _, err := direct.AlterTopic(testContext(t), "t", sdk.SetMaxBatchBytes(0)); err != nil {
				t.Fatal(err)
			}
			p, err := builder.Build(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			s.net.cutOff(true)
			told := tellings(t, p, records, func(i int) int {
				if i == large {
					return loweredLimit
				}
				return 1000
			})
			lowerLimit(t, direct)
			s.net.cutOff(false)
			stored := 0
			for i, one := range await(t, told, records) {
				var refused *sdk.RecordTooLargeError
				var notStored *sdk.NotStored
				switch {
				case one.record != i:
					t.Fatalf("record %d is told of where %d was due", one.record, i)
				case i == large:
					if !errors.As(one.err, &refused) || !errors.As(one.err, &notStored) || refused.Limit != loweredLimit || refused.Bytes <= loweredLimit {
						t.Errorf("the one that does not fit: %v", one.err)
					}
				case one.err != nil || one.ack.Offset != int64(before+stored):
					t.Errorf("record %d: offset %d, %v; want offset %d", i, one.ack.Offset, one.err, before+stored)
				default:
					stored++
				}
			}
			if left, err := p.Close(testContext(t)); err != nil || len(left) > 0 {
				t.Errorf("Close: %v, %v", left, err)
			}
		})
	}
}

// Batches that have their sequences are as they are: those that are too large by now end as not
// stored, and what gathers behind them is divided, however soon its turn comes.
func TestFrozenBatchesStayWhenTheLimitIsLowered(t *testing.T) {
	const frozen, records = 5, 80
	s := startStage(t, 1)
	direct := dial(t, s.server)
	p := build(t, s.client.Producer("t").BatchBytes(6000))
	open := unread(t, s.server)
	told := tellings(t, p, records, func(i int) int {
		if i == 0 {
			return 6000 // a batch of its own
		}
		return 1000
	})
	refused := 0
	for _, batch := range await(t, s.sent, frozen) {
		refused += batch.Records
	}
	lowerLimit(t, direct)
	open()
	var want []int
	for i, one := range await(t, told, records) {
		switch {
		case one.record != i:
			t.Fatalf("record %d is told of where %d was due", one.record, i)
		case i < refused:
			wantRefusal(t, i, one.err, wire.CodeMessageTooLarge)
		case one.err != nil:
			t.Errorf("record %d: %v", i, one.err)
		default:
			want = append(want, i)
		}
	}
	wantNumbers(t, direct, want)
}

// A producer with a position: what has one position stays in one batch, and each part that a
// batch is divided into has its own, so that whoever goes on finds no record twice.
func TestPositionsWhenTheLimitIsLowered(t *testing.T) {
	s := startStage(t, 1, servertest.InMemory())
	direct := dial(t, s.server)
	lost := make(chan struct{}, 10)
	c, err := sdk.Dial(testContext(t), s.net.url, sdk.OnEvent(func(e sdk.Event) {
		if e.Kind == sdk.EventDisconnected {
			lost <- struct{}{}
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(testContext(t))
	p := build(t, c.Producer("t").Named("source").Position(func(r *sdk.Record) []byte { return r.Value[:2] }))
	s.net.cutOff(true)
	await(t, lost, 1)
	var told []<-chan error
	for i := 0; i < 40; i += 2 {
		outcome := make(chan error, 1)
		told = append(told, outcome)
		pair := []sdk.Record{sized(i, 900), sized(i+1, 900)}
		if err := p.SendBatchAsync(testContext(t), pair, func(_ []sdk.Ack, err error) { outcome <- err }); err != nil {
			t.Fatal(err)
		}
	}
	lowerLimit(t, direct)
	var batches []int
	s.server.HookFrames(servertest.FrameHooks{End: func(in bool, m wire.Message) bool {
		if m, is := m.(*wire.Produce); is && in {
			batch := parsed(t, m.Batch)
			batches = append(batches, batch.RecordCount())
			if last := lastValue(t, batch); batch.RecordCount()%2 != 0 || string(batch.Position()) != last[:2] {
				t.Errorf("a batch of %d records with position %q, its last one is %.2s", batch.RecordCount(), batch.Position(), last)
			}
		}
		return false
	}})
	s.net.cutOff(false)
	for i, outcome := range told {
		if err := await(t, outcome, 1)[0]; err != nil {
			t.Errorf("pair %d: %v", i, err)
		}
	}
	s.server.HookFrames(servertest.FrameHooks{})
	if len(batches) != 10 {
		t.Errorf("batches of %v records", batches)
	}
	var all []int
	for i := range 40 {
		all = append(all, i)
	}
	wantNumbers(t, direct, all)
}

func lastValue(t *testing.T, batch batchfmt.Batch) (value string) {
	var r batchfmt.Reader
	if err := r.Reset(batch); err != nil {
		t.Error(err)
	}
	for r.Next() {
		value = string(r.Record().Value)
	}
	return value
}
