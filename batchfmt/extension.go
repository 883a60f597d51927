package batchfmt

import "encoding/binary"

// Types of extensions. A type with ExtCritical set must be known to whoever reads the
// batch; others are stepped over.
const (
	ExtCritical uint16 = 0x8000

	// ExtPosition holds at most MaxPositionBytes that the application stores with the
	// batch, such as the offset in its source.
	ExtPosition uint16 = 1
	// ExtControl is what a control batch is about: see [Control].
	ExtControl uint16 = 0x8003
)

// An Extension is an optional part of the header of a version-2 batch:
//
//	0  2  type    1 at least
//	2  2  length  of the data
//	4  .  data
//	.  .  zeros   up to a multiple of 8 bytes
//
// Extensions stand by strictly ascending type, so that none is there twice and every
// set of extensions has one encoding.
type Extension struct {
	Type uint16
	Data []byte
}

const extHeaderBytes = 4

// extensionBytes is the encoded length of an extension with n bytes of data.
func extensionBytes(n int) int { return (extHeaderBytes + n + 7) &^ 7 }

// appendExtensions appends extensions that are sorted by type.
func appendExtensions(dst []byte, exts []Extension) []byte {
	for i := range exts {
		e := &exts[i]
		end := len(dst) + extensionBytes(len(e.Data))
		dst = binary.LittleEndian.AppendUint16(dst, e.Type)
		dst = binary.LittleEndian.AppendUint16(dst, uint16(len(e.Data)))
		dst = append(dst, e.Data...)
		for len(dst) < end {
			dst = append(dst, 0)
		}
	}
	return dst
}

// Extension gives the data of the extension of type t, which alias the batch. Empty
// data are not nil.
func (b Batch) Extension(t uint16) ([]byte, bool) {
	for e := b.extensionBytes(); len(e) > 0; {
		typ, data, next, err := splitExtension(e, 0)
		if err != nil || typ > t {
			return nil, false
		}
		if typ == t {
			return data, true
		}
		e = e[next:]
	}
	return nil, false
}

// Position is what the application stored with the batch; nil if it stored nothing.
func (b Batch) Position() []byte {
	p, _ := b.Extension(ExtPosition)
	return p
}

// splitExtension reads the extension at the start of e, which stands at off in its
// batch, and says where the next one starts.
func splitExtension(e []byte, off int) (typ uint16, data []byte, next int, err error) {
	if len(e) < extHeaderBytes {
		return 0, nil, 0, fieldError("extension", off, "%d bytes are too few for one", len(e))
	}
	typ = binary.LittleEndian.Uint16(e)
	n := int(binary.LittleEndian.Uint16(e[2:]))
	next = extensionBytes(n)
	if next > len(e) {
		return 0, nil, 0, fieldError("extension", off, "type %#04x has %d bytes, %d are left", typ, n, len(e)-extHeaderBytes)
	}
	end := extHeaderBytes + n
	for i := end; i < next; i++ {
		if e[i] != 0 {
			return 0, nil, 0, fieldError("extension", off+i, "the padding of type %#04x is not zero", typ)
		}
	}
	return typ, e[extHeaderBytes:end:end], next, nil
}

// checkExtensions holds every extension to its layout and refuses what a reader must
// know and does not.
func (b Batch) checkExtensions() error {
	all := b.extensionBytes()
	var last uint16
	for pos := 0; pos < len(all); {
		off := HeaderSize2 + pos
		typ, data, next, err := splitExtension(all[pos:], off)
		switch {
		case err != nil:
			return err
		case typ == 0:
			return fieldError("extension", off, "type 0 is not a type")
		case typ == last:
			return fieldError("extension", off, "type %#04x is there twice", typ)
		case typ < last:
			return fieldError("extension", off, "type %#04x stands behind %#04x, types must ascend", typ, last)
		}
		if err := b.checkExtension(typ, data, off); err != nil {
			return err
		}
		last = typ
		pos += next
	}
	return nil
}

func (b Batch) checkExtension(typ uint16, data []byte, off int) error {
	switch {
	case typ == ExtPosition && b.IsControl():
		return fieldError("extension", off, "a control batch has its position in the control extension")
	case typ == ExtPosition && len(data) > MaxPositionBytes:
		return fieldError("extension", off, "a position of %d bytes is over the limit, %d", len(data), MaxPositionBytes)
	case typ == ExtControl && !b.IsControl():
		return fieldError("extension", off, "only a control batch carries type %#04x", typ)
	case typ == ExtControl:
		return checkControlData(data, off+extHeaderBytes)
	case typ&ExtCritical != 0:
		return newerError("extension", off, "type %#04x is critical and not known", typ)
	}
	return nil
}
