package golden

import (
	"bytes"
	"testing"

	"github.com/quoin-io/quoin/wire"
)

// A copyMeaning is what a copy of a frame says.
type copyMeaning struct {
	Stream uint64       `json:"stream"`
	At     uint64       `json:"at"`
	Frame  frameMeaning `json:"frame"`
}

// TestDatagrams reads every golden datagram of every release with the code of today.
func TestDatagrams(t *testing.T) {
	for _, f := range load(t, Datagrams) {
		t.Run(f.String(), func(t *testing.T) {
			c, _, err := wire.ParseCopy(f.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			m, err := wire.Read(bytes.NewReader(c.Frame))
			if err != nil {
				t.Fatal(err)
			}
			wantMeaning(t, f, copyMeaning{c.Stream, c.At, frameMeaningOf(m)})
			if f.Release == Next && !bytes.Equal(wire.AppendCopy(nil, c), f.Bytes) {
				t.Error("encoded again it has other bytes")
			}
		})
	}
}
