package outbox

import (
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// digestOf is the digest of a batch that was just sealed.
func digestOf(sealed []byte) batchfmt.Digest {
	b, err := batchfmt.Parse(sealed)
	if err != nil {
		panic(err)
	}
	return b.Digest()
}
