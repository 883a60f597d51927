package golden

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/compat/reader1"
)

// TestBatches reads every golden batch of every release with the code of today.
func TestBatches(t *testing.T) {
	for _, f := range load(t, Batches) {
		t.Run(f.String(), func(t *testing.T) {
			meaning, err := MeaningOf(f.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			wantMeaning(t, f, meaning)
			if meaning.Refused == "" && meaning.Control == nil {
				wantRecordsChecked(t, f)
			}
		})
	}
}

// wantRecordsChecked asks of a frozen batch what a server asks of one that a producer sends
// today: whoever has an old producer goes on.
func wantRecordsChecked(t *testing.T, f File) {
	b, err := batchfmt.Parse(f.Bytes)
	if err == nil {
		err = batchfmt.CheckRecords(b, nil)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestFrozenReaderMeansTheSame lets the frozen reader give the meanings of version 1: it has
// no line in common with the code that froze them.
func TestFrozenReaderMeansTheSame(t *testing.T) {
	read := 0
	for _, f := range load(t, Batches) {
		meaning, err := MeaningOf(f.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if meaning.Version != 1 {
			continue
		}
		read++
		records, n, err := reader1.Decode(stored(t, f.Bytes))
		if err != nil || n != len(f.Bytes) || len(records) != len(meaning.Records) {
			t.Errorf("%v: %d bytes, %d records: %v", f, n, len(records), err)
			continue
		}
		for i, want := range meaning.Records {
			if got := ofReader1(records[i]); !reflect.DeepEqual(got, want) {
				t.Errorf("%v, record %d is %+v, want %+v", f, i, got, want)
			}
		}
	}
	if read < 20 {
		t.Errorf("only %d batches of version 1", read)
	}
}

func ofReader1(r reader1.Record) Record {
	rec := Record{Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		rec.Headers = append(rec.Headers, Header{h.Key, h.Value})
	}
	return rec
}

// stored is a batch as it lies in a log, with a front check, but at the offset and time that
// it had: those of a batch that no server has stamped are 0.
func stored(t testing.TB, raw []byte) []byte {
	t.Helper()
	raw = bytes.Clone(raw)
	b, err := batchfmt.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	b.Stamp(batchfmt.Stamp{BaseOffset: b.BaseOffset(), AppendTime: b.AppendTime(), Term: b.Term(), Durable: b.Durable()})
	return raw
}

// features are what there must be a golden batch for, each told by the meaning.
var features = map[string]func(m Batch, raw []byte) bool{
	"version 1":          func(m Batch, _ []byte) bool { return m.Version == 1 && m.Refused == "" },
	"version 2":          func(m Batch, _ []byte) bool { return m.Version == 2 && m.Refused == "" },
	"an unknown version": func(m Batch, _ []byte) bool { return m.Refused == "version" },
	"null and empty": func(m Batch, _ []byte) bool {
		return hasRecord(m, func(r Record) bool { return r.Key == nil && r.Value == nil }) &&
			hasRecord(m, func(r Record) bool { return r.Key != nil && len(r.Key) == 0 && r.Value != nil && len(r.Value) == 0 })
	},
	"a header that repeats": func(m Batch, _ []byte) bool { return hasRecord(m, repeatsHeader) },
	"a null header": func(m Batch, _ []byte) bool {
		return hasRecord(m, func(r Record) bool {
			return slices.ContainsFunc(r.Headers, func(h Header) bool { return h.Value == nil })
		})
	},
	"the most headers": func(m Batch, _ []byte) bool {
		return hasRecord(m, func(r Record) bool { return len(r.Headers) == 1024 })
	},
	"the longest extensions": func(m Batch, raw []byte) bool { return m.Version == 2 && uint16At(raw, 50) == 104+4096 },
	"a known extension":      func(m Batch, _ []byte) bool { return m.Producer != nil && m.Producer.Position != nil },
	"an unknown extension":   func(m Batch, raw []byte) bool { return m.Producer != nil && m.Refused == "" && hasType(raw, 0x7fff) },
	"a critical extension":   func(m Batch, _ []byte) bool { return m.Refused == "extension" },
	"a fence":                func(m Batch, _ []byte) bool { return m.Control != nil && m.Control.Kind == "fence" },
	"a close":                func(m Batch, _ []byte) bool { return m.Control != nil && m.Control.Kind == "close" },
	"append time":            func(m Batch, raw []byte) bool { return m.Records != nil && raw[48]&8 != 0 },
	"create time, stamped":   func(m Batch, raw []byte) bool { return m.Records != nil && raw[48]&8 == 0 && m.AppendTime > 0 },
	"before 1970":            func(m Batch, _ []byte) bool { return hasRecord(m, func(r Record) bool { return r.Timestamp < 0 }) },
	"the smallest batch":     func(m Batch, raw []byte) bool { return len(raw) == 80+7 },
	"the largest offset":     func(m Batch, _ []byte) bool { return m.BaseOffset == 1<<63-1-1_000_000 },
	"the largest producer":   func(m Batch, _ []byte) bool { return m.Producer != nil && m.Producer.ID == 1<<64-1 },
	"a value of 1 MiB": func(m Batch, _ []byte) bool {
		return hasRecord(m, func(r Record) bool { return len(r.Value) == 1<<20 })
	},
	"snappy of Java": func(m Batch, raw []byte) bool {
		return m.Codec == "snappy" && bytes.Contains(raw, []byte("\x82SNAPPY\x00"))
	},
}

func hasRecord(m Batch, is func(Record) bool) bool { return slices.ContainsFunc(m.Records, is) }

func repeatsHeader(r Record) bool {
	seen := map[string]bool{}
	return slices.ContainsFunc(r.Headers, func(h Header) bool {
		again := len(h.Key) > 0 && seen[string(h.Key)]
		seen[string(h.Key)] = true
		return again
	})
}

func uint16At(raw []byte, at int) int { return int(raw[at]) | int(raw[at+1])<<8 }

func hasType(raw []byte, extension uint16) bool {
	b, err := batchfmt.Parse(raw)
	if err != nil {
		return false
	}
	_, ok := b.Extension(extension)
	return ok
}

func TestEveryFeatureHasABatch(t *testing.T) {
	want := map[string]func(m Batch, raw []byte) bool{}
	for name, is := range features {
		want[name] = is
	}
	for _, codec := range []string{"none", "gzip", "snappy", "zstd"} {
		for _, version := range []uint8{1, 2} {
			want[fmt.Sprintf("codec %s in version %d", codec, version)] = func(m Batch, _ []byte) bool {
				return m.Codec == codec && m.Version == version && m.Records != nil
			}
		}
	}
	var all []Batch
	var raws [][]byte
	for _, f := range load(t, Batches) {
		if f.Release != Next {
			continue
		}
		m, err := MeaningOf(f.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		all, raws = append(all, m), append(raws, f.Bytes)
	}
	for name, is := range want {
		found := false
		for i, m := range all {
			found = found || is(m, raws[i])
		}
		if !found {
			t.Errorf("there is no golden batch with %s", name)
		}
	}
}

// A meaning without a golden is one of which somebody renamed or removed the bytes.
func TestEveryMeaningHasItsGolden(t *testing.T) {
	root := os.DirFS(filepath.Join(compat, Testdata))
	meanings, err := fs.Glob(root, "*/*/*.json")
	if err != nil || len(meanings) == 0 {
		t.Fatal("no meanings: ", err)
	}
	for _, name := range meanings {
		if _, err := fs.Stat(root, strings.TrimSuffix(name, ".json")+".hex"); err != nil {
			t.Error(err)
		}
	}
}

// TestAgree is the control of all the comparisons.
func TestAgree(t *testing.T) {
	for _, tt := range []struct {
		name, frozen, today string
		agree               bool
	}{
		{"the same", `{"a":[1,null,"x"]}`, `{"a":[1,null,"x"]}`, true},
		{"a field more", `{"a":{"b":1}}`, `{"a":{"b":1,"c":2}}`, true},
		{"a field less", `{"a":1,"b":2}`, `{"a":1}`, false},
		{"another number", `{"a":18446744073709551615}`, `{"a":18446744073709551614}`, false},
		{"null is not empty", `{"a":null}`, `{"a":""}`, false},
		{"an item more", `{"a":[1]}`, `{"a":[1,2]}`, false},
		{"another order", `{"a":[1,2]}`, `{"a":[2,1]}`, false},
		{"an object no more", `{"a":{"b":1}}`, `{"a":1}`, false},
		{"no JSON", `{"a":1}`, `{`, false},
	} {
		if err := Agree([]byte(tt.frozen), []byte(tt.today)); (err == nil) != tt.agree {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
