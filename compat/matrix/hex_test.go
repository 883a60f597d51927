package matrix

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Holes are what a frozen frame cannot know, such as the id that a server gives a topic. In
// the file a hole is <name:bytes>; it is filled when the frame is sent.
type holes map[string][]byte

func (h holes) set64(name string, v int64) {
	h[name] = binary.LittleEndian.AppendUint64(nil, uint64(v))
}

var holePattern = regexp.MustCompile(`^<([a-z]+):(\d+)>$`)

// parseFrame reads a frozen frame. The checksum of a batch with holes is a hole itself, by
// the name of "checksum": it is filled last, with what the bytes have.
func parseFrame(text string, fill holes) ([]byte, error) {
	var frame []byte
	sealAt := -1
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "#")
		for _, word := range strings.Fields(code) {
			hole := holePattern.FindStringSubmatch(word)
			if hole == nil {
				b, err := hex.DecodeString(word)
				if err != nil {
					return nil, fmt.Errorf("%q: %w", word, err)
				}
				frame = append(frame, b...)
				continue
			}
			n, _ := strconv.Atoi(hole[2])
			b, ok := fill[hole[1]]
			if hole[1] == "checksum" {
				sealAt = len(frame) - offChecksum
				b, ok = make([]byte, n), true
			}
			if !ok || len(b) != n {
				return nil, fmt.Errorf("the hole %s is to be filled with %x", word, b)
			}
			frame = append(frame, b...)
		}
	}
	if len(frame) < frameHead || int(binary.LittleEndian.Uint32(frame)) != len(frame)-frameHead {
		return nil, fmt.Errorf("%d bytes are no frame", len(frame))
	}
	if sealAt >= 0 {
		seal(frame[sealAt:])
	}
	return frame, nil
}

// A release is a folder of testdata.
type release string

func (r release) frame(t testing.TB, name string, fill holes) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", string(r), filepath.FromSlash(name)+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	frame, err := parseFrame(string(text), fill)
	if err != nil {
		t.Fatalf("%s/%s: %v", r, name, err)
	}
	return frame
}

// names are the frozen frames of a release.
func names(t testing.TB, r release) (all []string) {
	t.Helper()
	files, err := fs.Glob(os.DirFS(filepath.Join("testdata", string(r))), "*/*.hex")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has %d frames: %v", r, len(files), err)
	}
	for _, file := range files {
		all = append(all, strings.TrimSuffix(file, ".hex"))
	}
	return all
}

// withTail is a frame as a newer peer sends it: with fields behind those that were frozen.
func withTail(frame []byte) []byte {
	out := append(append([]byte(nil), frame...), 0xe0, 0xe1, 0xe2, 0xe3, 0xe4)
	binary.LittleEndian.PutUint32(out, uint32(len(out)-frameHead))
	return out
}

func TestParseFrameCanRefuse(t *testing.T) {
	const good = "0c 00 00 00 # size\n06 00 00 00 01 02 03 04 <nonce:8> # and a hole\n"
	eight := make([]byte, 8)
	for _, row := range []struct {
		name, text string
		fill       holes
		good       bool
	}{
		{"good", good, holes{"nonce": eight}, true},
		{"a hole that nobody fills", good, nil, false},
		{"a hole that is filled with too much", good, holes{"nonce": make([]byte, 9)}, false},
		{"a byte is gone", strings.Replace(good, "04", "", 1), holes{"nonce": eight}, false},
		{"no hex", strings.Replace(good, "04", "xx", 1), holes{"nonce": eight}, false},
		{"nothing", "# a comment alone\n", nil, false},
	} {
		if _, err := parseFrame(row.text, row.fill); (err == nil) != row.good {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}
