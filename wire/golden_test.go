package wire

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew; review the diff")

// goldenDir is where the frames of the version to come are; compat says what becomes of them.
const goldenDir = "../compat/testdata/next/frames"

// TestGolden holds every message to the bytes in its file: the encoder must give them,
// the decoder must read them.
func TestGolden(t *testing.T) {
	for _, s := range samples(t) {
		t.Run(s.name, func(t *testing.T) {
			path := filepath.Join(goldenDir, s.name+".hex")
			if *rewrite {
				writeFile(t, path, annotate(t, s.m))
			}
			want := readHex(t, path)
			if got := Append(nil, s.m); !bytes.Equal(got, want) {
				t.Errorf("encoded, it is\n%s\nand not what %s holds", annotate(t, s.m), path)
			}
			got, err := Read(bytes.NewReader(want))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, s.m) {
				t.Errorf("got  %+v\nwant %+v", got, s.m)
			}
		})
	}
}

// A file without a sample is a sample that somebody renamed.
func TestGoldenFilesHaveSamples(t *testing.T) {
	names := map[string]bool{}
	for _, s := range samples(t) {
		names[s.name+".hex"] = true
	}
	files, err := filepath.Glob(filepath.Join(goldenDir, "*.hex"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !names[filepath.Base(file)] {
			t.Errorf("%s belongs to no sample", file)
		}
	}
}

// annotate prints the frame of m in hex, a field a line, with its name and meaning.
func annotate(t testing.TB, m Message) []byte {
	frame := Append(nil, m)
	var out bytes.Buffer
	depth := 0
	line := func(raw []byte, about string) {
		for i := 0; i == 0 || i < len(raw); i += 16 {
			text := fmt.Sprintf("% x", raw[i:min(i+16, len(raw))])
			if i == 0 && about != "" {
				text = strings.TrimLeft(fmt.Sprintf("%-48s# %s%s", text, strings.Repeat("  ", depth), about), " ")
			}
			fmt.Fprintln(&out, text)
		}
	}
	line(frame[0:4], fmt.Sprintf("size: %d", len(frame)-HeaderSize))
	line(frame[4:6], fmt.Sprintf("kind: %v", m.Kind()))
	line(frame[6:8], "flags")
	payload := frame[HeaderSize:]
	c := cursor{kind: m.Kind(), rest: payload, from: payload}
	c.sees = func(name string, raw []byte, value any) {
		switch v := value.(type) {
		case dumpItem:
			line(nil, fmt.Sprintf("[%d]", v))
		case dumpListEnd:
			depth--
		case dumpList:
			line(raw, fmt.Sprintf("%s: %d", name, v))
			depth++
		default:
			line(raw, name+": "+dumpText(value))
		}
	}
	m2 := kinds[m.Kind()].make()
	m2.decode(&c)
	if c.err != nil || len(c.rest) > 0 {
		t.Fatalf("%v with %d bytes left", c.err, len(c.rest))
	}
	return out.Bytes()
}

func writeFile(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// readHex reads a golden file: hex, with text behind a # that is for people.
func readHex(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}
