package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// A position is where reading goes on: in which file, and behind which byte. It is stored as
// follows, numbers big-endian:
//
//	 0  1  version, 1
//	 1  8  device    } 0 where a file has none
//	 9  8  inode     }
//	17  4  generation: how often a truncation was seen, so that positions never come again
//	21  8  time of the last write when the line was read, nanoseconds from 1970
//	29  8  offset behind the line
//	37  2  how many bytes of the beginning are hashed: 1024, or offset if that is less
//	39 16  the first half of their SHA-256
type position struct {
	id         identity
	generation uint32
	written    int64
	offset     int64
	prefix     prefix
}

const (
	positionVersion = 1
	positionBytes   = 55
	maxPrefix       = 1024 // bytes of the beginning of a file that are hashed
)

// A prefix is what is known of the beginning of a file.
type prefix struct {
	bytes uint16 // maxPrefix, or what was read if that is less: it does not change any more
	hash  [16]byte
}

// An identity is what a file keeps over renames. It is zero where the system has none.
type identity struct{ device, inode uint64 }

func (p *position) encode() []byte {
	b := make([]byte, 0, positionBytes)
	b = append(b, positionVersion)
	b = binary.BigEndian.AppendUint64(b, p.id.device)
	b = binary.BigEndian.AppendUint64(b, p.id.inode)
	b = binary.BigEndian.AppendUint32(b, p.generation)
	b = binary.BigEndian.AppendUint64(b, uint64(p.written))
	b = binary.BigEndian.AppendUint64(b, uint64(p.offset))
	b = binary.BigEndian.AppendUint16(b, p.prefix.bytes)
	return append(b, p.prefix.hash[:]...)
}

// parsePosition reads what encode wrote. It comes from the server, and anybody may have sent
// it there under this name.
func parsePosition(b []byte) (*position, error) {
	if len(b) != positionBytes || b[0] != positionVersion {
		return nil, fmt.Errorf("the position %.64q was not stored by tailfile", b)
	}
	offset := binary.BigEndian.Uint64(b[29:])
	p := &position{
		id:         identity{binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint64(b[9:])},
		generation: binary.BigEndian.Uint32(b[17:]),
		written:    int64(binary.BigEndian.Uint64(b[21:])),
		offset:     int64(offset),
		prefix:     prefix{bytes: binary.BigEndian.Uint16(b[37:])},
	}
	copy(p.prefix.hash[:], b[39:])
	if offset > math.MaxInt64 || int64(p.prefix.bytes) != min(p.offset, maxPrefix) {
		return nil, fmt.Errorf("the position %q was not stored by tailfile: %d bytes in front of offset %d are hashed", b, p.prefix.bytes, offset)
	}
	return p, nil
}

// prefixOf hashes the beginning of a file, as far as it was read.
func prefixOf(head []byte) prefix {
	p := prefix{bytes: uint16(len(head))}
	sum := sha256.Sum256(head)
	copy(p.hash[:], sum[:])
	return p
}

// headOf reads the first n bytes of a file, or what there is.
func headOf(r io.ReaderAt, n uint16) ([]byte, error) {
	head := make([]byte, n)
	read, err := r.ReadAt(head, 0)
	if err == io.EOF {
		err = nil
	}
	return head[:read], err
}
