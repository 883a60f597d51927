package catalog

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var goldenTopic = Topic{
	ID: TopicID{0xaa}, Name: "orders", Partitions: 3, Created: 0x0102030405060708,
	Config: TopicConfig{MaxBatchBytes: 1 << 20, Strict: true},
}

var goldenRows = []struct {
	name string
	row  producerRow
	hex  string
}{
	{
		"anonymous",
		producerRow{epoch: 5, key: Key{1}, instance: InstanceID{2}, request: RequestID{3}, since: 0x0102030405060708},
		"00" + "00000005" + "01000000000000000000000000000000" + "02000000000000000000000000000000" +
			"03000000000000000000000000000000" + "0102030405060708",
	},
	{
		"named",
		producerRow{kind: kindNamed, epoch: MaxEpoch, key: Key{1}, instance: InstanceID{2}, since: 1,
			earlier: []InstanceID{{4}, {5}}, name: "n7"},
		"01" + "ffffffff" + "01000000000000000000000000000000" + "02000000000000000000000000000000" +
			"00000000000000000000000000000000" + "0000000000000001" +
			"02" + "04000000000000000000000000000000" + "05000000000000000000000000000000" + "02" + "6e37",
	},
}

// The bytes are a promise to files that exist.
func TestGoldenRows(t *testing.T) {
	const topic = "0102030405060708" + "00000003" + "00100000" + "01" + "06" + "6f7264657273"
	body := appendTopic(nil, goldenTopic)
	if got := hex.EncodeToString(body); got != topic {
		t.Errorf("topic\n got %s\nwant %s", got, topic)
	}
	if got := must(decodeTopic(goldenTopic.ID, body))(t); got != goldenTopic {
		t.Errorf("topic: %+v", got)
	}
	for _, g := range goldenRows {
		body := appendProducer(nil, &g.row)
		if got := hex.EncodeToString(body); got != g.hex {
			t.Errorf("%s\n got %s\nwant %s", g.name, got, g.hex)
		}
		got := must(decodeProducer(body))(t)
		if diff := cmp.Diff(g.row, *got, cmp.AllowUnexported(producerRow{})); diff != "" {
			t.Errorf("%s: %s", g.name, diff)
		}
	}
	const sealed = "01" + "0000000000000007" + "fe6d3c83"
	if got := hex.EncodeToString(sealRow([]byte("k"), numberBody(7))); got != sealed {
		t.Errorf("sealed\n got %s\nwant %s", got, sealed)
	}
}

func TestEveryPrefixIsRefused(t *testing.T) {
	topic := appendTopic(nil, goldenTopic)
	for n := range topic {
		if _, err := decodeTopic(TopicID{}, topic[:n]); !errors.Is(err, ErrDamaged) {
			t.Errorf("topic of %d bytes: %v", n, err)
		}
	}
	for _, g := range goldenRows {
		body := appendProducer(nil, &g.row)
		for n := range body {
			if _, err := decodeProducer(body[:n]); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s of %d bytes: %v", g.name, n, err)
			}
		}
	}
}

func TestEveryFlippedBitIsNoticed(t *testing.T) {
	key := []byte("key")
	v := sealRow(key, appendTopic(nil, goldenTopic))
	for bit := range len(v) * 8 {
		bad := bytes.Clone(v)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, err := openRow("row", key, bad); !errors.Is(err, ErrDamaged) {
			t.Errorf("bit %d: %v", bit, err)
		}
	}
	for n := range v {
		if _, err := openRow("row", key, v[:n]); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, err := openRow("row", []byte("other"), v); !errors.Is(err, ErrDamaged) {
		t.Errorf("under another key: %v", err)
	}
}

func TestDecodersRefuse(t *testing.T) {
	edit := func(body []byte, at int, b ...byte) []byte {
		body = bytes.Clone(body)
		copy(body[at:], b)
		return body
	}
	topic := appendTopic(nil, goldenTopic)
	named := appendProducer(nil, &goldenRows[1].row)
	tests := []struct {
		reason string
		err    error
		text   string
	}{
		{"unknown topic flag", second(decodeTopic(TopicID{}, edit(topic, 16, 2))), "flags"},
		{"topic without partitions", second(decodeTopic(TopicID{}, edit(topic, 8, 0, 0, 0, 0))), "partition"},
		{"topic name of a directory", second(decodeTopic(TopicID{}, append(edit(topic[:18], 17, 2), ".."...))), "name"},
		{"batch limit of nothing", second(decodeTopic(TopicID{}, edit(topic, 12, 0, 0, 0, 0))), "largest batch"},
		{"unknown kind", second(decodeProducer(edit(named, 0, 3))), "kind 3"},
		{"anonymous with a name", second(decodeProducer(edit(named, 0, 0))), "without a name"},
		{"too many earlier instances", second(decodeProducer(edit(named, producerFixed, maxEarlier+1))), "earlier"},
		{"name not UTF-8", second(decodeProducer(edit(named, len(named)-1, 0xff))), "UTF-8"},
		{"bytes behind", second(decodeProducer(append(bytes.Clone(named), 0))), "length says"},
		{"number of nine bytes", second(decodeNumber("n", make([]byte, 9))), "9 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			if !errors.Is(tt.err, ErrDamaged) || !strings.Contains(tt.err.Error(), tt.text) {
				t.Fatalf("got %v", tt.err)
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

func FuzzOpenRow(f *testing.F) {
	f.Add([]byte("k"), sealRow([]byte("k"), numberBody(7)))
	f.Fuzz(func(t *testing.T, key, v []byte) {
		body, err := openRow("row", key, v)
		switch {
		case err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrVersion):
			t.Fatalf("unnamed error %v", err)
		case err == nil && !bytes.Equal(sealRow(key, body), v):
			t.Fatalf("%x opens but is not what seals", v)
		}
	})
}

func FuzzDecodeTopic(f *testing.F) {
	f.Add(appendTopic(nil, goldenTopic))
	f.Fuzz(func(t *testing.T, body []byte) {
		topic, err := decodeTopic(TopicID{1}, body)
		switch {
		case err != nil && !errors.Is(err, ErrDamaged):
			t.Fatalf("unnamed error %v", err)
		case err == nil && !bytes.Equal(appendTopic(nil, topic), body):
			t.Fatalf("%x decodes to %+v, which encodes otherwise", body, topic)
		}
	})
}

func FuzzDecodeProducer(f *testing.F) {
	for _, g := range goldenRows {
		f.Add(appendProducer(nil, &g.row))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		row, err := decodeProducer(body)
		switch {
		case err != nil && !errors.Is(err, ErrDamaged):
			t.Fatalf("unnamed error %v", err)
		case err == nil && !bytes.Equal(appendProducer(nil, row), body):
			t.Fatalf("%x decodes to %+v, which encodes otherwise", body, row)
		}
	})
}
