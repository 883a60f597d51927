package wire

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/quoin-io/quoin/batchfmt"
)

// header makes a frame header of any kind, size and flags.
func header(size uint32, kind Kind, flags uint16) []byte {
	return le(size, uint16(kind), flags)
}

func TestEveryPrefixOfEveryFrame(t *testing.T) {
	for _, s := range samples(t) {
		frame := Append(nil, s.m)
		for n := range frame {
			want := io.ErrUnexpectedEOF
			if n == 0 {
				want = io.EOF
			}
			if _, err := Read(bytes.NewReader(frame[:n])); err != want {
				t.Errorf("%s, %d of %d bytes: %v, want %v", s.name, n, len(frame), err, want)
			}
		}
	}
}

func TestReadManyFramesByteByByte(t *testing.T) {
	var stream []byte
	for _, s := range samples(t) {
		stream = Append(stream, s.m)
	}
	r := iotest.OneByteReader(bytes.NewReader(stream))
	for _, s := range samples(t) {
		got, err := Read(r)
		if err != nil || !reflect.DeepEqual(got, s.m) {
			t.Fatalf("%s: %+v, %v", s.name, got, err)
		}
	}
	if _, err := Read(r); err != io.EOF {
		t.Errorf("behind the last frame: %v", err)
	}
}

func TestReadStepsOverUnknownOptionalFrames(t *testing.T) {
	stream := header(0, KindOptional|1, 0)
	stream = append(append(stream, header(5, KindOptional|0x7fff, 0)...), "12345"...)
	stream = Append(stream, &Ping{Nonce: 9})
	got, err := Read(bytes.NewReader(stream))
	if err != nil || !reflect.DeepEqual(got, &Ping{Nonce: 9}) {
		t.Errorf("%+v, %v", got, err)
	}
	for n := 1; n < len(stream); n++ {
		_, err := Read(bytes.NewReader(stream[:n]))
		want := io.ErrUnexpectedEOF
		if n == HeaderSize || n == 2*HeaderSize+5 {
			want = io.EOF // between two frames
		}
		if err != want {
			t.Errorf("%d of %d bytes: %v, want %v", n, len(stream), err, want)
		}
	}
}

func TestParseHeaderRefuses(t *testing.T) {
	tests := []struct {
		name   string
		header []byte
		field  string
	}{
		{"unknown kind that is not optional", header(0, 0x7fff, 0), "kind"},
		{"kind 0", header(0, 0, 0), "kind"},
		{"unknown flags", header(8, KindPing, 1), "flags"},
		{"unknown flags of an optional frame", header(8, KindOptional|1, 0x8000), "flags"},
		{"a Ping that is too large", header(257, KindPing, 0), "size"},
		{"a batch that is too large", header(batchfmt.MaxBatchBytes+produceOverhead+1, KindProduce, 0), "size"},
		{"an optional frame that is too large", header(maxOptionalPayload+1, KindOptional|1, 0), "size"},
		{"the largest size there is", header(1<<32-1, KindBatches, 0), "size"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := ParseHeader(test.header)
			var bad *FrameError
			if !errors.As(err, &bad) || bad.Field != test.field {
				t.Fatalf("%v, want one of %s", err, test.field)
			}
			// Nothing behind the header may be read or taken memory for.
			got := allocated(func() {
				if _, err := Read(io.MultiReader(bytes.NewReader(test.header), iotest.ErrReader(errRead))); !errors.Is(err, ErrFrame) {
					t.Errorf("read on: %v", err)
				}
			})
			if got > 4096 {
				t.Errorf("took %d bytes", got)
			}
		})
	}
}

var errRead = errors.New("the line is cut")

func TestParseHeaderTakesTheLargest(t *testing.T) {
	for _, k := range sortedKinds() {
		limit := kinds[k].limit
		h, err := ParseHeader(header(uint32(limit), k, 0))
		if err != nil || h != (Header{Size: limit, Kind: k}) {
			t.Errorf("%v: %+v, %v", k, h, err)
		}
	}
}

// A peer that announces much and sends little must not make us take much.
func TestReadPayloadTakesMemoryAsBytesCome(t *testing.T) {
	h := Header{Size: batchfmt.MaxBatchBytes, Kind: KindProduce}
	for _, sent := range []int{0, 1, eagerPayload, eagerPayload + 1, 3 << 20} {
		got := allocated(func() {
			_, err := ReadPayload(bytes.NewReader(make([]byte, sent)), h, nil)
			if err != io.ErrUnexpectedEOF {
				t.Errorf("%d bytes: %v", sent, err)
			}
		})
		if limit := uint64(eagerPayload + sent + 6*sent + 4096); got > limit {
			t.Errorf("%d bytes took %d, more than %d", sent, got, limit)
		}
	}
}

func TestReadPayload(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 3*eagerPayload/16)
	own := make([]byte, 4, len(large))
	tests := []struct {
		name  string
		size  int
		buf   []byte
		reuse bool
	}{
		{"empty", 0, nil, false},
		{"small", 100, nil, false},
		{"in steps", len(large), nil, false},
		{"into a buffer that is too small", len(large), make([]byte, 10), false},
		{"into a buffer that is large enough", len(large), own, true},
		{"less than the buffer", 7, own, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := bytes.NewReader(large)
			got, err := ReadPayload(r, Header{Size: test.size}, test.buf)
			if err != nil || !bytes.Equal(got, large[:test.size]) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			if r.Len() != len(large)-test.size {
				t.Errorf("%d bytes were read, not %d", len(large)-r.Len(), test.size)
			}
			if reused := len(got) > 0 && len(test.buf) > 0 && &got[0] == &test.buf[0]; reused != test.reuse {
				t.Errorf("buffer used: %v", reused)
			}
		})
	}
}

func TestReadGivesTheErrorOfTheReader(t *testing.T) {
	frame := Append(nil, &Ping{Nonce: 9})
	for n := range frame {
		r := io.MultiReader(bytes.NewReader(frame[:n]), iotest.ErrReader(errRead))
		if _, err := Read(r); err != errRead {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestWriteRefusesWhatNobodyWouldRead(t *testing.T) {
	var w bytes.Buffer
	err := Write(&w, &CreateTopic{Name: strings.Repeat("x", 5000)})
	var bad *FrameError
	if !errors.As(err, &bad) || bad.Kind != KindCreateTopic || bad.Field != "size" {
		t.Errorf("got %v", err)
	}
	if w.Len() > 0 {
		t.Errorf("%d bytes were written", w.Len())
	}
}

func TestKindNames(t *testing.T) {
	seen := map[string]Kind{}
	for _, k := range sortedKinds() {
		name := k.String()
		if other, twice := seen[name]; twice || name == "" {
			t.Errorf("%q is the name of %d and %d", name, other, k)
		}
		seen[name] = k
		if want := reflect.TypeOf(kinds[k].make()).Elem().Name(); name != want {
			t.Errorf("kind %d is called %s, its message %s", k, name, want)
		}
	}
	if got := Kind(0x8123).String(); got != "kind(0x8123)" {
		t.Errorf("an unknown kind is %s", got)
	}
}
