package wire

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/quoin-io/quoin/batchfmt"
)

// How many items of a list, or batches of a frame, a dump shows.
const (
	dumpItems     = 1000
	dumpItemsLine = 8
)

// Dump prints frames that stand one behind the other for people, one field a line. It
// prints what it can of frames that are cut off, damaged or of an unknown kind, and says
// in lines that begin with "!" what is wrong with them. Batches are told by their
// headers, records are not shown; secrets are hidden. The form may change in any release.
func Dump(frames []byte) string { return string(AppendDump(nil, frames)) }

// AppendDump appends what [Dump] prints to dst.
func AppendDump(dst, frames []byte) []byte {
	d := dumper{out: dst}
	d.frames(frames)
	return d.out
}

// DumpLine is [Dump] for logs: one line a frame, without the last line's end, and only
// the first items of lists.
func DumpLine(frames []byte) string {
	d := dumper{oneLine: true}
	d.frames(frames)
	return strings.TrimSuffix(string(d.out), "\n")
}

// DumpMessage is [DumpLine] for a message at hand: it prints what a peer would read. It
// encodes the message to that end, so a log should ask first whether anybody reads it.
func DumpMessage(m Message) string {
	if m == nil {
		return "no message"
	}
	return DumpLine(Append(nil, m))
}

// A dumper prints what a cursor sees.
type dumper struct {
	out     []byte
	oneLine bool
	lists   []dumpedList // around the field that is being printed
}

type dumpedList struct{ count, item int }

func (d *dumper) frames(b []byte) {
	for first := true; first || len(b) > 0; first = false {
		b = d.frame(b)
		if d.oneLine {
			d.out = append(d.out, '\n')
		}
	}
}

// frame prints the frame at the start of b and returns what stands behind it.
func (d *dumper) frame(b []byte) []byte {
	if len(b) < HeaderSize {
		d.title("no frame")
		d.complain("header", fmt.Sprintf("needs %d bytes, %d are there", HeaderSize, len(b)))
		return nil
	}
	size := binary.LittleEndian.Uint32(b)
	h, err := ParseHeader(b)
	d.title(fmt.Sprintf("%v (%d bytes)", h.Kind, size))
	if err != nil {
		d.complain(err.(*FrameError).Field, err.(*FrameError).Reason)
	}
	payload, rest := b[HeaderSize:], []byte(nil)
	switch {
	case uint64(size) > uint64(len(payload)):
		d.complain("payload", fmt.Sprintf("needs %d bytes, %d are there", size, len(payload)))
	default:
		payload, rest = payload[:size], payload[size:]
	}
	if row, known := kinds[h.Kind]; known {
		d.payload(row.make(), payload)
	} else if err == nil {
		d.note("optional, of a kind that is not known")
	}
	return rest
}

func (d *dumper) payload(m Message, payload []byte) {
	c := cursor{kind: m.Kind(), rest: payload, from: payload, sees: d.field}
	m.decode(&c)
	d.lists = d.lists[:0]
	if c.err != nil {
		d.complain(c.err.(*FrameError).Field, c.err.(*FrameError).Reason)
	} else if len(c.rest) > 0 {
		d.note(newerText(len(c.rest)))
	}
}

func newerText(n int) string { return fmt.Sprintf("%d bytes of a newer peer", n) }

// field is what a cursor calls.
func (d *dumper) field(name string, _ []byte, value any) {
	switch v := value.(type) {
	case dumpItem:
		d.item(int(v))
		return
	case dumpListEnd:
		d.listEnd()
		return
	case dumpItemBytes: // dumps are for people, who see where an item ends
		return
	case dumpNewer:
		if !d.muted() {
			d.note(newerText(int(v)))
		}
		return
	case dumpList:
		d.line(name, value)
		d.lists = append(d.lists, dumpedList{count: int(v)})
		return
	}
	d.line(name, value)
	if v, ok := value.(dumpBatches); ok && !d.muted() {
		d.batches(v)
	}
}

func (d *dumper) item(i int) {
	if d.oneLine && i > 0 && !d.muted() {
		d.out = append(d.out, ']')
	}
	d.lists[len(d.lists)-1].item = i
	switch {
	case d.muted():
	case d.oneLine:
		d.out = append(d.out, " ["...)
	default:
		d.indent(2 * len(d.lists))
		d.out = fmt.Appendf(d.out, "[%d]\n", i)
	}
}

