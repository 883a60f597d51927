package batchfmt

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// ControlKind is what a control batch does to a lane.
type ControlKind uint8

const (
	// ControlFence raises the lowest epoch that the lane takes.
	ControlFence ControlKind = 1
	// ControlClose says that the producer has ended the lane.
	ControlClose ControlKind = 2
)

func (k ControlKind) String() string {
	switch k {
	case ControlFence:
		return "fence"
	case ControlClose:
		return "close"
	}
	return fmt.Sprintf("control(%d)", uint8(k))
}

// Control is what a control batch says about the lane of its producer. Its extension is
//
//	 0  1  kind             1 fence, 2 close
//	 1  1  position length  at most 64; 255 when there is no position
//	 2  2  reserved         zero
//	 4  4  min epoch        the lowest epoch that the lane takes from here on
//	 8  8  floor            first sequence of the lane's numbering
//	16  8  last             last sequence that is stored; -1 when there is none
//	24  .  position         of the last batch that had one
type Control struct {
	Kind     ControlKind
	MinEpoch Epoch
	Floor    Seq
	Last     Seq    // -1 at least
	Position []byte // nil is none; at most MaxPositionBytes
}

const (
	ctlKind        = 0
	ctlPositionLen = 1
	ctlReserved    = 2
	ctlMinEpoch    = 4
	ctlFloor       = 8
	ctlLast        = 16
	ctlPosition    = 24

	noPosition = 255
)

// AppendControl appends a sealed control batch to dst. Only a server writes them. It
// panics on a control that could not be parsed again (an unknown kind, no producer, a
// negative floor, a last sequence below -1, a position over MaxPositionBytes), because
// the server makes it from its own state.
func AppendControl(dst []byte, pid ProducerID, epoch Epoch, c Control) []byte {
	var data [ctlPosition + MaxPositionBytes]byte
	if len(c.Position) > MaxPositionBytes {
		panic("batchfmt: the position of a control batch is too long")
	}
	data[ctlKind] = byte(c.Kind)
	data[ctlPositionLen] = noPosition
	if c.Position != nil {
		data[ctlPositionLen] = byte(len(c.Position))
	}
	binary.LittleEndian.PutUint32(data[ctlMinEpoch:], uint32(c.MinEpoch))
	binary.LittleEndian.PutUint64(data[ctlFloor:], uint64(c.Floor))
	binary.LittleEndian.PutUint64(data[ctlLast:], uint64(c.Last))
	n := ctlPosition + copy(data[ctlPosition:], c.Position)

	exts := [1]Extension{{Type: ExtControl, Data: data[:n]}}
	s := Seal{Version: Version2, ProducerID: pid, Epoch: epoch}
	start := len(dst)
	dst = s.appendHeader(dst, exts[:], 0)
	b := dst[start:]
	binary.LittleEndian.PutUint32(b[offSize:], uint32(len(b)))
	binary.LittleEndian.PutUint16(b[offAttributes:], uint16(AttrControl))
	binary.LittleEndian.PutUint64(b[offChecksum:], xxhash.Sum64(b[offAttributes:]))
	if _, err := Parse(b); err != nil {
		panic("batchfmt: cannot write this control: " + err.Error())
	}
	return dst
}

// Control gives what a control batch says; Position aliases the batch. The error is a
// *FormatError when b is no control batch.
func (b Batch) Control() (Control, error) {
	if !b.IsControl() {
		return Control{}, fieldError("attributes", offAttributes, "this is no control batch")
	}
	data, ok := b.Extension(ExtControl)
	if !ok {
		return Control{}, fieldError("extension", HeaderSize2, "a control batch needs type %#04x", ExtControl)
	}
	return controlOf(data), nil
}

// controlOf reads data that checkControlData found good.
func controlOf(data []byte) Control {
	c := Control{
		Kind:     ControlKind(data[ctlKind]),
		MinEpoch: Epoch(binary.LittleEndian.Uint32(data[ctlMinEpoch:])),
		Floor:    Seq(binary.LittleEndian.Uint64(data[ctlFloor:])),
		Last:     Seq(binary.LittleEndian.Uint64(data[ctlLast:])),
	}
	if data[ctlPositionLen] != noPosition {
		c.Position = data[ctlPosition:]
	}
	return c
}

// checkControlData checks the data of a control extension that stand at off.
func checkControlData(data []byte, off int) error {
	if len(data) < ctlPosition {
		return fieldError("control", off, "%d bytes are too few, it has %d at least", len(data), ctlPosition)
	}
	kind := ControlKind(data[ctlKind])
	position, has := len(data)-ctlPosition, int(data[ctlPositionLen])
	if has == noPosition {
		has = 0
	}
	floor := int64(binary.LittleEndian.Uint64(data[ctlFloor:]))
	last := int64(binary.LittleEndian.Uint64(data[ctlLast:]))
	switch {
	case kind != ControlFence && kind != ControlClose:
		return newerError("control kind", off+ctlKind, "%d is not known", uint8(kind))
	case has > MaxPositionBytes:
		return fieldError("control position", off+ctlPositionLen, "%d bytes are over the limit, %d", has, MaxPositionBytes)
	case has != position:
		return fieldError("control position", off+ctlPositionLen, "is said to have %d bytes and has %d", has, position)
	case binary.LittleEndian.Uint16(data[ctlReserved:]) != 0:
		return fieldError("control reserved", off+ctlReserved, "is not zero")
	case floor < 0:
		return fieldError("control floor", off+ctlFloor, "%d is negative", floor)
	case last < -1:
		return fieldError("control last", off+ctlLast, "%d is below -1", last)
	}
	return nil
}

// checkControl checks the fields that a control batch must leave empty. Its extensions
// were checked before.
func (b Batch) checkControl() error {
	if b.Version() != Version2 {
		return fieldError("attributes", offAttributes, "a control batch has version 2, not %d", b.Version())
	}
	switch {
	case b.Attributes() != AttrControl:
		return fieldError("attributes", offAttributes, "a control batch has no codec and no timestamps")
	case b.u32(offRecordCount) != 0:
		return fieldError("record count", offRecordCount, "is %d in a control batch", b.u32(offRecordCount))
	case b.u64(offBaseTimestamp) != 0:
		return fieldError("base timestamp", offBaseTimestamp, "is not zero in a control batch")
	case b.u64(offMaxTimestamp) != 0:
		return fieldError("max timestamp", offMaxTimestamp, "is not zero in a control batch")
	case b.u32(offRecordsLength) != 0:
		return fieldError("records length", offRecordsLength, "is %d in a control batch", b.u32(offRecordsLength))
	case b.u64(offBaseSequence) != 0:
		return fieldError("base sequence", offBaseSequence, "is not zero in a control batch")
	case len(b.RecordSection()) != 0:
		return fieldError("size", offSize, "a control batch has no records, %d bytes are left", len(b.RecordSection()))
	}
	if _, ok := b.Extension(ExtControl); !ok {
		return fieldError("extension", HeaderSize2, "a control batch needs type %#04x", ExtControl)
	}
	return nil
}
