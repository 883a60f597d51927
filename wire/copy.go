package wire

import "encoding/binary"

// FeatureCopies is the bit of Hello and HelloOK for [Copy]. A peer that sets it reads copies
// that come as QUIC datagrams (RFC 9221); where both did, either may send them.
const FeatureCopies uint64 = 1 << 0

// CopyHead is the size of what stands before the frame in a copy.
const CopyHead = 17

// copyOfFrame is the first byte of a copy. A datagram that begins with anything else is for
// a peer that knows it, and is ignored.
const copyOfFrame = 1

// Copy is a second copy of a frame of a lane stream. It travels as a datagram of its own, so
// that a packet that is lost costs nobody the time to notice and to repeat it: the frame is
// there already. The stream carries every frame all the same, and a copy only brings a frame
// forward whose turn it is.
//
//	 0  1  what     1: a copy of a frame
//	 1  8  stream   the number that QUIC gave to the stream
//	 9  8  at       how many bytes stand before the frame on its stream, in its direction
//	17  .  frame    whole: header and payload
//
// A reader takes the frame if it begins where the last one ended that was taken, from the
// stream or as a copy; then it steps over the one that the stream brings. It ignores copies
// of streams that it does not know, of frames whose turn has been or is not yet, and what it
// cannot read: a copy has no answer of its own and ends nothing. Bytes are counted and not
// frames, as optional frames of a newer peer are stepped over without being known.
type Copy struct {
	Stream uint64
	At     uint64
	Frame  []byte
}

// AppendCopy appends the datagram of c.
func AppendCopy(b []byte, c Copy) []byte {
	b = append(b, copyOfFrame)
	b = binary.LittleEndian.AppendUint64(b, c.Stream)
	b = binary.LittleEndian.AppendUint64(b, c.At)
	return append(b, c.Frame...)
}

// ParseCopy reads a datagram. Its Frame is part of b, and holds exactly one frame of a kind
// that this package knows: h is its header, and what follows [HeaderSize] its payload. The
// error is a *FrameError.
func ParseCopy(b []byte) (c Copy, h Header, err error) {
	if len(b) < CopyHead+HeaderSize {
		return c, h, &FrameError{Field: "copy", Reason: "is shorter than its head"}
	}
	if b[0] != copyOfFrame {
		return c, h, &FrameError{Field: "copy", Reason: "is not of a frame"}
	}
	c.Stream = binary.LittleEndian.Uint64(b[1:])
	c.At = binary.LittleEndian.Uint64(b[9:])
	c.Frame = b[CopyHead:]
	if h, err = ParseHeader(c.Frame); err != nil {
		return c, h, err
	}
	if _, known := kinds[h.Kind]; !known { // an optional one: the stream steps over it
		return c, h, &FrameError{Kind: h.Kind, Field: "kind", Reason: "is not known, and optional"}
	}
	if h.Size != len(c.Frame)-HeaderSize {
		return c, h, &FrameError{Kind: h.Kind, Field: "copy", Reason: "does not hold its frame exactly"}
	}
	return c, h, nil
}
