package catalog

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"

	"github.com/quoin-io/quoin/batchfmt"
)

type (
	// Key is the secret that the holder of a producer id presents. Never log it.
	Key [16]byte
	// InstanceID is what an instance of a producer calls itself: 16 random bytes, made
	// once an instance. Who knows it gets the key, so it is a secret as well.
	InstanceID [16]byte
	// RequestID makes the repetition of a request recognisable: 16 random bytes a request.
	RequestID [16]byte
)

// String keeps the secret out of logs.
func (Key) String() string { return "(secret)" }

// GoString keeps the secret out of %#v.
func (Key) GoString() string { return "catalog.Key(secret)" }

// String keeps the secret out of logs.
func (InstanceID) String() string { return "(secret)" }

// GoString keeps the secret out of %#v.
func (InstanceID) GoString() string { return "catalog.InstanceID(secret)" }

// secret is the catalog's own random key, made with the file.
type secret [32]byte

// newKey makes a key of a producer id: 8 random bytes, then 8 bytes of
// HMAC-SHA256(secret, id, random). The stored key is compared in full, so a stranger
// has 128 bits to guess. The second half is there for keys that are not stored any
// more: genuine tells that a key was given out for this id, however many holders ago,
// and that makes the difference between "you are fenced" and "you are a stranger".
func (s *secret) newKey(pid batchfmt.ProducerID) Key {
	var k Key
	rand.Read(k[:8]) // never fails: the runtime ends the program if the system has no randomness
	copy(k[8:], s.tag(pid, k[:8]))
	return k
}

// genuine reports whether k is a key that newKey made for pid. Constant time.
func (s *secret) genuine(pid batchfmt.ProducerID, k Key) bool {
	return hmac.Equal(k[8:], s.tag(pid, k[:8]))
}

func (s *secret) tag(pid batchfmt.ProducerID, random []byte) []byte {
	m := hmac.New(sha256.New, s[:])
	m.Write(binary.BigEndian.AppendUint64(nil, uint64(pid)))
	m.Write(random)
	return m.Sum(nil)[:8]
}

// equal compares in constant time.
func (k Key) equal(o Key) bool { return subtle.ConstantTimeCompare(k[:], o[:]) == 1 }
