package reader1_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/compat/reader1"
)

var (
	mutations    = flag.Int("mutations", 50_000, "how many changed batches of version 2 to try")
	mutationSeed = flag.Uint64("mutation-seed", 0, "try those of this seed; 0 takes another one each time")
)

// wantRefused gives bytes to the frozen reader that must not give a record or consume a byte.
func wantRefused(t testing.TB, raw []byte) error {
	t.Helper()
	records, n, err := reader1.Decode(raw)
	if err == nil || n != 0 || records != nil {
		t.Fatalf("%d records, %d bytes, error %v from\n%s", len(records), n, err, batchfmt.Dump(raw))
	}
	for r, err := range reader1.All(raw) {
		if err == nil {
			t.Fatalf("a record %v from\n%s", r, batchfmt.Dump(raw))
		}
	}
	return err
}

// wantUnsupported wants the plain answer that says which version it is.
func wantUnsupported(t testing.TB, raw []byte) *reader1.UnsupportedVersionError {
	t.Helper()
	var unsupported *reader1.UnsupportedVersionError
	if err := wantRefused(t, raw); !errors.As(err, &unsupported) || unsupported.Version != raw[3] {
		t.Fatalf("of version %d it says %v", raw[3], err)
	}
	return unsupported
}

// TestVersion2IsUnsupported gives every batch of version 2, and every prefix of it, to the
// frozen reader. Three bytes do not say what they are; from the fourth on it knows.
func TestVersion2IsUnsupported(t *testing.T) {
	for _, f := range append(storedGoldens(t, 2), goldens(t)...) {
		if f.Bytes[3] == 1 {
			continue
		}
		t.Run(f.String(), func(t *testing.T) {
			for n := range len(f.Bytes) + 1 {
				prefix := f.Bytes[:n:n]
				if n > 3 {
					wantUnsupported(t, prefix)
					continue
				}
				var short *reader1.ShortError
				if err := wantRefused(t, prefix); n > 0 && !errors.As(err, &short) {
					t.Errorf("%d bytes: %v", n, err)
				}
			}
		})
	}
}

// The size of what is not known is told when the front check agrees with it, and only then.
func TestSizeOfVersion2(t *testing.T) {
	raw := storedGoldens(t, 2)[0].Bytes
	for n := 4; n <= len(raw); n++ {
		want := 0
		if n >= batchfmt.FrontSize {
			want = len(raw)
		}
		if got := wantUnsupported(t, raw[:n:n]).Size; got != want {
			t.Errorf("%d bytes: size %d, want %d", n, got, want)
		}
	}
	raw[5]++
	if got := wantUnsupported(t, raw).Size; got != 0 {
		t.Errorf("a size that nobody vouches for is told: %d", got)
	}
	for _, size := range []uint32{batchfmt.FrontSize - 1, batchfmt.MaxBatchBytes + 1} {
		binary.LittleEndian.PutUint32(raw[4:], size)
		resum(raw)
		if got := wantUnsupported(t, raw).Size; got != 0 {
			t.Errorf("a size that no batch has is told: %d", got)
		}
	}
}

// TestMutatedVersion2 changes batches of version 2 in all ways that bytes go wrong, and in the
// ways that would make them look like version 1. As long as the first bytes say that it is a
// batch of another version, that is the answer. Else it is some other refusal, and in no case
// a record.
func TestMutatedVersion2(t *testing.T) {
	batches := storedGoldens(t, 2)
	for _, f := range goldens(t) {
		if f.Bytes[3] == 2 {
			batches = append(batches, f) // as sealed by a producer, too
		}
	}
	seed := cmp.Or(*mutationSeed, rand.Uint64())
	t.Logf("-mutation-seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	asVersion1 := 0
	var buf []byte
	for range *mutations {
		f := batches[random.IntN(len(batches))]
		buf = mutate(random, append(buf[:0], f.Bytes...))
		if len(buf) > 3 && bytes.HasPrefix(buf, []byte("QBF")) && buf[3] != 1 {
			wantUnsupported(t, buf)
			continue
		}
		wantRefused(t, buf)
		if len(buf) > 3 && bytes.HasPrefix(buf, []byte("QBF\x01")) {
			asVersion1++
		}
	}
	t.Logf("%d mutations, %d of them said that they were version 1", *mutations, asVersion1)
	if *mutations >= 1000 && asVersion1 < *mutations/4 {
		t.Error("too few of them tried to pass as version 1")
	}
}

// mutate changes raw in one to four ways. Half of them begin with a version byte of 1, which
// is the only way past the first check.
func mutate(random *rand.Rand, raw []byte) []byte {
	if random.IntN(2) == 0 {
		raw[3] = 1
	}
	for range 1 + random.IntN(4) {
		at := random.IntN(len(raw))
		switch random.IntN(8) {
		case 0, 1:
			raw[at] ^= 1 << random.IntN(8)
		case 2:
			raw[at] = byte(random.Uint32())
		case 3: // the header of version 1
			binary.LittleEndian.PutUint16(raw[50:], 80)
		case 4: // the length that the section would have then
			binary.LittleEndian.PutUint32(raw[72:], uint32(len(raw)-80))
		case 5: // a field becomes what version 1 has there
			clear(raw[80:min(len(raw), 80+random.IntN(32))])
		case 6: // bytes are lost in the middle, and the size knows it
			raw = append(raw[:min(at, 80)], raw[min(at, 80)+random.IntN(24):]...)
			if len(raw) < 104 {
				return raw
			}
			binary.LittleEndian.PutUint32(raw[4:], uint32(len(raw)))
		case 7: // another place in the stream
			binary.LittleEndian.PutUint64(raw[8:], random.Uint64()>>random.IntN(64))
		}
	}
	return raw
}

// TestRelabelledVersion2 goes farther than an accident can: the version byte and the header
// length say version 1, and both checks are made anew, as somebody would who converts a batch
// and forgets to take the producer's fields out.
func TestRelabelledVersion2(t *testing.T) {
	for _, f := range storedGoldens(t, 2) {
		raw := f.Bytes
		raw[3] = 1
		binary.LittleEndian.PutUint16(raw[50:], 80)
		resum(raw)
		wantRefused(t, raw)
	}
}

// resum makes checksum and front check those of the bytes.
func resum(raw []byte) {
	binary.LittleEndian.PutUint64(raw[40:], xxhash.Sum64(raw[48:]))
	front := append(bytes.Clone(raw[:28]), raw[32:48]...)
	binary.LittleEndian.PutUint32(raw[28:], uint32(xxhash.Sum64(front)))
}
