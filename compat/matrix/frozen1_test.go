package matrix

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"
)

// This file is the first release as far as both ends of the matrix need it: how it read frames
// and batches, by offsets. It is frozen: TestDecoderIsFrozen holds its checksum. It imports
// nothing of this module, so that whatever moves in a layout of today is noticed here.

const (
	frameHead = 8
	maxFrame  = 17 << 20 // bytes of a payload
)

// Kinds of frames.
const (
	kindHello           = 1
	kindHelloOK         = 2
	kindRefused         = 3
	kindError           = 4
	kindPing            = 5
	kindPong            = 6
	kindInitProducer    = 16
	kindProducerInited  = 17
	kindOpenLane        = 18
	kindLaneOpened      = 19
	kindProduce         = 21
	kindProduceResults  = 22
	kindCloseProducer   = 25
	kindProducerClosed  = 26
	kindSubscribe       = 32
	kindSubscribed      = 33
	kindBatches         = 34
	kindCredit          = 35
	kindEndReached      = 36
	kindCreateTopic     = 48
	kindTopicCreated    = 49
	kindDescribeTopics  = 52
	kindTopicsDescribed = 53

	optionalKind = 1 << 15 // marks those that are stepped over when they are not known
)

// Codes of errors.
const (
	codeUnsupportedVersion      = 3
	codeUnknownKind             = 7
	codeBatchVersionUnsupported = 28
)

type frame struct {
	kind    uint16
	payload []byte
}

// readFrame reads the next frame that is not optional; of those none was known.
func readFrame(r io.Reader) (frame, error) {
	for {
		var head [frameHead]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return frame{}, err
		}
		size := binary.LittleEndian.Uint32(head[0:])
		f := frame{kind: binary.LittleEndian.Uint16(head[4:])}
		if flags := binary.LittleEndian.Uint16(head[6:]); flags != 0 || size > maxFrame {
			return f, fmt.Errorf("a frame of kind %d with %d bytes and flags %#x", f.kind, size, flags)
		}
		f.payload = make([]byte, size)
		if _, err := io.ReadFull(r, f.payload); err != nil {
			return f, err
		}
		if f.kind&optionalKind == 0 {
			return f, nil
		}
	}
}

// want gives the fields of a frame that must be of a kind.
func (f frame) want(kind uint16) *fields {
	if f.kind != kind {
		return &fields{err: fmt.Errorf("a frame of kind %d where %d was due: %x", f.kind, kind, f.payload)}
	}
	return &fields{b: f.payload}
}

// Fields are read one after the other; the first error stays. What is left at the end is of a
// newer peer.
type fields struct {
	b   []byte
	err error
}

func (f *fields) take(n int) []byte {
	if f.err == nil && n > len(f.b) {
		f.err = fmt.Errorf("%d bytes are due, %d are there", n, len(f.b))
	}
	if f.err != nil {
		return make([]byte, min(n, 16))
	}
	b := f.b[:n:n]
	f.b = f.b[n:]
	return b
}

func (f *fields) u8() uint8    { return f.take(1)[0] }
func (f *fields) u16() uint16  { return binary.LittleEndian.Uint16(f.take(2)) }
func (f *fields) u32() uint32  { return binary.LittleEndian.Uint32(f.take(4)) }
func (f *fields) i32() int32   { return int32(f.u32()) }
func (f *fields) u64() uint64  { return binary.LittleEndian.Uint64(f.take(8)) }
func (f *fields) i64() int64   { return int64(f.u64()) }
func (f *fields) id() [16]byte { return [16]byte(f.take(16)) }

func (f *fields) text() string  { return string(f.sized(int(f.u16()))) }
func (f *fields) bytes() []byte { return f.sized(int(f.u32())) }

func (f *fields) sized(n int) []byte {
	b := f.take(n)
	if f.err != nil {
		return nil
	}
	return b
}

// flags refuses bits that had no name.
func (f *fields) flags(known uint8) uint8 {
	v := f.u8()
	if v&^known != 0 && f.err == nil {
		f.err = fmt.Errorf("flags %#x, known are %#x", v, known)
	}
	return v
}

// item reads what has its length in front.
func (f *fields) item(b []byte, read func(*fields)) {
	in := &fields{b: b, err: f.err}
	read(in)
	if f.err == nil {
		f.err = in.err
	}
}

// list reads a count and calls read so often, up to the first error.
func (f *fields) list(read func()) {
	for n := f.u32(); n > 0 && f.err == nil; n-- {
		read()
	}
}

type hello struct {
	minProtocol, maxProtocol uint16
	versions                 []byte
	features                 uint64
	name, version            string
	session                  [16]byte
}

func (f frame) hello() (h hello, err error) {
	in := f.want(kindHello)
	h.minProtocol, h.maxProtocol = in.u16(), in.u16()
	h.versions = in.bytes()
	h.features = in.u64()
	h.name, h.version, h.session = in.text(), in.text(), in.id()
	return h, in.err
}

type welcome struct {
	protocol      uint16
	versions      []byte
	features      uint64
	name, version string
	cluster       [16]byte
	incarnation   uint64
	session       [16]byte
	maxBatch      uint32
	inFlight      uint16
	lanes         uint32
}

