package sdk

import (
	"crypto/rand"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

// TestSealFallsBackToNoCompression: bytes that do not compress get larger by it, and may
// be over the limit of the topic only for that reason.
func TestSealFallsBackToNoCompression(t *testing.T) {
	body := make([]byte, 1000)
	rand.Read(body)
	batch := new(records)
	if err := batch.Builder.Add(&batchfmt.Record{Timestamp: 1, Value: body}); err != nil {
		t.Fatal(err)
	}
	p := &Producer{config: producerConfig{compression: Snappy}}
	p.limit.Store(int64(batchfmt.HeaderSize2 + batch.Builder.SectionBytes()))
	p.identity.ProducerID = 1
	s := &sender{p: p}
	for _, want := range []batchfmt.Codec{batchfmt.CodecNone, batchfmt.CodecSnappy} {
		frame, err := s.seal(nil, batch, 7, 0)
		if err != nil {
			t.Fatal(err)
		}
		b, err := batchfmt.Parse(frame[frameRoom:])
		if err != nil || b.Codec() != want || b.BaseSequence() != 7 || b.Verify() != nil {
			t.Errorf("limit %d: codec %v, %v", p.limit.Load(), b.Codec(), err)
		}
		p.limit.Add(100)
	}
}
