package wire

import (
	"testing"
	"time"
)

func resultsSample(n int) *ProduceResults {
	m := &ProduceResults{}
	for i := range n {
		m.Results = append(m.Results, ProduceResult{Lane: 7, BaseOffset: 4000, AppendTime: noon, Expected: -1,
			PersistedThrough: 900, Timings: Timings{Queue: time.Duration(i) * time.Microsecond, Sync: time.Millisecond}})
	}
	return m
}

// The frames that come by the thousand take no memory each.
func TestHotMessagesTakeNoMemory(t *testing.T) {
	batch := sealed(t, 900, "signed up", "paid", "signed out")
	results := resultsSample(64)
	frame := append(make([]byte, HeaderSize+ProduceHead), batch...)
	buf := Append(nil, results)
	var produce Produce
	var batches Batches
	var credit Credit
	got := ProduceResults{}
	decode := func(m Message, payload []byte) func() {
		return func() {
			if err := DecodeInto(m, payload); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := []struct {
		name string
		f    func()
	}{
		{"PutProduceFrame", func() { PutProduceFrame(frame, &produce) }},
		{"PutBatchesFrame", func() { PutBatchesFrame(frame, 9) }},
		{"Append of results into a large buffer", func() { buf = Append(buf[:0], results) }},
		{"ParseHeader", func() {
			if _, err := ParseHeader(frame); err != nil {
				t.Fatal(err)
			}
		}},
		{"DecodeInto of Produce", decode(&produce, (&Produce{Batch: batch}).appendPayload(nil))},
		{"DecodeInto of ProduceResults", decode(&got, results.appendPayload(nil))},
		{"DecodeInto of Batches", decode(&batches, (&Batches{Batches: batch}).appendPayload(nil))},
		{"DecodeInto of Credit", decode(&credit, (&Credit{}).appendPayload(nil))},
	}
	PutProduceFrame(frame, &produce)
	for _, test := range tests {
		test.f()
		if n := testing.AllocsPerRun(100, test.f); n != 0 {
			t.Errorf("%s: %v allocations", test.name, n)
		}
	}
}
