package reader1_test

import (
	"bytes"
	"errors"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/compat/reader1"
)

// The frozen reader links nothing that changes with the rest of the module.
func TestKnowsNothingOfTheModule(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{"github.com/quoin-io/quoin/compat/reader1", "github.com/klauspost/compress", "github.com/cespare/xxhash/v2"}
	for _, path := range strings.Fields(string(out)) {
		if !slices.ContainsFunc(allowed, func(root string) bool { return path == root || strings.HasPrefix(path, root+"/") }) {
			t.Errorf("it links %s", path)
		}
	}
}

// wantSame compares what the frozen reader gives for raw with what batchfmt does.
func wantSame(t testing.TB, raw []byte) {
	t.Helper()
	got, n, err := reader1.Decode(raw)
	want, wantErr := today(raw)
	switch {
	case (err == nil) != (wantErr == nil):
		t.Fatalf("the frozen reader says %v, batchfmt %v:\n%s", err, wantErr, batchfmt.Dump(raw))
	case err != nil && (n != 0 || got != nil):
		t.Fatalf("with the error %v come %d records and %d bytes", err, len(got), n)
	case err == nil && !reflect.DeepEqual(got, want):
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

// today reads a stored batch of version 1 with batchfmt.
func today(raw []byte) (all []reader1.Record, err error) {
	b, err := batchfmt.Parse(raw)
	if err == nil {
		err = errors.Join(b.Verify(), b.VerifyFront())
	}
	if err != nil {
		return nil, err
	}
	var r batchfmt.Reader
	if err := r.Reset(b); err != nil {
		return nil, err
	}
	for r.Next() {
		all = append(all, record(b, r.Record()))
	}
	return all, r.Err()
}

func record(b batchfmt.Batch, r *batchfmt.Record) reader1.Record {
	rec := reader1.Record{
		Offset: int64(b.BaseOffset()) + int64(r.OffsetDelta), Timestamp: r.Timestamp,
		Key: slices.Clone(r.Key), Value: slices.Clone(r.Value),
	}
	for _, h := range r.Headers {
		rec.Headers = append(rec.Headers, reader1.Header{Key: slices.Clone(h.Key), Value: slices.Clone(h.Value)})
	}
	return rec
}

func TestReadsVersion1(t *testing.T) {
	for _, f := range storedGoldens(t, 1) {
		t.Run(f.String(), func(t *testing.T) {
			wantSame(t, f.Bytes)
			records, n, err := reader1.Decode(append(bytes.Clone(f.Bytes), "QBF and more"...))
			if err != nil || n != len(f.Bytes) || records[0].Offset != int64(stamp.BaseOffset) {
				t.Errorf("with bytes behind it: %d of %d bytes, %v", n, len(f.Bytes), err)
			}
		})
	}
}

// Every prefix of a batch asks for more, and never for more than there is.
func TestAsksForWhatLacks(t *testing.T) {
	for _, f := range storedGoldens(t, 1) {
		t.Run(f.String(), func(t *testing.T) {
			for n := range f.Bytes {
				records, took, err := reader1.Decode(f.Bytes[:n:n])
				var short *reader1.ShortError
				if !errors.As(err, &short) || records != nil || took != 0 || short.Need < 1 || short.Need > len(f.Bytes)-n {
					t.Fatalf("%d of %d bytes: %d records, %d bytes, %v", n, len(f.Bytes), len(records), took, err)
				}
			}
		})
	}
}

// All walks batches one behind the other, and ends with the first error.
func TestAll(t *testing.T) {
	var log []byte
	want := 0
	for _, f := range storedGoldens(t, 1) {
		log = append(log, f.Bytes...)
		records, _, _ := reader1.Decode(f.Bytes)
		want += len(records)
	}
	count := func(log []byte) (n int, last error) {
		for r, err := range reader1.All(log) {
			if err != nil {
				if last != nil || !isZero(r) {
					t.Errorf("a record %v with %v", r, err)
				}
				last = err
				continue
			}
			n++
		}
		return n, last
	}
	if n, err := count(log); n != want || err != nil {
		t.Errorf("%d records of %d: %v", n, want, err)
	}
	newer := storedGoldens(t, 2)[0].Bytes
	var unsupported *reader1.UnsupportedVersionError
	if n, err := count(slices.Concat(log, newer, log)); n != want || !errors.As(err, &unsupported) || unsupported.Size != len(newer) {
		t.Errorf("in front of version 2: %d records of %d, %v", n, want, err)
	}
	for range reader1.All(log) {
		break // whoever has enough may go
	}
}

func isZero(r reader1.Record) bool {
	return r.Offset == 0 && r.Timestamp == 0 && r.Key == nil && r.Value == nil && r.Headers == nil
}

// A reader may choose to go on behind what it does not know.
func TestStepsOverVersion2ByChoice(t *testing.T) {
	old, newer := storedGoldens(t, 1)[0].Bytes, storedGoldens(t, 2)[0].Bytes
	log := slices.Concat(newer, old)
	_, _, err := reader1.Decode(log)
	var unsupported *reader1.UnsupportedVersionError
	if !errors.As(err, &unsupported) {
		t.Fatal(err)
	}
	if records, _, err := reader1.Decode(log[unsupported.Size:]); err != nil || len(records) == 0 {
		t.Errorf("behind it: %d records, %v", len(records), err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	_, _, err := reader1.Decode([]byte("QBF\x02"))
	if want := "upgrade the reader"; err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("%q does not say %q and the version", err, want)
	}
}
