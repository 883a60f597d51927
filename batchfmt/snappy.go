package batchfmt

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/klauspost/compress/snappy"
)

// Java's snappy library does not write a raw block but a stream of blocks, which Kafka's
// Java clients put into their batches:
//
//	 0  8  magic       82 "SNAPPY" 00
//	 8  4  version     big-endian; 1 so far
//	12  4  compatible  the lowest version that a reader needs; 1 so far
//	16  .  blocks      length, big-endian, then one raw block
//
// A raw block cannot start with the magic: its first element would be a copy from
// before its start.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const (
	xerialHeaderBytes = 16
	xerialVersion     = 1
)

var errXerial = errors.New("the xerial framing is damaged")

// unsnappy fills dst exactly from a raw block or a xerial stream.
func unsnappy(dst, section []byte) error {
	if !bytes.HasPrefix(section, xerialMagic) {
		n, err := unsnappyBlock(dst, section)
		if err == nil && n < len(dst) {
			return errTooShort
		}
		return err
	}
	if len(section) < xerialHeaderBytes {
		return errXerial
	}
	if v := binary.BigEndian.Uint32(section[8:]); v < xerialVersion {
		return errXerial
	}
	if v := binary.BigEndian.Uint32(section[12:]); v > xerialVersion {
		return errors.New("the xerial framing is of a version that is not known")
	}
	for rest := section[xerialHeaderBytes:]; len(rest) > 0; {
		if len(rest) < 4 {
			return errXerial
		}
		size := binary.BigEndian.Uint32(rest)
		rest = rest[4:]
		if uint64(size) > uint64(len(rest)) {
			return errXerial
		}
		n, err := unsnappyBlock(dst, rest[:size])
		if err != nil {
			return err
		}
		dst, rest = dst[n:], rest[size:]
	}
	if len(dst) > 0 {
		return errTooShort
	}
	return nil
}

// unsnappyBlock decodes one raw block to the start of dst and says how long it was. It
// refuses the extensions that s2 has over snappy, because other readers of the batch
// would not know them.
func unsnappyBlock(dst, block []byte) (int, error) {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return 0, err
	}
	if n > len(dst) {
		return 0, errTooLong
	}
	if _, err := snappy.DecodeStrict(dst[:n:n], block); err != nil {
		return 0, err
	}
	return n, nil
}
