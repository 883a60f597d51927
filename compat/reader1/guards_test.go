package reader1

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

// aware makes a stored batch of version 2 with one record, without a key and with this value.
func aware(t testing.TB, producer uint64, value []byte) []byte {
	t.Helper()
	var b batchfmt.Builder
	if err := b.Add(&batchfmt.Record{Timestamp: 1_750_000_000_000, Value: value}); err != nil {
		t.Fatal(err)
	}
	raw, err := b.Seal(nil, batchfmt.Seal{ProducerID: batchfmt.ProducerID(producer), Epoch: 3, BaseSequence: 900})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := batchfmt.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	batch.Stamp(batchfmt.Stamp{BaseOffset: 4000, AppendTime: 1_750_000_001_000, Term: 7, Durable: 4000})
	return raw
}

// misleading is a batch of version 2 whose producer id, read as version 1, is the beginning of
// a record: length, attributes, timestamp delta, offset delta, no key, and the length of a
// value. The value then goes on over the producer's other fields and the true record, of which
// the last byte becomes its number of headers, 0.
func misleading(t testing.TB) []byte {
	const value = 200
	behind := len(aware(t, 1, make([]byte, value))) - headerSize // what version 1 takes for the section
	var id []byte
	id = binary.AppendVarint(id, int64(behind-2))
	id = append(id, 0, 0, 0, 1)
	id = binary.AppendVarint(id, int64(behind-2-4-2-1))
	if len(id) != 8 {
		t.Fatalf("%d bytes are no producer id", len(id))
	}
	return aware(t, binary.LittleEndian.Uint64(id), bytes.Repeat([]byte("v"), value))
}

// TestMisreadsWithoutGuards is the control of all that the tests say about version 2: the same
// reader, without the checks of version and header length, takes a batch of version 2 for one
// of version 1, right in both checksums, and gives a record that nobody ever sent. So it is
// these two checks that keep an old reader from being misled, and one of them alone does.
func TestMisreadsWithoutGuards(t *testing.T) {
	raw := misleading(t)
	var unsupported *UnsupportedVersionError
	if _, _, err := Decode(raw); !errors.As(err, &unsupported) || unsupported.Version != 2 {
		t.Errorf("the reader as it is: %v", err)
	}
	var fault *CorruptError
	if _, _, err := decode(raw, guards{headerLength: true, checks: true}); !errors.As(err, &fault) || fault.Field != "header length" {
		t.Errorf("without the check of the version: %v", err)
	}
	if _, _, err := decode(raw, guards{version: true, checks: true}); !errors.As(err, &unsupported) {
		t.Errorf("without the check of the header length: %v", err)
	}
	records, n, err := decode(raw, guards{checks: true})
	if err != nil || n != len(raw) || len(records) != 1 {
		t.Fatalf("without both it should misread: %d records, %v", len(records), err)
	}
	if r := records[0]; r.Offset != 4000 || bytes.Equal(r.Value, bytes.Repeat([]byte("v"), 200)) {
		t.Errorf("it read what was sent: %v", r)
	}
}

// TestHeaderLengthIsEnough takes the version byte away as a help: a header of 104 bytes or more
// is never taken for one of version 1, even with a front check that agrees.
func TestHeaderLengthIsEnough(t *testing.T) {
	raw := misleading(t)
	raw[offVersion] = 1
	binary.LittleEndian.PutUint32(raw[offFrontCheck:], frontCheck(raw))
	var fault *CorruptError
	if _, _, err := Decode(raw); !errors.As(err, &fault) || fault.Field != "header length" {
		t.Errorf("version 1 with a header of %d bytes: %v", binary.LittleEndian.Uint16(raw[offHeaderLength:]), err)
	}
}

// TestFlipsPassWithoutChecks is the control of the tests that turn bits: without the two
// checksums most of them would go unseen.
func TestFlipsPassWithoutChecks(t *testing.T) {
	raw := aware(t, 1, []byte("value"))
	b, err := batchfmt.Parse(raw)
	if err == nil {
		raw, err = batchfmt.AppendVersion1(nil, b)
	}
	if err != nil {
		t.Fatal(err)
	}
	unseen := 0
	for bit := range len(raw) * 8 {
		raw[bit/8] ^= 1 << (bit % 8)
		if _, _, err := Decode(raw); err == nil {
			t.Errorf("bit %d of byte %d was turned, and nothing saw it", bit%8, bit/8)
		}
		if _, _, err := decode(raw, guards{version: true, headerLength: true}); err == nil {
			unseen++
		}
		raw[bit/8] ^= 1 << (bit % 8)
	}
	if unseen < len(raw)*8/3 {
		t.Errorf("only %d of %d flips pass without the checks", unseen, len(raw)*8)
	}
}
