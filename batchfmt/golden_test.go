package batchfmt

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy/xerial"
)

var rewrite = flag.Bool("rewrite", false, "write the golden batches anew; review the diff")

// The batches stand where every later version finds them; see the README there.
const goldenDir = "../compat/testdata/next/batches"

// A golden is a batch whose bytes are kept in a file and read by every later version.
type golden struct {
	name    string
	about   string
	build   func(t testing.TB) []byte
	refused string // the field of the error when Parse must refuse the batch
	read    bool   // compressed: another compressor may give other bytes, which need not be ours
}

var goldenRecords = []Record{
	{OffsetDelta: 0, Timestamp: noon, Key: []byte("user-17"), Value: []byte("signed up")},
	{OffsetDelta: 1, Timestamp: noon + 250, Key: []byte("user-18"), Value: []byte("signed up")},
	{OffsetDelta: 2, Timestamp: noon - 40, Key: []byte("user-17"), Value: []byte("signed out"),
		Headers: []Header{{Key: []byte("trace"), Value: []byte{0xde, 0xad, 0xbe, 0xef}}}},
}

var goldenStamp = Stamp{BaseOffset: 123456, AppendTime: noon + 1000, Term: 7, Durable: 123400}

var producer = Seal{ProducerID: 0x1122334455667788, Epoch: 3, BaseSequence: 900}

func plainGolden(s Seal, records ...Record) func(testing.TB) []byte {
	return func(t testing.TB) []byte { return mustSeal(t, s, records...) }
}

func stampedGolden(s Seal, records ...Record) func(testing.TB) []byte {
	return func(t testing.TB) []byte {
		b := mustSeal(t, s, records...)
		mustParse(t, b).Stamp(goldenStamp)
		return b
	}
}

func (s Seal) with(change func(*Seal)) Seal {
	change(&s)
	return s
}

var goldens = slices.Concat(featureGoldens, limitGoldens)

