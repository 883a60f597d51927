package batchfmt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/snappy/xerial"
	"github.com/klauspost/compress/zstd"
)

// compress is appendCompressed with the room that it needs.
func compress(t testing.TB, c Codec, section []byte) []byte {
	t.Helper()
	out, err := appendCompressed(make([]byte, 0, sealedBytes(c, len(section))), c, section)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func someSection(t testing.TB) ([]byte, int) {
	b := mustParse(t, mustSeal(t, Seal{}, simpleRecords(40, 80)...))
	return b.RecordSection(), b.RecordCount()
}

// TestClaimedLengthMustBeTheActual claims a byte more and a byte less.
func TestClaimedLengthMustBeTheActual(t *testing.T) {
	section, count := someSection(t)
	blocks := map[string][]byte{
		"gzip": compress(t, CodecGzip, section), "snappy": compress(t, CodecSnappy, section),
		"snappy, xerial": xerial.Encode(nil, section), "zstd": compress(t, CodecZstd, section),
		"zstd without content size": zstdStream(t, section),
	}
	for name, block := range blocks {
		codec := CodecGzip
		switch name[:4] {
		case "snap":
			codec = CodecSnappy
		case "zstd":
			codec = CodecZstd
		}
		for _, off := range []int{-1, 0, 1} {
			t.Run(fmt.Sprintf("%s/%+d", name, off), func(t *testing.T) {
				_, err := readAll(aroundSection(codec, count, len(section)+off, block))
				if off == 0 {
					if err != nil {
						t.Fatal(err)
					}
					return
				}
				want := map[int]string{-1: "more", 1: "less"}[off]
				if fe := wantFormatError(t, err, "records"); !strings.Contains(fe.Reason, want+" than the records length") {
					t.Errorf("error is %v", err)
				}
			})
		}
	}
}

// zstdStream compresses like a producer that does not know the length before.
func zstdStream(t testing.TB, section []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	for part := range bytes.SplitAfterSeq(section, []byte(" ")) {
		if _, err := w.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestDamagedBlocks cuts every block at every place and turns bytes: an error or the
// right records, never a panic.
func TestDamagedBlocks(t *testing.T) {
	section, count := someSection(t)
	blocks := []struct {
		codec Codec
		block []byte
	}{
		{CodecGzip, compress(t, CodecGzip, section)},
		{CodecSnappy, compress(t, CodecSnappy, section)},
		{CodecSnappy, xerial.Encode(nil, section)},
		{CodecZstd, compress(t, CodecZstd, section)},
	}
	for i, test := range blocks {
		t.Run(fmt.Sprint(i, test.codec), func(t *testing.T) {
			for n := range test.block {
				_, err := readAll(aroundSection(test.codec, count, len(section), test.block[:n]))
				wantDecompressError(t, err)
			}
			for _, tail := range []string{"\x00", "x", "xxxx", "tail of garbage that is longer"} {
				_, err := readAll(aroundSection(test.codec, count, len(section), append(bytes.Clone(test.block), tail...)))
				wantDecompressError(t, err)
			}
			for n := range test.block {
				bad := bytes.Clone(test.block)
				bad[n] ^= 0x55
				if records, err := readAll(aroundSection(test.codec, count, len(section), bad)); err == nil && len(records) != count {
					t.Errorf("byte %d: %d records", n, len(records))
				}
			}
		})
	}
}

func wantDecompressError(t testing.TB, err error) {
	t.Helper()
	if fe, ok := err.(*FormatError); !ok || (fe.Field != "records" && fe.Field != "records length") {
		t.Fatalf("error is %v", err)
	}
}

// TestBombs gives small blocks that want to become large ones: with a modest claim the
// decoder stops there, with a large one it takes the memory for it and no more.
func TestBombs(t *testing.T) {
	zeros := make([]byte, 9<<20)
	bombs := []struct {
		codec Codec
		block []byte
	}{
		{CodecGzip, compress(t, CodecGzip, zeros)},
		{CodecSnappy, compress(t, CodecSnappy, zeros)},
		{CodecSnappy, xerial.Encode(nil, zeros[:8<<20])},
		{CodecZstd, compress(t, CodecZstd, zeros)},
		{CodecZstd, zstdStream(t, zeros)},
		{CodecZstd, bytes.Repeat(compress(t, CodecZstd, zeros[:1<<20]), 9)},
		{CodecZstd, densestZstd(MaxRecordsBytes/zstdBlockBytes + 1)},
	}
	for i, bomb := range bombs {
		claims := []int{7, 1 << 10, 1 << 20, 8<<20 - 1}
		if i == len(bombs)-1 {
			claims = append(claims, MaxRecordsBytes)
		}
		for _, claim := range claims {
			t.Run(fmt.Sprintf("%d %s of %d bytes claims %d", i, bomb.codec, len(bomb.block), claim), func(t *testing.T) {
				b := aroundSection(bomb.codec, 1, claim, bomb.block)
				var r Reader
				_ = r.Reset(aroundSection(bomb.codec, 1, 7, compress(t, bomb.codec, zeros[:7]))) // warms the pools
				took := allocated(func() {
					wantDecompressError(t, r.Reset(b))
				})
				const state = 1 << 20 // a decoder, if the pool was emptied meanwhile
				most := uint64(claim + 2*len(bomb.block) + state)
				if bomb.codec == CodecZstd {
					most += uint64(claim)/4*5 + zstdBlockBytes // see unzstd
				}
				if took > most {
					t.Errorf("%d bytes were allocated, at most %d are allowed", took, most)
				}
			})
		}
	}
}

// TestImpossibleClaimTakesNoMemory claims 64 MiB of a block that cannot hold them.
func TestImpossibleClaimTakesNoMemory(t *testing.T) {
	for _, codec := range codecs[1:] {
		block := compress(t, codec, make([]byte, 1000))
		b := aroundSection(codec, 1, MaxRecordsBytes, block)
		var r Reader
		took := allocated(func() { wantFormatError(t, r.Reset(b), "records length") })
		if took > 1<<16 {
			t.Errorf("%s: %d bytes were allocated", codec, took)
		}
	}
}

// allocated is how many bytes f takes from the heap.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestMaxExpansion holds the bounds to the best that the formats can do.
func TestMaxExpansion(t *testing.T) {
	for _, codec := range codecs[1:] {
		for _, n := range []int{7, 100, 1 << 10, 128 << 10, 4 << 20} {
			block := compress(t, codec, make([]byte, n))
			if most := maxExpansion(codec, len(block)); most < int64(n) {
				t.Errorf("%s: %d bytes became %d, the bound is %d", codec, len(block), n, most)
			}
		}
	}
	const blocks = 100
	frame := densestZstd(blocks)
	dst := make([]byte, blocks*zstdBlockBytes, blocks*zstdBlockBytes+decodeSlack)
	if err := unzstd(dst, frame); err != nil {
		t.Fatal(err)
	}
	if most := maxExpansion(CodecZstd, len(frame)); most < int64(len(dst)) {
		t.Errorf("%d bytes became %d, the bound is %d", len(frame), len(dst), most)
	}
}

const zstdBlockBytes = 128 << 10

// densestZstd is a frame of blocks that repeat one byte, 128 KiB from four bytes each.
func densestZstd(blocks int) []byte {
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38}
	for i := range blocks {
		header := uint32(zstdBlockBytes)<<3 | 1<<1
		if i == blocks-1 {
			header |= 1
		}
		frame = append(frame, byte(header), byte(header>>8), byte(header>>16), 0)
	}
	return frame
}

// TestBlocksOfOthers reads what other writers make of the same section.
func TestBlocksOfOthers(t *testing.T) {
	section, count := someSection(t)
	half := len(section) / 2
	var twoMembers bytes.Buffer
	for _, part := range [][]byte{section[:half], section[half:]} {
		w := gzip.NewWriter(&twoMembers)
		w.Name, w.Comment, w.Extra = "name", "comment", []byte("extra")
		if _, err := w.Write(part); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	empty := snappy.Encode(nil, nil)
	chunks := append(bytes.Clone(xerial.Encode(nil, section[:half])), 0, 0, 0, byte(len(empty)))
	chunks = xerial.Encode(append(chunks, empty...), section[half:])
	best, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		reason string
		codec  Codec
		block  []byte
	}{
		{"gzip of two members with names", CodecGzip, twoMembers.Bytes()},
		{"snappy without compression", CodecSnappy, literalBlock(section)},
		{"snappy of the best encoder", CodecSnappy, s2.EncodeSnappyBest(nil, section)},
		{"xerial with an empty block", CodecSnappy, chunks},
		{"zstd with checksum", CodecZstd, best.EncodeAll(section, nil)},
		{"zstd of two frames", CodecZstd, best.EncodeAll(section[half:], best.EncodeAll(section[:half], nil))},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			records, err := readAll(aroundSection(test.codec, count, len(section), test.block))
			if err != nil {
				t.Fatal(err)
			}
			wantRecords(t, records, simpleRecords(40, 80))
		})
	}
}

