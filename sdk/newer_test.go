package sdk

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/quoin-io/quoin/batchfmt"
)

// A consumer of this release comes upon a batch of version 2 with an extension of a later one
// that must be known. It is to say that it is too old, and not that the batch is damaged.
func TestCriticalExtensionIsNoDamage(t *testing.T) {
	var b batchfmt.Builder
	if err := b.Add(&batchfmt.Record{Timestamp: 1}); err != nil {
		t.Fatal(err)
	}
	raw, err := b.Seal(nil, batchfmt.Seal{ProducerID: 5, Extensions: []batchfmt.Extension{{Type: 0x7f03}}})
	if err != nil {
		t.Fatal(err)
	}
	batch, _ := batchfmt.Parse(raw)
	batch.Stamp(batchfmt.Stamp{})
	raw[batchfmt.HeaderSize2+1] |= 0x80
	binary.LittleEndian.PutUint64(raw[40:], xxhash.Sum64(raw[48:]))
	f := &feed{consumer: &Consumer{topic: "t"}}
	if _, err := f.open(raw); !errors.Is(err, ErrBatchVersion) || !strings.Contains(err.Error(), "upgrade the reader") {
		t.Error(err)
	}
}