var featureGoldens = []golden{
	{name: "v1-smallest", about: "one record with no key, no value and no header; nothing is smaller",
		build: plainGolden(Seal{}, Record{})},
	{name: "v1-plain", about: "three records as a producer seals them; the last is older than the first",
		build: plainGolden(Seal{}, goldenRecords...)},
	{name: "v1-stamped", about: "the same with what the server writes at append",
		build: stampedGolden(Seal{}, goldenRecords...)},
	{name: "v1-append-time", about: "the timestamps of the records are the server's",
		build: stampedGolden(Seal{AppendTime: true}, goldenRecords...)},
	{name: "v1-null-and-empty", about: "null and empty differ, for keys and for values",
		build: plainGolden(Seal{},
			Record{Timestamp: noon}, Record{Timestamp: noon, Key: []byte{}},
			Record{Timestamp: noon, Value: []byte{}}, Record{Timestamp: noon, Key: []byte{}, Value: []byte{}},
			Record{Timestamp: noon, Key: []byte("k")}, Record{Timestamp: noon, Value: []byte("v")})},
	{name: "v1-headers", about: "headers: order kept, names repeated, an empty name, null, empty and binary values",
		build: plainGolden(Seal{}, Record{Timestamp: noon, Value: []byte("v"), Headers: []Header{
			{Key: []byte("b"), Value: []byte("1")}, {Key: []byte("a"), Value: []byte("2")},
			{Key: []byte("b"), Value: nil}, {Key: []byte("b"), Value: []byte{}},
			{Key: []byte{}, Value: []byte("no name")}, {Key: []byte("quoin-id"), Value: bytes.Repeat([]byte{0, 0xff}, 8)}}})},
	{name: "v1-timestamps", about: "timestamps before 1970, and deltas of every length up to ten bytes",
		build: plainGolden(Seal{}, Record{Timestamp: -1}, Record{Timestamp: 0}, Record{Timestamp: 1 << 13},
			Record{Timestamp: 1 << 34}, Record{Timestamp: 1<<63 - 2}, Record{Timestamp: -1 << 62})},
	{name: "v1-record-attributes", about: "record attributes have no meaning yet and are kept",
		build: plainGolden(Seal{}, Record{Timestamp: noon, Attributes: 0xa5, Value: []byte("v")})},
	{name: "v1-long-varints", about: "varints longer than they need to be are accepted and kept", build: longVarints},
	{name: "v1-many", about: "lengths and offset deltas of more than one varint byte",
		build: plainGolden(Seal{}, simpleRecords(70, 65)...)},
	{name: "v1-gzip", about: "gzip", read: true, build: plainGolden(Seal{Codec: CodecGzip}, simpleRecords(5, 60)...)},
	{name: "v1-snappy", about: "snappy, one raw block", read: true,
		build: plainGolden(Seal{Codec: CodecSnappy}, simpleRecords(5, 60)...)},
	{name: "v1-snappy-xerial", about: "snappy in the framing of Java's library, in two blocks", read: true, build: xerialGolden},
	{name: "v1-zstd", about: "zstd", read: true, build: plainGolden(Seal{Codec: CodecZstd}, simpleRecords(5, 60)...)},
	{name: "v2-plain", about: "a producer-aware batch", build: plainGolden(producer, goldenRecords...)},
	{name: "v2-stamped", about: "the same with what the server writes at append", build: stampedGolden(producer, goldenRecords...)},
	{name: "v2-position", about: "with the position of the application",
		build: plainGolden(producer.with(func(s *Seal) { s.Position = []byte("file=7 byte=4096") }), goldenRecords...)},
	{name: "v2-position-empty", about: "an empty position is a position",
		build: plainGolden(producer.with(func(s *Seal) { s.Position = []byte{} }), goldenRecords[0])},
	{name: "v2-extension-unknown", about: "extensions that nobody knows are stepped over, the position between them is found",
		build: plainGolden(producer.with(func(s *Seal) {
			s.Position = bytes.Repeat([]byte{0x70}, MaxPositionBytes)
			s.Extensions = []Extension{{Type: 0x7fff, Data: []byte("later")}, {Type: 2, Data: nil}}
		}), goldenRecords[0])},
	{name: "v2-extension-critical", about: "an unknown extension with the top bit set: the batch is refused",
		refused: "extension", build: criticalGolden},
	{name: "v2-zstd-stamped", about: "zstd, position and stamp together", read: true,
		build: stampedGolden(producer.with(func(s *Seal) { s.Codec, s.Position = CodecZstd, []byte("p") }), simpleRecords(20, 40)...)},
	{name: "v2-control-fence", about: "control: the lane takes no epoch below 4 from here on",
		build: controlGolden(Control{Kind: ControlFence, MinEpoch: 4, Floor: 100, Last: 899, Position: []byte("file=7")})},
	{name: "v2-control-close", about: "control: the producer has ended a lane on which nothing was stored",
		build: controlGolden(Control{Kind: ControlClose, MinEpoch: 3, Last: -1})},
	{name: "v9-unknown", about: "a version that nobody knows: its front can be read and the batch stepped over",
		refused: "version", build: unknownVersion},
}

func longVarints(testing.TB) []byte {
	section := []byte{
		0x92, 0x80, 0x00, // length 9, in three bytes instead of one
		0x00,       // attributes
		0x80, 0x00, // timestamp delta 0, in two
		0x80, 0x80, 0x00, // offset delta 0, in three
		0x01, 0x01, 0x00, // no key, no value, no headers
	}
	return aroundSection(CodecNone, 1, len(section), section).b
}