// literalBlock is a snappy block of literals of at most 60 bytes.
func literalBlock(section []byte) []byte {
	out := binary.AppendUvarint(nil, uint64(len(section)))
	for len(section) > 0 {
		n := min(60, len(section))
		out = append(append(out, byte(n-1)<<2), section[:n]...)
		section = section[n:]
	}
	return out
}

func TestSnappyRefuses(t *testing.T) {
	section, _ := someSection(t)
	framed := xerial.Encode(nil, section)
	change := func(off int, v uint32) []byte {
		b := bytes.Clone(framed)
		binary.BigEndian.PutUint32(b[off:], v)
		return b
	}
	tests := []struct {
		reason string
		block  []byte
	}{
		{"s2 extensions, which no other reader knows", append(binary.AppendUvarint(nil, 12), 3<<2, 'a', 'b', 'c', 'd', 0x01|4<<2, 0)},
		{"a copy from before the start", append(binary.AppendUvarint(nil, 8), 0, 'a', 0x01|3<<2, 2)},
		{"xerial version 0", change(8, 0)},
		{"xerial that needs a later reader", change(12, 2)},
		{"a block longer than the stream", change(16, uint32(len(framed)))},
		{"a block length of the largest number", change(16, 1<<32-1)},
		{"a block of no bytes, not even a length", change(16, 0)},
		{"a stream in a stream", append(append(bytes.Clone(framed[:16]), 0, 0, 0, byte(16)), framed[:16]...)},
		{"half a header", framed[:12]},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			dst := make([]byte, len(section))
			if err := unsnappy(dst, test.block); err == nil {
				t.Error("it was taken")
			}
		})
	}
}

// TestPoolsAreShared seals and reads on several goroutines at once.
func TestPoolsAreShared(t *testing.T) {
	records := simpleRecords(50, 100)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			var b Builder
			for j := range records {
				if err := b.Add(&records[j]); err != nil {
					t.Error(err)
				}
			}
			var r Reader
			var out []byte
			for j := range 20 {
				var err error
				if out, err = b.Seal(out[:0], Seal{Codec: codecs[(i+j)%len(codecs)]}); err != nil {
					t.Error(err)
					return
				}
				batch, err := Parse(out)
				if err == nil {
					err = CheckRecords(batch, &r)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}
