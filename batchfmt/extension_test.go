package batchfmt

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// withExtensions builds a version-2 batch around raw extension bytes, right or wrong.
func withExtensions(t testing.TB, raw []byte) []byte {
	t.Helper()
	b := mustSeal(t, producer, goldenRecords[0])
	out := append(bytes.Clone(b[:HeaderSize2]), raw...)
	out = append(out, b[HeaderSize2:]...)
	binary.LittleEndian.PutUint16(out[offHeaderLength:], uint16(HeaderSize2+len(raw)))
	binary.LittleEndian.PutUint32(out[offExtLength:], uint32(len(raw)))
	return sealed(out)
}

func TestExtensionsRefused(t *testing.T) {
	tests := []struct {
		reason string
		raw    []byte
		offset int // behind the fixed header
	}{
		{"type 0 could be padding", []byte{0, 0, 0, 0, 0, 0, 0, 0}, 0},
		{"longer than what is left", []byte{2, 0, 5, 0, 'a', 'b', 'c', 'd'}, 0},
		{"length with the top bit", []byte{2, 0, 0xff, 0xff, 'a', 'b', 'c', 'd'}, 0},
		{"padding that is not zero", []byte{2, 0, 1, 0, 'a', 0, 0, 1}, 7},
		{"the same type twice", []byte{2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0}, 8},
		{"types that do not ascend", []byte{3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0}, 8},
		{"critical and not known", []byte{1, 0x80, 0, 0, 0, 0, 0, 0}, 0},
		{"control in a batch of records", []byte{3, 0x80, 0, 0, 0, 0, 0, 0}, 0},
		{"a position over the limit", append([]byte{1, 0, 65, 0}, make([]byte, 68)...), 0},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			_, err := Parse(withExtensions(t, test.raw))
			if fe := wantFormatError(t, err, "extension"); fe.Offset != HeaderSize2+test.offset {
				t.Errorf("offset is %d, want %d: %v", fe.Offset, HeaderSize2+test.offset, err)
			}
		})
	}
}

func TestExtensionLookup(t *testing.T) {
	b := mustParse(t, mustSeal(t, producer.with(func(s *Seal) {
		s.Position = []byte("here")
		s.Extensions = []Extension{{Type: 900, Data: []byte("nine")}, {Type: 5}, {Type: 77, Data: make([]byte, 3000)}}
	}), goldenRecords[0]))
	if string(b.Position()) != "here" {
		t.Errorf("position is %q", b.Position())
	}
	for typ, want := range map[uint16]int{1: 4, 5: 0, 77: 3000, 900: 4} {
		data, ok := b.Extension(typ)
		if !ok || len(data) != want || data == nil {
			t.Errorf("type %d: %d bytes, %v; want %d", typ, len(data), ok, want)
		}
	}
	for _, typ := range []uint16{0, 2, 899, 901, ExtControl} {
		if _, ok := b.Extension(typ); ok {
			t.Errorf("type %d is there", typ)
		}
	}
}

func TestSealRefuses(t *testing.T) {
	tests := []struct {
		reason string
		seal   Seal
		field  string
	}{
		{"a version that is not known", Seal{Version: 3}, "version"},
		{"version 1 with a producer", Seal{Version: 1, ProducerID: 1}, "version"},
		{"version 1 with an epoch", Seal{Epoch: 1}, "version"},
		{"version 1 with a sequence", Seal{BaseSequence: 1}, "version"},
		{"version 1 with a position", Seal{Position: []byte{}}, "version"},
		{"version 1 with an extension", Seal{Extensions: []Extension{{Type: 9}}}, "version"},
		{"version 2 without a producer", Seal{Version: 2}, "producer id"},
		{"a negative sequence", Seal{ProducerID: 1, BaseSequence: -1}, "base sequence"},
		{"a sequence that would overflow", Seal{ProducerID: 1, BaseSequence: 1<<63 - 1}, "base sequence"},
		{"lz4", Seal{Codec: 3}, "attributes"},
		{"a codec of more than three bits", Seal{Codec: 8}, "attributes"},
		{"a position over the limit", Seal{ProducerID: 1, Position: make([]byte, 65)}, "extension"},
		{"two positions", Seal{ProducerID: 1, Position: []byte("a"), Extensions: []Extension{{Type: 1}}}, "extension"},
		{"an extension twice", Seal{ProducerID: 1, Extensions: []Extension{{Type: 4}, {Type: 5}, {Type: 4}}}, "extension"},
		{"type 0", Seal{ProducerID: 1, Extensions: []Extension{{Type: 0}}}, "extension"},
		{"a critical extension that no reader knows", Seal{ProducerID: 1, Extensions: []Extension{{Type: 0x8009}}}, "extension"},
		{"control", Seal{ProducerID: 1, Extensions: []Extension{{Type: ExtControl, Data: make([]byte, 24)}}}, "extension"},
		{"an extension over the limit", Seal{ProducerID: 1, Extensions: []Extension{{Type: 4, Data: make([]byte, 4093)}}}, "extension length"},
		{"an extension of 16 bits and more", Seal{ProducerID: 1, Extensions: []Extension{{Type: 4, Data: make([]byte, 1<<16)}}}, "extension length"},
		{"extensions over the limit together", Seal{ProducerID: 1, Extensions: []Extension{
			{Type: 4, Data: make([]byte, 2044)}, {Type: 5, Data: make([]byte, 2044)}, {Type: 6}}}, "extension length"},
		{"too many extensions", Seal{ProducerID: 1, Extensions: make([]Extension, 2000)}, "extension length"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			var b Builder
			if err := b.Add(&Record{}); err != nil {
				t.Fatal(err)
			}
			dst := []byte("before")
			out, err := b.Seal(dst, test.seal)
			wantFormatError(t, err, test.field)
			if string(out) != "before" || b.Len() != 1 {
				t.Errorf("dst is %q, %d records, want what was there before", out, b.Len())
			}
		})
	}
}

