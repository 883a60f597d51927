package reader1_test

import (
	"bytes"
	"testing"

	"go.uber.org/goleak"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/compat/golden"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// goldens are the golden batches of every release.
func goldens(t testing.TB) []golden.File {
	t.Helper()
	all, err := golden.Load("..", golden.Batches)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// stamp is what a server writes into every batch of these tests.
var stamp = batchfmt.Stamp{BaseOffset: 123456, AppendTime: 1_750_000_001_000, Term: 7, Durable: 123400}

// stored is a batch as it lies in a log.
func stored(raw []byte) []byte {
	raw = bytes.Clone(raw)
	if b, err := batchfmt.Parse(raw); err == nil {
		b.Stamp(stamp)
	}
	return raw
}

// storedGoldens gives the goldens of a version, as they lie in a log and as their producer
// sealed them.
func storedGoldens(t testing.TB, version byte) (all []golden.File) {
	t.Helper()
	for _, f := range goldens(t) {
		if f.Bytes[3] != version {
			continue
		}
		f.Bytes = stored(f.Bytes)
		all = append(all, f)
	}
	if len(all) < 20 {
		t.Fatalf("only %d goldens of version %d", len(all), version)
	}
	return all
}
