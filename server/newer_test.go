package server_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// critical makes a batch of a later release: it has an extension that must be known.
func critical(b []byte) []byte {
	b[batchfmt.HeaderSize2+1] |= 0x80
	binary.LittleEndian.PutUint64(b[40:], xxhash.Sum64(b[48:]))
	return b
}

// A newer producer that uses a critical extension meets an older server: it is to be told
// which side to upgrade, and not that its bytes are damaged.
func TestCriticalExtensionSaysWhichSideIsOlder(t *testing.T) {
	f := setUp(t)
	b := critical(f.sealed(t, batchfmt.Seal{Extensions: []batchfmt.Extension{{Type: 0x7f03, Data: []byte("x")}}}, batchfmt.Record{Value: []byte("v")}))
	f.lane.Produce(b)
	r := f.lane.Result()
	if r.Code != wire.CodeVersionUnsupported || !strings.Contains(r.Detail, "upgrade the server") {
		t.Errorf("%v: %s", r.Code, r.Detail)
	}
}
