package seglog

// SegmentHeaderBytes is what stands in front of the batches of a segment file.
const SegmentHeaderBytes = segHeaderSize

// IsSegment reports whether b begins as a segment file does, whatever else it holds.
func IsSegment(b []byte) bool {
	return len(b) >= segHeaderSize && string(b[:4]) == segMagic
}
