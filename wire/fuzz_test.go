package wire

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// The seeds of all targets are the samples; testdata/fuzz holds what they do not show.

// FuzzDecode: no payload makes a decoder panic, its errors are *FrameErrors, and what it
// reads it can write and read again.
func FuzzDecode(f *testing.F) {
	for _, s := range samples(f) {
		f.Add(uint16(s.m.Kind()), s.m.appendPayload(nil))
	}
	f.Fuzz(func(t *testing.T, kind uint16, payload []byte) {
		before := bytes.Clone(payload)
		m, err := Decode(Kind(kind), payload)
		if !bytes.Equal(before, payload) {
			t.Error("the payload was changed")
		}
		if err != nil {
			var bad *FrameError
			if !errors.As(err, &bad) || m != nil {
				t.Errorf("%T %v, %v", err, err, m)
			}
			return
		}
		writeAndReadAgain(t, m)
	})
}

func writeAndReadAgain(t *testing.T, m Message) {
	var w bytes.Buffer
	if err := Write(&w, m); err != nil {
		if len(m.appendPayload(nil)) <= kinds[m.Kind()].limit {
			t.Fatal(err)
		}
		return
	}
	again, err := Read(&w)
	if err != nil {
		t.Fatalf("%+v cannot be read again: %v", m, err)
	}
	if !reflect.DeepEqual(m, again) {
		t.Fatalf("%+v, read again it is %+v", m, again)
	}
}

// FuzzReadFrames: a stream of anything ends with one of three errors, however it is cut
// into reads.
func FuzzReadFrames(f *testing.F) {
	var all []byte
	for _, s := range samples(f) {
		all = Append(all, s.m)
		f.Add(Append(nil, s.m))
	}
	f.Add(all)
	f.Add(append(append(header(3, KindOptional|5, 0), "abc"...), header(8, KindPing, 0)...))
	f.Fuzz(func(t *testing.T, stream []byte) {
		messages, err := readAll(bytes.NewReader(stream))
		if err != io.EOF && err != io.ErrUnexpectedEOF && !errors.Is(err, ErrFrame) {
			t.Fatalf("%T %v", err, err)
		}
		again, err2 := readAll(iotest.OneByteReader(bytes.NewReader(stream)))
		if !reflect.DeepEqual(messages, again) || err.Error() != err2.Error() {
			t.Fatalf("%d messages, %v; byte by byte %d messages, %v", len(messages), err, len(again), err2)
		}
		for _, m := range messages {
			writeAndReadAgain(t, m)
		}
	})
}

func readAll(r io.Reader) ([]Message, error) {
	var list []Message
	for {
		m, err := Read(r)
		if err != nil {
			return list, err
		}
		list = append(list, m)
	}
}

// FuzzDump: whatever the bytes are, a dump is printable text that names every frame.
func FuzzDump(f *testing.F) {
	for _, s := range wholeFrames(f) {
		f.Add(s.frame)
	}
	for _, s := range damagedFrames(f) {
		f.Add(s.frame)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		text, line := Dump(b), DumpLine(b)
		for _, out := range []string{text, line} {
			if !utf8.ValidString(out) || strings.ContainsFunc(out, func(r rune) bool { return r < ' ' && r != '\n' }) {
				t.Errorf("not printable: %q", out)
			}
		}
		if !strings.HasSuffix(text, "\n") || line == "" || strings.HasSuffix(line, "\n") {
			t.Errorf("ends are wrong: %q, %q", text, line)
		}
		messages, err := readAll(bytes.NewReader(b))
		if err == io.EOF && len(messages) > 0 && strings.Contains(text, "\n! ") && !strings.Contains(text, "! batch: ") {
			t.Errorf("frames that can be read are called bad:\n%s", text)
		}
		for _, m := range messages {
			if !strings.Contains(text, m.Kind().String()+" (") {
				t.Errorf("%v is not named", m.Kind())
			}
		}
	})
}