func xerialGolden(t testing.TB) []byte {
	plain := mustParse(t, mustSeal(t, Seal{}, simpleRecords(5, 60)...))
	section := plain.RecordSection()
	framed := xerial.Encode(nil, section[:100])
	framed = xerial.Encode(framed, section[100:])
	b, err := SealSection(nil, Seal{Codec: CodecSnappy}, Section{
		Count: plain.RecordCount(), BaseTimestamp: plain.BaseTimestamp(), MaxTimestamp: plain.MaxTimestamp(),
		Length: len(section), Bytes: framed,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func criticalGolden(t testing.TB) []byte {
	b := mustSeal(t, producer.with(func(s *Seal) {
		s.Extensions = []Extension{{Type: 0x7f03, Data: []byte("must know")}}
	}), goldenRecords[0])
	b[HeaderSize2+1] |= 0x80
	return sealed(b)
}

func controlGolden(c Control) func(testing.TB) []byte {
	return func(t testing.TB) []byte {
		b := AppendControl(nil, producer.ProducerID, producer.Epoch, c)
		mustParse(t, b).Stamp(goldenStamp)
		return b
	}
}

func unknownVersion(t testing.TB) []byte {
	b := mustSeal(t, Seal{}, goldenRecords[0])
	mustParse(t, b).Stamp(goldenStamp)
	b[offVersion] = 9
	for i := offAttributes; i < len(b); i++ {
		b[i] = byte(i)
	}
	sealed(b)
	Batch{b}.Stamp(goldenStamp)
	return b
}

// render is the text of a golden file: what is behind # is for people.
func (g *golden) render(b []byte) string {
	d := dumper{b: b, hexBytes: len(b), records: 1000}
	d.note(g.name + ": " + g.about)
	d.batch()
	return string(d.out)
}

func (g *golden) path() string { return filepath.Join(goldenDir, g.name+".hex") }

// load reads the batch of the golden file.
func (g *golden) load(t testing.TB) (b []byte, text string) {
	t.Helper()
	raw, err := os.ReadFile(g.path())
	if err != nil {
		t.Fatalf("%v (run the test with -rewrite)", err)
	}
	b, err = unhex(string(raw))
	if err != nil {
		t.Fatalf("%s: %v", g.path(), err)
	}
	return b, string(raw)
}

// unhex reads the bytes of an annotated hex file.
func unhex(text string) ([]byte, error) {
	var digits strings.Builder
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(code), ""))
	}
	return hex.DecodeString(digits.String())
}

func TestGolden(t *testing.T) {
	for i := range goldens {
		g := &goldens[i]
		t.Run(g.name, func(t *testing.T) { testGolden(t, g) })
	}
	t.Run("every file has its golden", func(t *testing.T) {
		files, err := filepath.Glob(filepath.Join(goldenDir, "*.hex"))
		if err != nil || len(files) != len(goldens) {
			t.Fatalf("%d files and %d goldens: %v", len(files), len(goldens), err)
		}
	})
}

