package credentials

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	resetFile = "reset.key"
	tokenFile = "token.key"

	resetType = "QUOIN STATELESS RESET KEY"
	tokenType = "QUOIN TOKEN KEY"
)

// A secret file is one PEM block; its bytes:
//
//	0   32  key
//	32  4   crc   CRC32C of the key, big endian
const secretBytes = 32

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// secret reads a key, or makes it.
func (s *store) secret(name, blockType string) (key [secretBytes]byte, err error) {
	b, err := s.read(name)
	if missing(err) {
		rand.Read(key[:])
		return key, s.write(name, formatSecret(blockType, key))
	}
	if err != nil {
		return key, err
	}
	key, err = parseSecret(blockType, b)
	if err != nil {
		return key, &FileError{
			Path: s.path(name), Reason: err.Error(), Kind: ErrDamaged,
			Remedy: "restore it from a backup, or remove it to have a new one made (clients then notice one restart late or validate their address again)",
		}
	}
	return key, nil
}

func formatSecret(blockType string, key [secretBytes]byte) []byte {
	b := binary.BigEndian.AppendUint32(key[:], crc32.Checksum(key[:], castagnoli))
	return pem.EncodeToMemory(&pem.Block{Type: blockType, Bytes: b})
}

// parseSecret takes exactly what formatSecret makes.
func parseSecret(blockType string, b []byte) (key [secretBytes]byte, err error) {
	block, rest := pem.Decode(b)
	switch {
	case block == nil:
		return key, errors.New("holds no complete PEM block")
	case block.Type != blockType:
		return key, fmt.Errorf("holds a %q, not a %q", block.Type, blockType)
	case len(block.Bytes) != secretBytes+4:
		return key, fmt.Errorf("holds %d bytes, not %d", len(block.Bytes), secretBytes+4)
	case crc32.Checksum(block.Bytes[:secretBytes], castagnoli) != binary.BigEndian.Uint32(block.Bytes[secretBytes:]):
		return key, errors.New("its checksum does not agree")
	case len(bytes.TrimSpace(rest)) != 0:
		return key, errors.New("has bytes behind the key")
	}
	return [secretBytes]byte(block.Bytes), nil
}