func (f frame) welcome() (w welcome, err error) {
	in := f.want(kindHelloOK)
	w.protocol, w.versions = in.u16(), in.bytes()
	w.features = in.u64()
	w.name, w.version, w.cluster = in.text(), in.text(), in.id()
	w.incarnation, w.session = in.u64(), in.id()
	w.maxBatch, w.inFlight, w.lanes = in.u32(), in.u16(), in.u32()
	return w, in.err
}

type refusal struct {
	code       uint16
	retryAfter uint32 // milliseconds
	topic      string
	topicID    [16]byte
	partition  int32
	producer   uint64
	sequence   int64
	expected   int64
	detail     string
	offset     int64 // of the batch that is refused
	version    uint8 // likewise

	minProtocol, maxProtocol uint16 // with Refused
}

func (r *refusal) read(in *fields) {
	r.code, r.retryAfter = in.u16(), in.u32()
	r.topic, r.topicID, r.partition = in.text(), in.id(), in.i32()
	r.producer, r.sequence, r.expected, r.detail = in.u64(), in.i64(), in.i64(), in.text()
	r.offset = -1
	if len(in.b) > 0 { // both came after the others, and may be absent
		r.offset = in.i64()
	}
	if len(in.b) > 0 {
		r.version = in.u8()
	}
}

func (f frame) refused() (r refusal, err error) {
	in := f.want(kindRefused)
	in.item(in.sized(int(in.u16())), r.read)
	r.minProtocol, r.maxProtocol = in.u16(), in.u16()
	return r, in.err
}

func (f frame) error() (r refusal, err error) {
	in := f.want(kindError)
	r.read(in)
	return r, in.err
}

type topic struct {
	name        string
	id          [16]byte
	created     int64 // Unix milliseconds
	maxBatch    uint32
	strict      bool
	versions    []byte
	readers     uint32
	readersKnow uint8
	partitions  []partition
}

type partition struct {
	start, end, bytes int64
	code              uint16
}

func (t *topic) read(in *fields) {
	t.name, t.id = in.text(), in.id()
	t.created, t.maxBatch, t.strict = in.i64(), in.u32(), in.flags(1) == 1
	t.versions, t.readers, t.readersKnow = in.bytes(), in.u32(), in.u8()
	in.list(func() {
		in.item(in.sized(int(in.u16())), func(in *fields) {
			t.partitions = append(t.partitions, partition{in.i64(), in.i64(), in.i64(), in.u16()})
		})
	})
}

func (f frame) created() (t topic, err error) {
	in := f.want(kindTopicCreated)
	in.item(in.bytes(), t.read)
	return t, in.err
}

type described struct {
	topics []topic
	more   bool
}

func (f frame) described() (d described, err error) {
	in := f.want(kindTopicsDescribed)
	in.list(func() {
		var t topic
		in.item(in.bytes(), t.read)
		d.topics = append(d.topics, t)
	})
	d.more = in.flags(1) == 1
	return d, in.err
}

type describe struct {
	names []string
	after string
	flags uint8
}

func (f frame) describe() (d describe, err error) {
	in := f.want(kindDescribeTopics)
	in.list(func() { d.names = append(d.names, in.text()) })
	d.after, d.flags = in.text(), in.u8()
	return d, in.err
}

type inited struct {
	id    uint64
	epoch uint32
	key   [16]byte
}

func (f frame) inited() (p inited, err error) {
	in := f.want(kindProducerInited)
	p.id, p.epoch, p.key = in.u64(), in.u32(), in.id()
	return p, in.err
}

type openLane struct {
	lane     uint32
	producer inited
	topic    [16]byte
	part     int32
	flags    uint8
	acked    [3]int64 // sequence, offset, digest
	sent     int64
}

func (f frame) openLane() (o openLane, err error) {
	in := f.want(kindOpenLane)
	o.lane, o.producer.id, o.producer.key, o.producer.epoch = in.u32(), in.u64(), in.id(), in.u32()
	o.topic, o.part, o.flags = in.id(), in.i32(), in.flags(7)
	o.acked, o.sent = [3]int64{in.i64(), in.i64(), in.i64()}, in.i64()
	return o, in.err
}

type opened struct {
	lane         uint32
	lastSequence int64
	lastOffset   int64
	lastDigest   uint64
	logStart     int64
	maxBatch     uint32
	position     []byte
}

func (f frame) opened() (o opened, err error) {
	in := f.want(kindLaneOpened)
	o.lane, o.lastSequence, o.lastOffset, o.lastDigest = in.u32(), in.i64(), in.i64(), in.u64()
	o.logStart, o.maxBatch, o.position = in.i64(), in.u32(), in.bytes()
	return o, in.err
}

type produce struct {
	lane       uint32
	durability uint8
	firstSend  int64 // Unix milliseconds
	confirmed  int64
	batch      []byte
}

func (f frame) produce() (p produce, err error) {
	in := f.want(kindProduce)
	p.lane, p.durability = in.u32(), in.u8()
	p.firstSend, p.confirmed, p.batch = in.i64(), in.i64(), in.bytes()
	if in.err == nil {
		in.err = checkBatch(p.batch, false)
	}
	return p, in.err
}