func (d *dumper) listEnd() {
	list := d.lists[len(d.lists)-1]
	over := list.count - d.maxItems()
	// Whether the list itself may speak: only the lists around it count.
	d.lists = d.lists[:len(d.lists)-1]
	if d.muted() {
		return
	}
	if d.oneLine && list.count > 0 && over <= 0 {
		d.out = append(d.out, ']')
	}
	if over > 0 {
		d.lists = append(d.lists, dumpedList{})
		d.note(fmt.Sprintf("… and %d more", over))
		d.lists = d.lists[:len(d.lists)-1]
	}
}

func (d *dumper) maxItems() int {
	if d.oneLine {
		return dumpItemsLine
	}
	return dumpItems
}

// muted reports whether a list around the field has shown all the items that it may.
func (d *dumper) muted() bool {
	for _, list := range d.lists {
		if list.item >= d.maxItems() {
			return true
		}
	}
	return false
}

// batches tells batches by their headers.
func (d *dumper) batches(b []byte) {
	d.lists = append(d.lists, dumpedList{})
	for n := 0; len(b) > 0; n++ {
		if n == d.maxItems() {
			d.note(fmt.Sprintf("… and %d bytes more", len(b)))
			break
		}
		front, err := batchfmt.ParseFront(b)
		if err == nil && front.Size > len(b) {
			_, err = batchfmt.Parse(b)
		}
		if err != nil {
			d.complain("batch", strings.TrimPrefix(err.Error(), "batch: "))
			break
		}
		d.note(batchText(front, b[:front.Size]))
		b = b[front.Size:]
	}
	d.lists = d.lists[:len(d.lists)-1]
}

func batchText(front batchfmt.Front, b []byte) string {
	batch, err := batchfmt.Parse(b)
	if err != nil {
		return fmt.Sprintf("batch of version %d, %d bytes: %s", front.Version, front.Size, strings.TrimPrefix(err.Error(), "batch: "))
	}
	var t strings.Builder
	fmt.Fprintf(&t, "batch of version %d, %d bytes, %d records, codec %v", front.Version, front.Size, batch.RecordCount(), batch.Codec())
	if batch.Version() >= batchfmt.Version2 {
		fmt.Fprintf(&t, ", producer %d, epoch %d, sequences %d to %d",
			batch.ProducerID(), batch.Epoch(), batch.BaseSequence(), batch.LastSequence())
	}
	if batch.AppendTime() != 0 {
		fmt.Fprintf(&t, ", offsets %d to %d, appended %v, term %d",
			batch.BaseOffset(), batch.NextOffset()-1, dumpMoment(batch.AppendTime()), batch.Term())
	}
	fmt.Fprintf(&t, ", digest %016x", uint64(batch.Digest()))
	if batch.Verify() != nil {
		t.WriteString(", which is not that of its bytes")
	}
	return t.String()
}

func (d *dumper) indent(depth int) {
	for range 2 * depth {
		d.out = append(d.out, ' ')
	}
}

func (d *dumper) title(text string) {
	d.out = append(d.out, text...)
	if !d.oneLine {
		d.out = append(d.out, '\n')
	}
}

// line prints a field. The names of fields have spaces, which would make fields on one
// line run into each other.
func (d *dumper) line(name string, value any) {
	if d.muted() {
		return
	}
	if !d.oneLine {
		d.indent(2*len(d.lists) + 1)
		d.out = fmt.Appendf(d.out, "%s: %s\n", name, dumpText(value))
		return
	}
	if d.out[len(d.out)-1] != '[' {
		d.out = append(d.out, ' ')
	}
	d.out = fmt.Appendf(d.out, "%s=%s", strings.ReplaceAll(name, " ", "-"), dumpText(value))
}

// note prints what is no field, complain what is wrong.
func (d *dumper) note(text string) {
	if d.oneLine {
		d.out = fmt.Appendf(d.out, " (%s)", text)
		return
	}
	d.indent(2*len(d.lists) + 1)
	d.out = append(append(d.out, text...), '\n')
}

func (d *dumper) complain(field, reason string) {
	if d.oneLine {
		d.out = fmt.Appendf(d.out, " !(%s: %s)", field, reason)
		return
	}
	d.out = fmt.Appendf(d.out, "! %s: %s\n", field, reason)
}
