package seglog

import (
	"fmt"

	"github.com/quoin-io/quoin/server/internal/planted"
)

// verdict is what becomes of the last segment.
type verdict struct {
	holes   []hole
	end     segEnd // where the log ends
	entries []entry
	cut     string // why what stands behind the end goes; empty if there is nothing
}

// judge decides about each bad place of the last segment, in order. durable is the offset
// below which all is known to have been synced, size that of the file.
//
//	bad place below durable, a good batch behind it   hole, up to that batch
//	bad place below durable, nothing good behind it   hole, up to durable and the end of the file
//	the batches end below durable, only zeros follow  the same
//	bad place at or above durable                     the end: torn, whatever stands behind it
//	no bad place is left                              the end
func judge(w walked, durable Offset, size int64) verdict {
	if planted.CutDespiteDurable {
		durable = 0
	}
	v := verdict{end: w.end, entries: w.entries, cut: w.bad}
	for _, g := range w.gaps {
		if g.at.next >= durable {
			v.end, v.entries, v.cut = g.at, w.entries[:g.entries], g.reason
			return v
		}
		v.holes = append(v.holes, g.hole())
	}
	if w.end.next < durable {
		h := hole{from: w.end.next, next: durable, pos: w.end.size, end: max(size, w.end.size), reason: w.bad}
		if h.reason == "" {
			h.reason = fmt.Sprintf("the batches end at offset %d, and offsets below %d were synced", w.end.next, durable)
		}
		v.holes, v.end, v.cut = append(v.holes, h), h.behind(w.end), ""
	}
	return v
}
