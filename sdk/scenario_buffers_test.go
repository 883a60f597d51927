package sdk_test

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// An identity is what a batch says it is.
type identity struct {
	producer batchfmt.ProducerID
	epoch    batchfmt.Epoch
	base     batchfmt.Seq
}

// seals are the checksums of the batches that arrived. A batch that comes again is the same.
type seals struct {
	mu sync.Mutex
	of map[identity]batchfmt.Digest
}

func (s *seals) check(t *testing.T, m *wire.Produce) batchfmt.Batch {
	b := parsed(t, m.Batch)
	id := identity{b.ProducerID(), b.Epoch(), b.BaseSequence()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, again := s.of[id]; again && before != b.Digest() {
		t.Errorf("two batches arrived as %+v", id)
	}
	s.of[id] = b.Digest()
	return b
}

// bulky is a value that is long, and that no other record has.
func bulky(partition, i int) []byte {
	mark := fmt.Sprintf("%d async %d ", partition, i)
	return append([]byte(mark), bytes.Repeat([]byte{byte('a' + i%26)}, 40<<10)...)
}

// One producer sends more than its batches have time for, as the server reads none of them
// until all are over; another one loses its connection now and then, in the middle of that.
func buffersUnderPressure(t *testing.T) {
	const rounds, records = 3, 40
	s := servertest.Start(t)
	f := &fates{of: make(map[string]fate), settled: make(map[sdk.Token]sdk.Resolution), events: make(chan struct{}, 1)}
	c := dial(t, s, sdk.OnEvent(f.event(t)))
	createTopic(t, c, "t", 2)
	hasty := build(t, c.Producer("t").Partition(0).BatchBytes(100<<10).DeliveryTimeout(200*time.Millisecond))
	patient := build(t, c.Producer("t").Partition(1).BatchBytes(100<<10))
	arrived := seals{of: make(map[identity]batchfmt.Digest)}
	var reads atomic.Int64
	for round := range rounds {
		gate := make(chan struct{})
		open := sync.OnceFunc(func() { close(gate) })
		t.Cleanup(open)
		s.HookFrames(servertest.FrameHooks{End: func(in bool, m wire.Message) (cut bool) {
			produce, is := m.(*wire.Produce)
			if !in || !is {
				return false
			}
			if b := arrived.check(t, produce); uint64(b.ProducerID()) == hasty.ID() {
				<-gate
				return false
			}
			return reads.Add(1)%8 == 0
		}})
		if round == rounds-1 {
			open() // and in the last round it reads at once
		}
		for i := round * records; i < (round+1)*records; i++ {
			value := bulky(0, i)
			err := hasty.SendAsync(testContext(t), sdk.Record{Value: value}, func(ack sdk.Ack, err error) { f.note(string(value), ack, err) })
			if err != nil {
				t.Fatal(err)
			}
			err = patient.SendAsync(testContext(t), sdk.Record{Value: bulky(1, i)}, func(ack sdk.Ack, err error) {
				if err != nil || ack.Offset != int64(i) {
					t.Errorf("record %d of the patient one: %+v, %v", i, ack, err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range []*sdk.Producer{patient, hasty} {
			if err := p.Flush(testContext(t)); err != nil {
				t.Fatal(err)
			}
		}
		open() // and now it reads what is over
	}
	s.HookFrames(servertest.FrameHooks{})
	f.await(t, testContext(t))
	all := readAll(t, c, "t")
	f.check(t, all)
	var want, got []string
	for i := range rounds * records {
		want = append(want, string(bulky(1, i)[:20]))
	}
	for i, r := range all[1] {
		if !bytes.Equal(r.Value, bulky(1, i)) {
			t.Errorf("record %d is another one: %.20s", i, r.Value)
		}
		got = append(got, string(r.Value[:20]))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the patient one (-sent +read):\n%s", diff)
	}
}