func testGolden(t *testing.T, g *golden) {
	built := g.build(t)
	if *rewrite {
		if err := os.WriteFile(g.path(), []byte(g.render(built)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, text := g.load(t)
	if want := g.render(b); text != want {
		t.Errorf("the annotations of the file no longer say what the bytes are:\n%s\nwant\n%s", text, want)
	}
	if !g.read && !bytes.Equal(b, built) {
		t.Errorf("the bytes that are written today differ:\n%s\nwant\n%s", g.render(built), text)
	}
	got, err := Parse(b)
	if g.refused != "" {
		wantFormatError(t, err, g.refused)
		wantFront(t, b)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	wantGood(t, got)
	want, err := readAll(mustParse(t, built))
	if err != nil {
		t.Fatal(err)
	}
	records, err := readAll(got)
	if err != nil {
		t.Fatal(err)
	}
	wantRecords(t, records, want)
}

// wantFront checks that the front of b allows to step over it.
func wantFront(t testing.TB, b []byte) {
	t.Helper()
	front, err := ParseFront(b[:FrontSize])
	if err != nil {
		t.Fatal(err)
	}
	if front.Size != len(b) || front.Version != Version(b[offVersion]) {
		t.Errorf("front is %+v, the batch has %d bytes", front, len(b))
	}
}

// wantGood runs every check that a batch can be put to.
func wantGood(t testing.TB, b Batch) {
	t.Helper()
	if err := b.Verify(); err != nil {
		t.Error(err)
	}
	if b.Stamped() {
		if err := b.VerifyFront(); err != nil {
			t.Error(err)
		}
	}
	if err := CheckRecords(b, nil); err != nil {
		t.Error(err)
	}
}

// TestGoldenPrefixes gives every prefix of every golden to the parser: it must ask for
// bytes that lack, and never for more than there are.
func TestGoldenPrefixes(t *testing.T) {
	for i := range goldens {
		g := &goldens[i]
		t.Run(g.name, func(t *testing.T) {
			b, _ := g.load(t)
			for n := range b {
				if g.refused == "version" && n >= FrontSize {
					break // refused as soon as the front is there
				}
				if err := follow(b, n); err != nil {
					t.Fatalf("from %d bytes on: %v", n, err)
				}
			}
		})
	}
}

// follow gives Parse what it asks for, from the first n bytes of b on.
func follow(b []byte, n int) error {
	for n < len(b) {
		_, err := Parse(b[:n:n])
		fe, ok := err.(*FormatError)
		if !ok || !fe.Short() {
			return fmt.Errorf("%d of %d bytes: %v", n, len(b), err)
		}
		if fe.Need > len(b)-n {
			return fmt.Errorf("%d of %d bytes: %d are asked for", n, len(b), fe.Need)
		}
		n += fe.Need
		if n == FrontSize && b[offVersion] > byte(Version2) {
			return nil
		}
	}
	return nil
}

// TestGoldenFlips turns every bit of the stamped goldens: one of the checks must see it.
func TestGoldenFlips(t *testing.T) {
	for i := range goldens {
		g := &goldens[i]
		b, _ := g.load(t)
		if g.refused != "" || !mustParse(t, b).Stamped() {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			for bit := range len(b) * 8 {
				flipped := bytes.Clone(b)
				flipped[bit/8] ^= 1 << (bit % 8)
				batch, err := Parse(flipped)
				if err == nil && batch.Verify() == nil && batch.VerifyFront() == nil {
					t.Errorf("bit %d of byte %d was turned and no check saw it", bit%8, bit/8)
				}
			}
		})
	}
}

// TestGoldenRoundTrip encodes what was decoded: an uncompressed batch whose varints are
// the shortest comes out as it went in.
func TestGoldenRoundTrip(t *testing.T) {
	for i := range goldens {
		g := &goldens[i]
		if g.refused != "" || g.read || g.name == "v1-long-varints" || strings.Contains(g.name, "control") {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			b, _ := g.load(t)
			again, err := reencode(mustParse(t, b))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(again, b) {
				t.Errorf("got\n%s\nwant\n%s", Dump(again), Dump(b))
			}
		})
	}
}

// reencode builds a batch from what can be read of b.
func reencode(b Batch) ([]byte, error) {
	var r Reader
	if err := r.Reset(b); err != nil {
		return nil, err
	}
	var builder Builder
	for r.Next() {
		rec := *r.Record()
		rec.Timestamp = r.created
		if err := builder.Add(&rec); err != nil {
			return nil, err
		}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	s := Seal{
		Version: b.Version(), Codec: b.Codec(), ProducerID: b.ProducerID(), Epoch: b.Epoch(),
		BaseSequence: b.BaseSequence(), AppendTime: b.Attributes()&AttrAppendTime != 0,
	}
	for pos, all := 0, b.extensionBytes(); pos < len(all); {
		typ, data, next, err := splitExtension(all[pos:], pos)
		if err != nil {
			return nil, err
		}
		s.Extensions = append(s.Extensions, Extension{Type: typ, Data: data})
		pos += next
	}
	out, err := builder.Seal(nil, s)
	if err != nil {
		return nil, err
	}
	copy(out[offBaseOffset:offChecksum], b.b[offBaseOffset:offChecksum]) // the server's fields
	return out, nil
}