func TestSealTakesTheLargestExtensions(t *testing.T) {
	b := mustParse(t, mustSeal(t, Seal{ProducerID: 1, Extensions: []Extension{{Type: 4, Data: make([]byte, 4092)}}}, Record{}))
	if b.HeaderSize() != HeaderSize2+MaxExtensionBytes {
		t.Errorf("header has %d bytes", b.HeaderSize())
	}
}

func TestControl(t *testing.T) {
	for _, want := range []Control{
		{Kind: ControlFence, MinEpoch: 1<<32 - 1, Floor: 1<<63 - 1, Last: 1<<63 - 1, Position: bytes.Repeat([]byte("p"), 64)},
		{Kind: ControlClose, Last: -1},
		{Kind: ControlClose, Last: 0, Position: []byte{}},
	} {
		dst := AppendControl([]byte("before"), 5, 6, want)
		b := mustParse(t, dst[len("before"):])
		got, err := b.Control()
		if err != nil {
			t.Fatal(err)
		}
		if got.Kind != want.Kind || got.MinEpoch != want.MinEpoch || got.Floor != want.Floor || got.Last != want.Last ||
			!sameNullable(got.Position, want.Position) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if b.ProducerID() != 5 || b.Epoch() != 6 || !b.IsControl() || b.NextOffset() != b.BaseOffset() || b.Position() != nil {
			t.Errorf("producer %d, epoch %d, control %v", b.ProducerID(), b.Epoch(), b.IsControl())
		}
		wantGood(t, b)
	}
}

func TestControlOfRecords(t *testing.T) {
	_, err := mustParse(t, mustSeal(t, producer, goldenRecords...)).Control()
	wantFormatError(t, err, "attributes")
}

func TestControlRefused(t *testing.T) {
	good := Control{Kind: ControlFence, MinEpoch: 4, Floor: 1, Last: 2, Position: []byte("pos")}
	const data = HeaderSize2 + extHeaderBytes
	tests := []struct {
		reason string
		change func([]byte)
		field  string
	}{
		{"kind 0", func(b []byte) { b[data+ctlKind] = 0 }, "control kind"},
		{"a kind of the future", func(b []byte) { b[data+ctlKind] = 3 }, "control kind"},
		{"a position over the limit", func(b []byte) { b[data+ctlPositionLen] = 65 }, "control position"},
		{"a position longer than its bytes", func(b []byte) { b[data+ctlPositionLen] = 4 }, "control position"},
		{"no position and bytes of one", func(b []byte) { b[data+ctlPositionLen] = noPosition }, "control position"},
		{"reserved bytes", func(b []byte) { b[data+ctlReserved+1] = 1 }, "control reserved"},
		{"a negative floor", put64(data+ctlFloor, 1<<63), "control floor"},
		{"a last below -1", put64(data+ctlLast, 1<<64-2), "control last"},
		{"too short", put16(HeaderSize2+2, ctlPosition-1), "extension"}, // the rest is padding that is not zero
		{"another type", put16(HeaderSize2, 0x7003), "extension"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			b := AppendControl(nil, 5, 6, good)
			test.change(b)
			_, err := Parse(sealed(b))
			wantFormatError(t, err, test.field)
		})
	}
	t.Run("a position of its own beside that of the control", func(t *testing.T) {
		s := Seal{Version: Version2, ProducerID: 5}
		ctl := AppendControl(nil, 5, 6, Control{Kind: ControlClose, Last: -1})[HeaderSize2+extHeaderBytes:]
		b := s.appendHeader(nil, []Extension{{Type: ExtPosition}, {Type: ExtControl, Data: ctl[:ctlPosition]}}, 0)
		put16(offAttributes, uint16(AttrControl))(b)
		_, err := Parse(sealed(b))
		wantFormatError(t, err, "extension")
	})
	t.Run("data too short for a control", func(t *testing.T) {
		s := Seal{Version: Version2, ProducerID: 5}
		b := s.appendHeader(nil, []Extension{{Type: ExtControl, Data: make([]byte, ctlPosition-1)}}, 0)
		put16(offAttributes, uint16(AttrControl))(b)
		_, err := Parse(sealed(b))
		wantFormatError(t, err, "control")
	})
}

func TestAppendControlPanicsOnItsCaller(t *testing.T) {
	tests := map[string]Control{
		"no kind":                   {},
		"a negative floor":          {Kind: ControlFence, Floor: -1},
		"a last below none":         {Kind: ControlFence, Last: -2},
		"a position over the limit": {Kind: ControlFence, Position: make([]byte, 65)},
	}
	for reason, c := range tests {
		t.Run(reason, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it did not panic")
				}
			}()
			AppendControl(nil, 1, 1, c)
		})
	}
}