// number is what the result of the batch names it by.
func (p produce) number() int64 {
	if p.batch[offVersion] == 1 {
		return p.confirmed
	}
	return int64(binary.LittleEndian.Uint64(p.batch[offBaseSequence:]))
}

type result struct {
	lane      uint32
	number    int64
	code      uint16
	duplicate bool
	offset    int64
	expected  int64
	detail    string

	appendTime int64     // Unix milliseconds
	persisted  int64     // a sequence
	timings    [4]uint32 // queue, append, sync, retry after
}

func (f frame) results() (all []result, err error) {
	in := f.want(kindProduceResults)
	in.list(func() {
		in.item(in.sized(int(in.u16())), func(in *fields) {
			r := result{lane: in.u32(), number: in.i64(), code: in.u16()}
			r.duplicate = in.flags(15)&1 == 1
			r.offset, r.appendTime, r.expected, r.persisted = in.i64(), in.i64(), in.i64(), in.i64()
			r.timings = [4]uint32{in.u32(), in.u32(), in.u32(), in.u32()}
			r.detail = in.text()
			all = append(all, r)
		})
	})
	return all, in.err
}

type subscribe struct {
	topic  [16]byte
	part   int32
	from   int64
	toEnd  bool
	credit uint32
}

func (f frame) subscribe() (s subscribe, err error) {
	in := f.want(kindSubscribe)
	s.topic, s.part, s.from, s.toEnd, s.credit = in.id(), in.i32(), in.i64(), in.flags(1) == 1, in.u32()
	return s, in.err
}

type subscribed struct{ start, logStart, end int64 }

func (f frame) subscribed() (s subscribed, err error) {
	in := f.want(kindSubscribed)
	s.start, s.logStart, s.end = in.i64(), in.i64(), in.i64()
	return s, in.err
}

type push struct {
	end     int64
	batches [][]byte // each is checked
}

func (f frame) push() (p push, err error) {
	in := f.want(kindBatches)
	p.end = in.i64()
	rest := in.bytes()
	for in.err == nil && len(rest) > 0 {
		if len(rest) < headerSize || sizeOf(rest) < headerSize || sizeOf(rest) > len(rest) {
			return push{}, fmt.Errorf("%d bytes are no batch", len(rest))
		}
		b := rest[:sizeOf(rest):sizeOf(rest)]
		rest = rest[len(b):]
		p.batches, in.err = append(p.batches, b), checkBatch(b, true)
	}
	return p, in.err
}

// Where fields of a batch stand.
const (
	offVersion      = 3
	offSize         = 4
	offBaseOffset   = 8
	offFrontCheck   = 28
	offDurable      = 32
	offChecksum     = 40
	offAttributes   = 48
	offHeaderLength = 50
	offRecordCount  = 52
	offBaseSequence = 88
	headerSize      = 80 // of version 1; that of version 2 begins with the same fields
)

func sizeOf(b []byte) int        { return int(binary.LittleEndian.Uint32(b[offSize:])) }
func baseOffset(b []byte) int64  { return int64(binary.LittleEndian.Uint64(b[offBaseOffset:])) }
func headerLength(b []byte) int  { return int(binary.LittleEndian.Uint16(b[offHeaderLength:])) }
func recordCount(b []byte) int64 { return int64(binary.LittleEndian.Uint32(b[offRecordCount:])) }
func checksumOf(b []byte) uint64 { return xxhash.Sum64(b[offAttributes:]) }
func seal(b []byte)              { binary.LittleEndian.PutUint64(b[offChecksum:], checksumOf(b)) }
func frontCheckOf(b []byte) uint32 {
	front := append(append([]byte(nil), b[:offFrontCheck]...), b[offDurable:offAttributes]...)
	return uint32(xxhash.Sum64(front))
}

// checkBatch looks at what every version has in common, and at the front check of a batch that
// is stored.
func checkBatch(b []byte, stored bool) error {
	switch {
	case len(b) < headerSize || string(b[:3]) != "QBF" || sizeOf(b) != len(b) || headerLength(b) < headerSize || headerLength(b) > len(b):
		return errors.New("it is no batch")
	case binary.LittleEndian.Uint64(b[offChecksum:]) != checksumOf(b):
		return errors.New("the checksum does not agree")
	case stored && binary.LittleEndian.Uint32(b[offFrontCheck:]) != frontCheckOf(b):
		return errors.New("the front check does not agree")
	}
	return nil
}

// toVersion1 is the conversion of a stored batch of version 1 or 2 that drops all that version
// 1 does not have.
func toVersion1(b []byte) []byte {
	out := append(append([]byte(nil), b[:headerSize]...), b[headerLength(b):]...)
	out[offVersion] = 1
	binary.LittleEndian.PutUint32(out[offSize:], uint32(len(out)))
	binary.LittleEndian.PutUint16(out[offHeaderLength:], headerSize)
	seal(out)
	binary.LittleEndian.PutUint32(out[offFrontCheck:], frontCheckOf(out))
	return out
}
