package seglog

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/quoin-io/quoin/batchfmt"
)

// Offset is the place of a record in its partition.
type Offset = batchfmt.Offset

// The header of a segment; the layout is drawn in the package comment.
const (
	segMagic      = "QSEG"
	segVersion    = 1
	segHeaderSize = 32

	segSuffix = ".seg"
	idxSuffix = ".idx"
	tmpSuffix = ".tmp"
	nameSize  = 20
)

// segHeader is the header of a segment.
type segHeader struct {
	base    Offset
	created int64  // Unix milliseconds
	check   uint64 // names this very file: an index holds it too
}

func appendSegHeader(b []byte, base Offset, created int64) []byte {
	start := len(b)
	b = append(b, segMagic...)
	b = binary.LittleEndian.AppendUint32(b, segVersion)
	b = binary.LittleEndian.AppendUint64(b, uint64(base))
	b = binary.LittleEndian.AppendUint64(b, uint64(created))
	return binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b[start:]))
}

// parseSegHeader reads the header of the segment that the name says begins at base.
func parseSegHeader(b []byte, base Offset) (segHeader, error) {
	if len(b) < segHeaderSize {
		return segHeader{}, fmt.Errorf("segment header has %d bytes of %d", len(b), segHeaderSize)
	}
	h := segHeader{
		base:    Offset(binary.LittleEndian.Uint64(b[8:])),
		created: int64(binary.LittleEndian.Uint64(b[16:])),
		check:   binary.LittleEndian.Uint64(b[24:]),
	}
	version := binary.LittleEndian.Uint32(b[4:])
	switch {
	case string(b[:4]) != segMagic:
		return segHeader{}, fmt.Errorf("segment header has magic %q", b[:4])
	case h.check != xxhash.Sum64(b[:24]):
		return segHeader{}, fmt.Errorf("segment header has a wrong check")
	case version != segVersion:
		return segHeader{}, &VersionError{What: "segment " + segName(base), Version: int(version), Known: segVersion}
	case h.base != base:
		return segHeader{}, fmt.Errorf("segment header says base offset %d, the name %d", h.base, base)
	}
	return h, nil
}

func segName(base Offset) string { return fmt.Sprintf("%0*d%s", nameSize, int64(base), segSuffix) }
func idxName(base Offset) string { return fmt.Sprintf("%0*d%s", nameSize, int64(base), idxSuffix) }

// parseName reads the offset in the name of a file with the suffix.
func parseName(name, suffix string) (Offset, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != nameSize {
		return 0, false
	}
	var n uint64
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
		next := n*10 + uint64(c-'0')
		if next < n || next > 1<<63-1 { // 20 digits may exceed an offset
			return 0, false
		}
		n = next
	}
	return Offset(n), true
}

// segment is one file of the log. Log.mu guards next, size and index of the active
// segment, and the holes of all; the rest does not change.
type segment struct {
	base  Offset
	check uint64  // of the header; 0 if that does not verify
	head  string  // why the header does not verify, or empty
	next  Offset  // behind the last record
	size  int64   // behind the last batch or hole
	index []entry // of the active segment, and of those that cannot have one on disk
	held  bool    // the index is this one, not the file's
	// holes are in the order of their positions. They are never changed in place.
	holes []hole
	// missing says that there is no file: the segment is one hole.
	missing bool
}

// end describes where a segment ends, for its index.
type segEnd struct {
	next     Offset
	size     int64
	term     batchfmt.Term
	lastTime int64 // append time of the last batch, Unix milliseconds
}

// isTmp reports whether a name is one that recovery or a roll gives to a file that it is
// still writing.
func isTmp(name string) bool {
	_, seg := parseName(name, segSuffix+tmpSuffix)
	_, idx := parseName(name, idxSuffix+tmpSuffix)
	return seg || idx
}
