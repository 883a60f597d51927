package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
)

// What cursors show in place of a plain value, for the sake of dumpText.
type (
	dumpMoment    int64           // Unix milliseconds
	dumpPlace     batchfmt.Offset // or FromEarliest, FromLatest
	dumpToken     [16]byte
	dumpBatches   []byte
	dumpList      int // how many items
	dumpItem      int // which item begins
	dumpListEnd   struct{}
	dumpNewer     int    // bytes at the end of an item that a newer peer has put there
	dumpItemBytes uint32 // the length in front of an item
	dumpFlags     struct {
		bits  uint8
		names []string
	}
)

func dumpText(value any) string {
	switch v := value.(type) {
	case string:
		return strconv.Quote(v)
	case [16]byte:
		if v == ([16]byte{}) {
			return "none"
		}
		return fmt.Sprintf("%x", v)
	case []byte:
		if len(v) == 0 {
			return "none"
		}
		return fmt.Sprintf("%x (%d bytes)", v, len(v))
	case batchfmt.Digest:
		return fmt.Sprintf("%016x", uint64(v))
	case dumpBatches:
		return fmt.Sprintf("%d bytes", len(v))
	case dumpToken:
		if v == (dumpToken{}) {
			return "none"
		}
		return fmt.Sprintf("%x… (%d bytes, the rest hidden)", v[:4], len(v))
	}
	return fmt.Sprint(value)
}

// String leaves numbers alone that are hardly meant as a time of our age.
func (m dumpMoment) String() string {
	const year10000 = 253402300800000
	if m <= 0 || m >= year10000 {
		return strconv.FormatInt(int64(m), 10)
	}
	return time.UnixMilli(int64(m)).UTC().Format("2006-01-02T15:04:05.000Z")
}

func (p dumpPlace) String() string {
	switch batchfmt.Offset(p) {
	case FromEarliest:
		return "earliest"
	case FromLatest:
		return "latest"
	}
	return strconv.FormatInt(int64(p), 10)
}

func (f dumpFlags) String() string {
	var set []string
	for i, name := range f.names {
		if f.bits&(1<<i) != 0 {
			set = append(set, strings.ReplaceAll(name, " ", "-"))
		}
	}
	if set == nil {
		return "none"
	}
	return strings.Join(set, "+")
}
