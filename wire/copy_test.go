package wire

import (
	"bytes"
	"errors"
	"testing"
)

func TestCopy(t *testing.T) {
	frame := Append(nil, &Confirmed{Lane: 3, Through: 7})
	datagram := AppendCopy(nil, Copy{Stream: 8, At: 1 << 40, Frame: frame})
	c, h, err := ParseCopy(datagram)
	if err != nil || c.Stream != 8 || c.At != 1<<40 || !bytes.Equal(c.Frame, frame) {
		t.Fatalf("%+v, %v", c, err)
	}
	if h.Kind != KindConfirmed || h.Size != len(frame)-HeaderSize {
		t.Errorf("header %+v", h)
	}
	for _, row := range []struct {
		reason   string
		datagram []byte
	}{
		{"nothing", nil},
		{"a head without a frame", datagram[:CopyHead+HeaderSize-1]},
		{"something else than a copy", append([]byte{2}, datagram[1:]...)},
		{"a frame that is cut off", datagram[:len(datagram)-1]},
		{"more than a frame", append(bytes.Clone(datagram), 0)},
		{"a frame over its limit", AppendCopy(nil, Copy{Frame: []byte{0xff, 0xff, 0xff, 0x7f, 5, 0, 0, 0}})},
		{"an optional frame of a kind that is not known", AppendCopy(nil, Copy{Frame: []byte{0, 0, 0, 0, 0xff, 0xff, 0, 0}})},
		{"a frame of a kind that is not known", AppendCopy(nil, Copy{Frame: []byte{0, 0, 0, 0, 0xff, 0, 0, 0}})},
	} {
		var bad *FrameError
		if _, _, err := ParseCopy(row.datagram); !errors.As(err, &bad) {
			t.Errorf("%s: %v", row.reason, err)
		}
	}
}

// FuzzParseCopy: no datagram makes the reader panic, and what it reads is the datagram again.
func FuzzParseCopy(f *testing.F) {
	for _, s := range samples(f) {
		f.Add(AppendCopy(nil, Copy{Stream: 4, At: 99, Frame: Append(nil, s.m)}))
	}
	f.Fuzz(func(t *testing.T, datagram []byte) {
		c, h, err := ParseCopy(datagram)
		if err != nil {
			var bad *FrameError
			if !errors.As(err, &bad) {
				t.Errorf("%T %v", err, err)
			}
			return
		}
		if again := AppendCopy(nil, c); !bytes.Equal(again, datagram) {
			t.Errorf("%x is read as %+v", datagram, c)
		}
		if h.Size != len(c.Frame)-HeaderSize {
			t.Errorf("%d bytes for a payload of %d", len(c.Frame), h.Size)
		}
	})
}
