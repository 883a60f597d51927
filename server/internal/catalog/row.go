package catalog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/quoin-io/quoin/batchfmt"
)

// A value of the catalog:
//
//	0  1  version   rowVersion
//	1  .  body      see appendTopic, appendProducer; or one big-endian number
//	.  4  crc       CRC32C of the key and of everything before this field, big endian
//
// The key is under the checksum, so a value that strayed to another key is noticed. Version and
// checksum stand there in every version, so that a row of a newer release is told from damage.
// A release that writes rows of another version also raises formatVersion: older ones then do
// not open the file at all, rather than to come upon such a row while they serve.
const (
	rowVersion  = 1
	rowOverhead = 1 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sealRow(key, body []byte) []byte {
	v := make([]byte, 0, len(body)+rowOverhead)
	v = append(v, rowVersion)
	v = append(v, body...)
	return binary.BigEndian.AppendUint32(v, rowSum(key, v))
}

// openRow returns the body, which aliases v.
func openRow(what string, key, v []byte) ([]byte, error) {
	if len(v) < rowOverhead {
		return nil, damaged(what, "%d bytes are too few", len(v))
	}
	head, sum := v[:len(v)-4], binary.BigEndian.Uint32(v[len(v)-4:])
	if got := rowSum(key, head); got != sum {
		return nil, damaged(what, "checksum is %08x, the bytes have %08x", sum, got)
	}
	if head[0] != rowVersion {
		return nil, &VersionError{Row: what, Found: uint32(head[0]), Known: rowVersion}
	}
	return head[1:], nil
}

func rowSum(key, head []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, head)
}

func damaged(what, format string, args ...any) error {
	return &DamagedError{What: what, Reason: fmt.Sprintf(format, args...)}
}

// A body that is one number, as for counters and for name -> producer id.
func numberBody(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func decodeNumber(what string, body []byte) (uint64, error) {
	if len(body) != 8 {
		return 0, damaged(what, "a number has %d bytes", len(body))
	}
	return binary.BigEndian.Uint64(body), nil
}

func pidKey(pid batchfmt.ProducerID) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(pid))
}

// The body of a topic; its key is the topic id:
//
//	0   8  created     Unix ms
//	8   4  partitions
//	12  4  max batch   bytes
//	16  1  flags       bit 0 strict; others zero
//	17  1  name length
//	18  .  name
const (
	topicFixed  = 18
	topicStrict = 1
)

func appendTopic(b []byte, t Topic) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(t.Created))
	b = binary.BigEndian.AppendUint32(b, uint32(t.Partitions))
	b = binary.BigEndian.AppendUint32(b, uint32(t.Config.MaxBatchBytes))
	var flags byte
	if t.Config.Strict {
		flags |= topicStrict
	}
	b = append(b, flags, byte(len(t.Name)))
	return append(b, t.Name...)
}

// decodeTopic checks what CreateTopic checked: a row is trusted no more than a request.
func decodeTopic(id TopicID, b []byte) (Topic, error) {
	const what = "topic row"
	if len(b) < topicFixed {
		return Topic{}, damaged(what, "%d bytes are too few", len(b))
	}
	flags, nameLen := b[16], int(b[17])
	if flags&^topicStrict != 0 {
		return Topic{}, damaged(what, "unknown flags %#x", flags)
	}
	if len(b) != topicFixed+nameLen {
		return Topic{}, damaged(what, "%d bytes, the name length calls for %d", len(b), topicFixed+nameLen)
	}
	t := Topic{
		ID:         id,
		Name:       string(b[topicFixed:]),
		Created:    int64(binary.BigEndian.Uint64(b)),
		Partitions: int32(binary.BigEndian.Uint32(b[8:])),
		Config: TopicConfig{
			MaxBatchBytes: int32(binary.BigEndian.Uint32(b[12:])),
			Strict:        flags&topicStrict != 0,
		},
	}
	if err := t.check(); err != nil {
		return Topic{}, damaged(what, "%v", err)
	}
	return t, nil
}

// The body of a producer; its key is the producer id, big endian:
//
//	0   1   kind       producerKind
//	1   4   epoch
//	5   16  key
//	21  16  instance
//	37  16  request    of the holder's last BumpEpoch; zeros for none
//	53  8   since      Unix ms
//	61  .   for kinds with a name: count of earlier instances (1), the instances
//	        (16 each, newest last), name length (1), name
const producerFixed = 61

type producerKind uint8

const (
	kindAnonymous  producerKind = 0
	kindNamed      producerKind = 1
	kindSuperseded producerKind = 2 // its epochs ran out; the name went on with another id
)

// maxEarlier bounds the earlier instances of a name that are remembered. One that is
// older than these and asks again counts as a new claim, as a restarted process would.
const maxEarlier = 16

type producerRow struct {
	kind     producerKind
	epoch    batchfmt.Epoch
	key      Key
	instance InstanceID
	request  RequestID
	since    int64
	earlier  []InstanceID
	name     string
}

func appendProducer(b []byte, r *producerRow) []byte {
	b = append(b, byte(r.kind))
	b = binary.BigEndian.AppendUint32(b, uint32(r.epoch))
	b = append(b, r.key[:]...)
	b = append(b, r.instance[:]...)
	b = append(b, r.request[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(r.since))
	if r.kind == kindAnonymous {
		return b
	}
	b = append(b, byte(len(r.earlier)))
	for i := range r.earlier {
		b = append(b, r.earlier[i][:]...)
	}
	b = append(b, byte(len(r.name)))
	return append(b, r.name...)
}

func decodeProducer(b []byte) (*producerRow, error) {
	const what = "producer row"
	if len(b) < producerFixed {
		return nil, damaged(what, "%d bytes are too few", len(b))
	}
	r := &producerRow{
		kind:     producerKind(b[0]),
		epoch:    batchfmt.Epoch(binary.BigEndian.Uint32(b[1:])),
		key:      Key(b[5:21]),
		instance: InstanceID(b[21:37]),
		request:  RequestID(b[37:53]),
		since:    int64(binary.BigEndian.Uint64(b[53:])),
	}
	rest := b[producerFixed:]
	switch r.kind {
	case kindAnonymous:
		if len(rest) != 0 {
			return nil, damaged(what, "%d bytes follow a producer without a name", len(rest))
		}
		return r, nil
	case kindNamed, kindSuperseded:
		return r, r.decodeNamed(what, rest)
	}
	return nil, damaged(what, "unknown kind %d", b[0])
}

func (r *producerRow) decodeNamed(what string, b []byte) error {
	if len(b) < 1 || int(b[0]) > maxEarlier || len(b) < 1+16*int(b[0])+1 {
		return damaged(what, "the list of earlier instances is cut or too long")
	}
	n := int(b[0])
	for i := range n {
		r.earlier = append(r.earlier, InstanceID(b[1+16*i:][:16]))
	}
	b = b[1+16*n:]
	if len(b) != 1+int(b[0]) {
		return damaged(what, "the name has %d bytes, its length says %d", len(b)-1, b[0])
	}
	r.name = string(b[1:])
	if err := CheckProducerName(r.name); err != nil {
		return damaged(what, "%v", err)
	}
	return nil
}
