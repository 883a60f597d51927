package compat

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/compat/reader1"
)

// A mixed log is what lies in a partition: batches of plain and of idempotent producers, and
// control batches, in any order.
type mixed struct {
	batches []batchfmt.Batch
	want    []reader1.Record // all records, as they were given to the builders
	plain   []reader1.Record // those of them in batches of version 1
	end     batchfmt.Offset
	seq     batchfmt.Seq
}

// draw puts a random batch behind the others.
func (m *mixed) draw(t *rapid.T) {
	kind := rapid.SampledFrom([]string{"plain", "aware", "control"}).Draw(t, "kind")
	if kind == "control" {
		raw := batchfmt.AppendControl(nil, 7, 1, rapid.SampledFrom([]batchfmt.Control{
			{Kind: batchfmt.ControlFence, MinEpoch: 2, Last: -1}, {Kind: batchfmt.ControlClose, Last: 9, Position: []byte("p")},
		}).Draw(t, "control"))
		m.put(t, raw)
		return
	}
	s := batchfmt.Seal{
		Codec:      rapid.SampledFrom([]batchfmt.Codec{batchfmt.CodecNone, batchfmt.CodecGzip, batchfmt.CodecSnappy, batchfmt.CodecZstd}).Draw(t, "codec"),
		AppendTime: rapid.Bool().Draw(t, "append time"),
	}
	if kind == "aware" {
		s.ProducerID = batchfmt.ProducerID(rapid.Uint64Min(1).Draw(t, "producer"))
		s.Epoch = batchfmt.Epoch(rapid.Uint32().Draw(t, "epoch"))
		s.BaseSequence, s.Position = m.seq, drawBytes(64).Draw(t, "position")
		if rapid.Bool().Draw(t, "extension") {
			s.Extensions = []batchfmt.Extension{{Type: 2, Data: drawBytes(100).Draw(t, "data")}}
		}
	}
	m.seal(t, s, rapid.SliceOfN(rapid.Custom(drawRecord), 1, 6).Draw(t, "records"))
}

func drawBytes(n int) *rapid.Generator[[]byte] {
	return rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, n))
}

func drawRecord(t *rapid.T) batchfmt.Record {
	r := batchfmt.Record{
		Timestamp: rapid.Int64Range(-1<<40, 1<<45).Draw(t, "timestamp"),
		Key:       drawBytes(40).Draw(t, "key"), Value: drawBytes(300).Draw(t, "value"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "headers") {
		r.Headers = append(r.Headers, batchfmt.Header{
			Key:   []byte(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "name")),
			Value: drawBytes(20).Draw(t, "header"),
		})
	}
	return r
}

func (m *mixed) seal(t *rapid.T, s batchfmt.Seal, records []batchfmt.Record) {
	var b batchfmt.Builder
	for i := range records {
		if err := b.Add(&records[i]); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := b.Seal(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	base := m.end
	m.put(t, raw)
	m.seq += batchfmt.Seq(len(records))
	for i, r := range records {
		rec := reader1.Record{Offset: int64(base) + int64(i), Timestamp: r.Timestamp, Key: r.Key, Value: r.Value}
		if s.AppendTime {
			rec.Timestamp = appendTime(base)
		}
		for _, h := range r.Headers {
			rec.Headers = append(rec.Headers, reader1.Header{Key: h.Key, Value: h.Value})
		}
		m.want = append(m.want, rec)
		if s.ProducerID == batchfmt.NoProducer {
			m.plain = append(m.plain, rec)
		}
	}
}

func appendTime(at batchfmt.Offset) int64 { return 1_750_000_000_000 + int64(at) }

// put stamps a batch as a server does.
func (m *mixed) put(t *rapid.T, raw []byte) {
	b, err := batchfmt.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	b.Stamp(batchfmt.Stamp{BaseOffset: m.end, AppendTime: appendTime(m.end), Term: 3, Durable: m.end})
	m.batches, m.end = append(m.batches, b), b.NextOffset()
}

// forOld is what a session that reads version 1 only is sent.
func (m *mixed) forOld(t *rapid.T) (sent []byte) {
	for _, b := range m.batches {
		if b.IsControl() {
			continue
		}
		var err error
		if sent, err = batchfmt.AppendVersion1(sent, b); err != nil {
			t.Fatal(err)
		}
	}
	return sent
}

// forNew is what a session that reads both versions is sent: the bytes of the log.
func (m *mixed) forNew() (sent []byte) {
	for _, b := range m.batches {
		if !b.IsControl() {
			sent = append(sent, b.Bytes()...)
		}
	}
	return sent
}

// readNew reads with the code of today.
func readNew(sent []byte) (all []reader1.Record, err error) {
	var r batchfmt.Reader
	for len(sent) > 0 {
		b, err := batchfmt.Parse(sent)
		if err == nil {
			err = errors.Join(b.Verify(), b.VerifyFront(), r.Reset(b))
		}
		if err != nil {
			return all, err
		}
		for r.Next() {
			all = append(all, asOld(b, r.Record()))
		}
		if err := r.Err(); err != nil {
			return all, err
		}
		sent = sent[b.Size():]
	}
	return all, nil
}

func asOld(b batchfmt.Batch, r *batchfmt.Record) reader1.Record {
	rec := reader1.Record{
		Offset: int64(b.BaseOffset()) + int64(r.OffsetDelta), Timestamp: r.Timestamp,
		Key: slices.Clone(r.Key), Value: slices.Clone(r.Value),
	}
	for _, h := range r.Headers {
		rec.Headers = append(rec.Headers, reader1.Header{Key: slices.Clone(h.Key), Value: slices.Clone(h.Value)})
	}
	return rec
}

// readOld reads with the frozen reader.
func readOld(sent []byte) (all []reader1.Record, err error) {
	for r, err := range reader1.All(sent) {
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

// TestMixedTopics: whatever stands in a topic in whatever order, old readers and new ones get
// the same records at the same offsets, and these are the ones that were sent.
func TestMixedTopics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m mixed
		for range rapid.IntRange(1, 8).Draw(t, "batches") {
			m.draw(t)
		}
		wantRecords(t, "old", m.want)(readOld(m.forOld(t)))
		wantRecords(t, "new", m.want)(readNew(m.forNew()))
		wantRecords(t, "new reader of what old ones are sent", m.want)(readNew(m.forOld(t)))
		wantPlainOnly(t, &m)
	})
}

func wantRecords(t *rapid.T, who string, want []reader1.Record) func([]reader1.Record, error) {
	return func(got []reader1.Record, err error) {
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\ngot  %+v\nwant %+v", who, err, got, want)
		}
	}
}

// wantPlainOnly gives the bytes of the log, which nobody converted, to the frozen reader: it
// is told in front of each batch of version 2 that it cannot read it, goes on behind it, and
// has all the others.
func wantPlainOnly(t *rapid.T, m *mixed) {
	var all []reader1.Record
	for rest := m.forNew(); len(rest) > 0; {
		records, n, err := reader1.Decode(rest)
		var unsupported *reader1.UnsupportedVersionError
		switch {
		case errors.As(err, &unsupported) && unsupported.Version == 2 && unsupported.Size > 0:
			rest = rest[unsupported.Size:]
		case err != nil:
			t.Fatal(err)
		default:
			all, rest = append(all, records...), rest[n:]
		}
	}
	if !reflect.DeepEqual(all, m.plain) {
		t.Errorf("stepping over version 2, it read %+v, want %+v", all, m.plain)
	}
}
