package batchfmt

import "encoding/binary"

// SequenceOf reads the base sequence from the bytes of what should be a version-2 batch,
// so that a refusal can name its subject although the rest is damaged or not there. It
// returns -1 when b cannot have one. What it returns is a hint: nothing was checked.
func SequenceOf(b []byte) Seq {
	if len(b) < HeaderSize2 || Version(b[offVersion]) != Version2 {
		return -1
	}
	return max(-1, Seq(binary.LittleEndian.Uint64(b[offBaseSequence:])))
}
