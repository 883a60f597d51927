package retired

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// TestLayout holds head and meta against bytes that were written once and for all.
func TestLayout(t *testing.T) {
	h := head{generation: 9, serial: 30, forgotten: 5, stale: staleMark{3, 4}, vouched: 77, runs: []entry{{2, 3, 1, 1, 10, 7, 500}, {9, 5, 0, 11, 29, 40, 900}}}
	const wantHead = "" +
		"51524801020000000900000000000000" + "1e000000000000000500000000000000" + "03000000000000000400000000000000" + "4d00000000000000" +
		"02000000000000000300000000000000" + "01000000000000000100000000000000" + "0a000000000000000700000000000000" + "f401000000000000" +
		"09000000000000000500000000000000" + "00000000000000000b00000000000000" + "1d000000000000002800000000000000" + "8403000000000000"
	got := h.append(nil)
	if have := hex.EncodeToString(got[:len(got)-checkSize]); have != wantHead {
		t.Errorf("head is %s", have)
	}
	if b := h.file(); len(b) != headBytes || !bytes.Equal(b[:headCopyBytes], b[headCopyBytes:]) || !bytes.HasPrefix(b, got) {
		t.Error("the file is not two copies")
	}
	if have := hex.EncodeToString(meta{5, 4, 1, 9}.bytes()); have != "51525201000000000500000000000000"+"04000000000000000100000000000000"+"0900000000000000" {
		t.Errorf("meta is %s", have)
	}
}

// TestEveryPrefix parses every prefix of a head and of a meta.
func TestEveryPrefix(t *testing.T) {
	b := head{serial: 1}.file()
	for n := range b {
		_, notes, err := parseHeadFile(b[:n])
		if n < headCopyBytes {
			wantErr(t, err, ErrDamaged)
		} else if err != nil || len(notes) != 1 {
			t.Fatalf("%d bytes: %v %v", n, notes, err)
		}
	}
	one := meta{5, 4, 1, 9}.bytes()
	for n := range one {
		if m, err := parseMeta(one[:n]); err == nil {
			t.Fatalf("%d bytes: %+v", n, m)
		}
	}
}
