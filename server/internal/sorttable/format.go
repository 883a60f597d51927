package sorttable

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// The limits of a table. Write refuses what is over them, Open does not believe it.
const (
	// MaxMetaBytes bounds the meta.
	MaxMetaBytes = 4096
	// MaxValueBytes bounds the value of a row.
	MaxValueBytes = 256
	// MaxRows bounds a table.
	MaxRows = 1 << 26

	maxBlocks = 1 << 22 // 16 GiB of rows, 96 MiB of fences
)

// The layout is drawn in the package comment.
const (
	tableMagic   = "QTAB"
	tableVersion = 1

	offVersion     = 4
	offMetaSize    = 8
	offFilterSize  = 12
	offRows        = 16
	offBlocksSize  = 24
	offLast        = 32
	offFilterCheck = 48
	offFencesCheck = 56
	headFixedSize  = 64
	checkSize      = 8
	maxHeadSize    = headFixedSize + MaxMetaBytes + checkSize

	blockSize     = 4096
	blockHeadSize = 2
	minRowSize    = 3
	fenceSize     = 24
)

// Key is the key of a row. Rows are in the order of A, then of B.
type Key struct{ A, B uint64 }

// Compare is below 0 if k comes before l, 0 if they are equal, else above 0.
func (k Key) Compare(l Key) int {
	return cmp.Or(cmp.Compare(k.A, l.A), cmp.Compare(k.B, l.B))
}

// less is Compare for the inner loops.
func (k Key) less(l Key) bool { return k.A < l.A || k.A == l.A && k.B < l.B }

// header is the fixed part of the header, and the meta.
type header struct {
	meta        []byte
	filterSize  int64
	rows        int64
	blocksSize  int64
	last        Key
	filterCheck uint64
	fencesCheck uint64
}

// The parts of the file.

func headSize(meta int) int64       { return headFixedSize + int64(meta) + checkSize }
func (h *header) blocksAt() int64   { return headSize(len(h.meta)) }
func (h *header) filterAt() int64   { return h.blocksAt() + h.blocksSize }
func (h *header) fencesAt() int64   { return h.filterAt() + h.filterSize }
func (h *header) fencesSize() int64 { return h.blocks() * fenceSize }
func (h *header) blocks() int64     { return (h.blocksSize + blockSize - 1) / blockSize }
func (h *header) fileSize() int64   { return h.fencesAt() + h.fencesSize() }

func (h *header) append(b []byte) []byte {
	start, le := len(b), binary.LittleEndian
	b = append(b, tableMagic...)
	b = le.AppendUint32(b, tableVersion)
	b = le.AppendUint32(b, uint32(len(h.meta)))
	b = le.AppendUint32(b, uint32(h.filterSize))
	b = le.AppendUint64(b, uint64(h.rows))
	b = le.AppendUint64(b, uint64(h.blocksSize))
	b = le.AppendUint64(b, h.last.A)
	b = le.AppendUint64(b, h.last.B)
	b = le.AppendUint64(b, h.filterCheck)
	b = le.AppendUint64(b, h.fencesCheck)
	b = append(b, h.meta...)
	return le.AppendUint64(b, xxhash.Sum64(b[start:]))
}

// parseHeader reads the header of a file of size bytes that begins with b. Of the file b
// is all, or as much as a header may have. The parts that it names fill the file, so what
// they take in memory is bounded by the file.
func parseHeader(b []byte, size int64) (header, *FormatError) {
	le := binary.LittleEndian
	bad := func(format string, args ...any) (header, *FormatError) {
		return header{}, fault("header", 0, format, args...)
	}
	if len(b) < headFixedSize+checkSize {
		return bad("only %d bytes are there", len(b))
	}
	if string(b[:offVersion]) != tableMagic {
		return bad("has magic %q", b[:offVersion])
	}
	metaSize := le.Uint32(b[offMetaSize:])
	if metaSize > MaxMetaBytes || headSize(int(metaSize)) > int64(len(b)) {
		return bad("meta of %d bytes is over the limit, %d, or does not fit", metaSize, MaxMetaBytes)
	}
	at := headFixedSize + int(metaSize)
	if have, got := le.Uint64(b[at:]), xxhash.Sum64(b[:at]); have != got {
		return bad("the check is %016x, the bytes have %016x", have, got)
	}
	if version := le.Uint32(b[offVersion:]); version != tableVersion {
		return bad("format version %d is not known, only %d", version, tableVersion)
	}
	h := header{
		meta:        slices.Clone(b[headFixedSize:at]),
		filterSize:  int64(le.Uint32(b[offFilterSize:])),
		rows:        int64(le.Uint64(b[offRows:])),
		blocksSize:  int64(le.Uint64(b[offBlocksSize:])),
		last:        Key{le.Uint64(b[offLast:]), le.Uint64(b[offLast+8:])},
		filterCheck: le.Uint64(b[offFilterCheck:]),
		fencesCheck: le.Uint64(b[offFencesCheck:]),
	}
	if reason := h.contradiction(); reason != "" {
		return bad("%s", reason)
	}
	if h.fileSize() != size {
		return bad("it needs a file of %d bytes, and %d are there", h.fileSize(), size)
	}
	return h, nil
}

// contradiction says what cannot be in a header, or nothing. What it lets through does not
// overflow.
func (h *header) contradiction() string {
	switch {
	case h.rows < 0 || h.rows > MaxRows:
		return "the number of rows is over the limit"
	case h.blocksSize < 0 || h.blocksSize > maxBlocks*blockSize:
		return "the number of blocks is over the limit"
	case h.rows < h.blocks() || h.rows*minRowSize > h.blocksSize:
		return "so many rows do not make so many blocks"
	case h.rows == 0 && (h.blocksSize > 0 || h.filterSize > 0 || h.last != Key{}):
		return "it has parts and no rows"
	case h.rows > 0 && h.filterSize == 0 || h.filterSize%groupSize != 0 || h.filterSize > filterSize(h.rows):
		return "the filter does not fit the number of rows"
	}
	return ""
}

// fence leads to a block.
type fence struct {
	first Key
	check uint64
}

func (f fence) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, f.first.A)
	b = binary.LittleEndian.AppendUint64(b, f.first.B)
	return binary.LittleEndian.AppendUint64(b, f.check)
}

// parseFences reads the fences of h, whose bytes are b.
func parseFences(h *header, b []byte) ([]fence, *FormatError) {
	le := binary.LittleEndian
	if got := xxhash.Sum64(b); got != h.fencesCheck {
		return nil, fault("fences", h.fencesAt(), "the check is %016x, the bytes have %016x", h.fencesCheck, got)
	}
	fences := make([]fence, len(b)/fenceSize)
	for i := range fences {
		x := b[i*fenceSize:]
		fences[i] = fence{Key{le.Uint64(x), le.Uint64(x[8:])}, le.Uint64(x[16:])}
		if i > 0 && !fences[i-1].first.less(fences[i].first) {
			return nil, fault("fences", h.fencesAt(), "that of block %d does not rise", i)
		}
	}
	if n := len(fences); n > 0 && h.last.less(fences[n-1].first) {
		return nil, fault("fences", h.fencesAt(), "the last block begins behind the last key")
	}
	return fences, nil
}
