package reader1

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

const (
	codecNone   = 0
	codecGzip   = 1
	codecSnappy = 2
	codecZstd   = 4
)

var (
	errLength = errors.New("decompresses to another length than the records length")
	errCodec  = errors.New("the codec is not known")
	errFrames = errors.New("the framing of the blocks is damaged or not known")
)

// decompress gives the records of a batch whose header was checked. It takes no more memory
// for them than the header claims, which is limited.
func decompress(b []byte) ([]byte, error) {
	stored := b[headerSize:]
	length := int(binary.LittleEndian.Uint32(b[offRecordsLength:]))
	section, err := stored, error(nil)
	switch binary.LittleEndian.Uint16(b[offAttributes:]) & attrCodec {
	case codecNone:
	case codecGzip:
		section, err = gunzip(stored, length)
	case codecSnappy:
		section, err = unsnappy(stored, length)
	case codecZstd:
		section, err = unzstd(stored, length)
	default:
		return nil, corrupt("attributes", offAttributes, "%v", errCodec)
	}
	if err != nil {
		return nil, corrupt("records", headerSize, "%v", err)
	}
	return section, nil
}

func gunzip(stored []byte, length int) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(stored))
	if err != nil {
		return nil, err
	}
	section := make([]byte, length)
	if _, err := io.ReadFull(z, section); err != nil {
		return nil, err
	}
	// Only the end of the stream checks its checksum.
	switch _, err := io.ReadFull(z, make([]byte, 1)); err {
	case io.EOF:
		return section, nil
	case nil:
		return nil, errLength
	default:
		return nil, err
	}
}

func unzstd(stored []byte, length int) ([]byte, error) {
	const slack = 32 // behind the records, for a decoder that copies in steps
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(maxRecordsLength+slack), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	section, err := z.DecodeAll(stored, make([]byte, 0, length+slack))
	if err == nil && len(section) != length {
		err = errLength
	}
	return section, err
}

// xerial is how a stream of Java's snappy library begins. It goes on with two numbers, its
// version and the lowest one that a reader needs, and with blocks behind their lengths, all
// of them big-endian.
const xerial = "\x82SNAPPY\x00"

// unsnappy reads one raw block or a stream of blocks.
func unsnappy(stored []byte, length int) ([]byte, error) {
	section := make([]byte, 0, length)
	if !bytes.HasPrefix(stored, []byte(xerial)) {
		return unblock(section, stored, length)
	}
	rest := stored[len(xerial):]
	if len(rest) < 8 || binary.BigEndian.Uint32(rest) < 1 || binary.BigEndian.Uint32(rest[4:]) > 1 {
		return nil, errFrames
	}
	for rest = rest[8:]; len(rest) > 0; {
		if len(rest) < 4 {
			return nil, errFrames
		}
		n := binary.BigEndian.Uint32(rest)
		if rest = rest[4:]; uint64(n) > uint64(len(rest)) {
			return nil, errFrames
		}
		block, err := snappy.DecodedLen(rest[:n])
		if err != nil {
			return nil, err
		}
		if section, err = unblock(section, rest[:n], len(section)+block); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	if len(section) != length {
		return nil, errLength
	}
	return section, nil
}

// unblock appends a raw block, after which the section has as many bytes as it is said.
func unblock(section, block []byte, length int) ([]byte, error) {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return nil, err
	}
	have := len(section)
	if n != length-have || length > cap(section) {
		return nil, errLength
	}
	_, err = snappy.DecodeStrict(section[have:length:length], block)
	return section[:length], err
}
