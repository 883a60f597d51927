package outbox

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	segmentSuffix = ".outbox"
	// maxNumber bounds the number of a segment: ids begin with it.
	maxNumber = 1 << 31
)

// segment is one file of the log.
type segment struct {
	segmentHeader
	name       string // base name
	f          file   // nil once it is closed to be removed
	entryStamp uint64
	size       int64 // where the next entry goes, or the length of one that is only read
	live       int64 // bytes of entries that must not be removed
	notes      int   // sync notes written
	begun      bool  // the lanes that it starts with are written
	headEnds   int64 // behind them
	synced     int64 // position of the last sync note that is durable
}

func segmentName(number, salt uint64) string {
	return fmt.Sprintf("%016x-%016x%s", number, salt, segmentSuffix)
}

// parseSegmentName is the inverse of segmentName.
func parseSegmentName(name string) (number, salt uint64, ok bool) {
	hex, found := strings.CutSuffix(name, segmentSuffix)
	if !found || len(hex) != 33 || hex[16] != '-' {
		return 0, 0, false
	}
	number, err := strconv.ParseUint(hex[:16], 16, 64)
	if err != nil {
		return 0, 0, false
	}
	salt, err = strconv.ParseUint(hex[17:], 16, 64)
	return number, salt, err == nil && number < maxNumber && segmentName(number, salt) == name
}

// heading is what the fixed part of a segment says.
type heading struct {
	header  segmentHeader
	intact  bool // at least one copy of the header is
	synced  int64
	damages []Damage
}

// readHeading reads the fixed part b, which may be cut short. fallback is what the header
// must be when no copy of it is intact.
func readHeading(name string, b []byte, fallback segmentHeader) (h heading, err error) {
	h.header = fallback
	part := func(from, n int) []byte { return b[min(from, len(b)):min(from+n, len(b))] }
	first, second := part(firstHeader, headerBytes), part(secondHeader, headerBytes)
	one, oneOK := decodeHeader(first)
	two, twoOK := decodeHeader(second)
	switch {
	case oneOK:
		h.header = one
	case twoOK:
		h.header = two
	default:
		for _, version := range []uint32{versionOf(first), versionOf(second)} {
			if version != 0 && version != formatVersion {
				return h, &VersionError{File: name, Version: version}
			}
		}
	}
	h.intact = oneOK || twoOK
	damage := func(at, n int64, reason string) {
		h.damages = append(h.damages, Damage{File: name, Offset: at, Bytes: n, Reason: reason, Loss: LossNone})
	}
	stamp := h.header.stamp()
	oneAt, oneNote := decodeNote(part(firstNote, noteBytes), stamp)
	twoAt, twoNote := decodeNote(part(secondNote, noteBytes), stamp)
	h.synced = max(oneAt, twoAt, 0)
	if h.synced > 0 && !oneOK {
		damage(firstHeader, headerBytes, "the first copy of the header is not intact")
	}
	if h.synced > 0 && !twoOK {
		damage(secondHeader, headerBytes, "the second copy of the header is not intact")
	}
	if !oneNote {
		damage(firstNote, noteBytes, "a sync note is not intact")
	}
	if !twoNote {
		damage(secondNote, noteBytes, "a sync note is not intact")
	}
	return h, nil
}

// encodeFront is the fixed part of a new segment.
func (s *segment) encodeFront() []byte {
	b := make([]byte, dataStart)
	header := s.encode()
	copy(b[firstHeader:], header)
	copy(b[secondHeader:], header)
	return b
}

// note writes that everything is durable up to the end. It only tells a torn write from
// damage, so that one which fails changes nothing.
func (s *segment) note() error {
	at := int64(firstNote)
	if s.notes%2 == 1 {
		at = secondNote
	}
	s.notes++
	_, err := s.f.WriteAt(encodeNote(s.size, s.entryStamp), at)
	return err
}
