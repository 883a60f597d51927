package outbox

import (
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

// The records of a batch are given up one by one, a SendBatch may have thousands of them: that
// the batch is unknown is written and synced once.
func TestUnknownIsWrittenOnce(t *testing.T) {
	box, _, err := Open(t.TempDir(), Binding{Topic: "t", Producer: "n", ProducerID: 1}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	var b batchfmt.Builder
	if err := b.Add(&batchfmt.Record{Value: []byte("v")}); err != nil {
		t.Fatal(err)
	}
	sealed, err := b.Seal(nil, batchfmt.Seal{Version: batchfmt.Version2, ProducerID: 1})
	if err != nil {
		t.Fatal(err)
	}
	id, err := box.Put(0, sealed)
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Unknown(id); err != nil {
		t.Fatal(err)
	}
	size := box.log.active.size
	for range 1000 {
		if err := box.Unknown(id); err != nil {
			t.Fatal(err)
		}
	}
	if grown := box.log.active.size - size; grown > 0 {
		t.Errorf("saying it again wrote %d bytes", grown)
	}
}
