package reader1_test

import (
	"encoding/binary"
	"testing"

	"github.com/quoin-io/quoin/compat/reader1"
)

// fuzzClaim bounds the records length that fuzzed batches claim, in bytes, to keep them fast.
const fuzzClaim = 1 << 18

// FuzzDecode gives bytes to the frozen reader, as they are and as the section of a batch that
// is right in both checks. It must not panic, must say the same as batchfmt about version 1,
// and must refuse every other version.
func FuzzDecode(f *testing.F) {
	for _, g := range goldens(f) {
		if len(g.Bytes) < 1000 {
			f.Add(stored(g.Bytes))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		records, n, err := reader1.Decode(data)
		if err != nil && (n != 0 || records != nil) {
			t.Fatalf("%d records and %d bytes with %v", len(records), n, err)
		}
		if len(data) < 80 {
			return
		}
		if data[3] != 1 {
			wantRefused(t, data)
		}
		fixed := append([]byte("QBF\x01"), data[4:]...)
		binary.LittleEndian.PutUint32(fixed[4:], uint32(len(fixed)))
		binary.LittleEndian.PutUint16(fixed[50:], 80)
		length := binary.LittleEndian.Uint32(fixed[72:])
		if fixed[48]&7 == 0 {
			length = uint32(len(fixed) - 80)
		}
		binary.LittleEndian.PutUint32(fixed[72:], length%fuzzClaim)
		resum(fixed)
		wantSame(t, fixed)
	})
}
