package outbox

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden file and the corpus anew")

// golden is a segment with one entry of every kind.
func golden() []byte {
	s := &segment{segmentHeader: segmentHeader{number: 1, salt: 42, binding: testBinding}}
	stamp := s.stamp()
	b := s.encodeFront()
	body := sealed(7, 2, 20, 3)
	e := entry{kind: kindBatch, length: len(body), partition: 4, id: 11, place: 10, replaced: 10, base: 7, last: 8, epoch: 3, offset: -1}
	e.digest = digestOf(body)
	body = append(body, make([]byte, padded(len(body))-len(body))...)
	e.bodyCheck = checksum(body)
	b = append(e.append(b, stamp), body...)
	mark := e
	mark.length, mark.bodyCheck, mark.replaced = 0, 0, 0
	for kind := kindTrace; kind < kindLane; kind++ {
		mark.kind, mark.state, mark.id = kind, 0, mark.id+1
		if kind == kindTrace {
			mark.state = Unknown
		}
		b = mark.append(b, stamp)
	}
	lane := (&laneState{through: 8, acked: &Point{Sequence: 8, Offset: 99, Digest: 5}, epoch: 3}).entry(4)
	b = lane.append(b, stamp)
	copy(b[firstNote:], encodeNote(int64(len(b)), stamp))
	return b
}

// TestGolden guards the layout of the file.
func TestGolden(t *testing.T) {
	path := filepath.Join("testdata", "segment.golden")
	got := golden()
	if *rewrite {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(path, got, 0o644))
		writeCorpus(t, got)
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Fatal("the format has changed: it needs another version")
	}
	header := segmentHeader{number: 1, salt: 42, binding: testBinding}
	h, err := readHeading("x", want[:dataStart], segmentHeader{})
	must(t, err)
	if h.header != header || h.synced != int64(len(want)) || len(h.damages) > 0 {
		t.Fatalf("heading is %+v", h)
	}
	var kinds []kind
	w := walk{window: window{r: bytes.NewReader(want), size: int64(len(want))}, stamp: header.stamp(), synced: h.synced}
	must(t, w.run(func(s *seen) error {
		if s.gap > 0 || s.badBody || s.late {
			t.Errorf("saw %+v", s)
		}
		kinds = append(kinds, s.entry.kind)
		return nil
	}))
	for i, k := range kinds {
		if k != kind(i+1) {
			t.Fatalf("kinds are %v", kinds)
		}
	}
}

// writeCorpus writes what the fuzz targets begin with.
func writeCorpus(t *testing.T, whole []byte) {
	entries := whole[dataStart:]
	damaged := bytes.Clone(entries)
	damaged[20] ^= 1
	bad := bytes.Clone(entries)
	bad[entryBytes+100] ^= 1
	asks := bytes.Clone(entries)
	asks[6], asks[len(asks)-entryBytes+6] = 1, 1
	all := len(entries)
	for name, seed := range map[string]struct {
		synced  int
		entries []byte
	}{
		"whole": {all, entries}, "header-damaged": {all, damaged}, "nothing-synced": {0, bad}, "body-damaged": {all, bad},
		"cut": {all, entries[:all-50]}, "empty": {0, nil}, "made-right": {all, asks},
	} {
		writeSeed(t, "FuzzSegment", name, fmt.Sprintf("uint16(%d)\n[]byte(%q)\n", seed.synced, seed.entries))
	}
	header := bytes.TrimRight(whole[:headerBytes-4], "\x00")
	asking := bytes.Clone(header)
	asking[12] = 1
	version := bytes.Clone(header)
	version[8] = 2
	note := whole[firstNote : firstNote+noteBytes]
	for name, seed := range map[string][3][]byte{
		"whole": {whole[:headerBytes], whole[secondHeader : secondHeader+headerBytes], note}, "made-right": {asking, header, note},
		"version": {version, version, nil}, "empty": {},
	} {
		writeSeed(t, "FuzzHeading", name, fmt.Sprintf("[]byte(%q)\n[]byte(%q)\n[]byte(%q)\n", seed[0], seed[1], seed[2]))
	}
}

func writeSeed(t *testing.T, target, name, args string) {
	dir := filepath.Join("testdata", "fuzz", target)
	must(t, os.MkdirAll(dir, 0o755))
	must(t, os.WriteFile(filepath.Join(dir, name), []byte("go test fuzz v1\n"+args), 0o644))
}
