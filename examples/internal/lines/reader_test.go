package lines

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// smallBuffer is the smallest that bufio has, so that short lines do not fit into it.
const smallBuffer = 16

// read returns every line as "value|eol", and a skipped one as "!bytes".
func read(t *testing.T, r *Reader) []string {
	t.Helper()
	var out []string
	for {
		line, err := r.Next()
		var long *TooLongError
		switch {
		case err == io.EOF:
			if _, err := r.Next(); err != io.EOF {
				t.Errorf("behind the end: %v", err)
			}
			return out
		case errors.As(err, &long):
			out = append(out, "!"+strings.Repeat("x", int(long.Bytes)))
			if long.Number != int64(len(out)) {
				t.Errorf("skipped line %d is called %d", len(out), long.Number)
			}
		case err != nil:
			t.Fatal(err)
		default:
			out = append(out, string(line.Value)+"|"+line.EOL.String())
			if line.Number != int64(len(out)) || line.Value == nil {
				t.Errorf("line %d is called %d, value nil %v", len(out), line.Number, line.Value == nil)
			}
		}
	}
}

func TestReader(t *testing.T) {
	long := strings.Repeat("y", 20)
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"no bytes have no lines", "", nil},
		{"a line feed alone is an empty line", "\n", []string{"|lf"}},
		{"empty lines stay", "\n\n\r\n", []string{"|lf", "|lf", "|crlf"}},
		{"the last line may lack its end", "a\nb", []string{"a|lf", "b|none"}},
		{"both ends in one file", "a\r\nb\nc\r\n", []string{"a|crlf", "b|lf", "c|crlf"}},
		{"a lone carriage return is content", "a\rb\n\rc\n", []string{"a\rb|lf", "\rc|lf"}},
		{"only the last of two returns ends", "a\r\r\n", []string{"a\r|crlf"}},
		{"a return at the very end is content", "a\r", []string{"a\r|none"}},
		{"bytes are bytes", "\xff\x00\xfe\n", []string{"\xff\x00\xfe|lf"}},
		{"over the buffer and within the limit", long + "\r\nb\n", []string{long + "|crlf", "b|lf"}},
		{"exactly at the limit", strings.Repeat("z", 30) + "\r\n", []string{strings.Repeat("z", 30) + "|crlf"}},
		{"one over the limit", strings.Repeat("x", 31) + "\nb\n", []string{"!" + strings.Repeat("x", 31), "b|lf"}},
		{"far over the limit", strings.Repeat("x", 99) + "\r\nb", []string{"!" + strings.Repeat("x", 99), "b|none"}},
		{"over the limit up to the end", "a\n" + strings.Repeat("x", 64), []string{"a|lf", "!" + strings.Repeat("x", 64)}},
		{"two over the limit", strings.Repeat("x", 40) + "\n" + strings.Repeat("x", 50) + "\n",
			[]string{"!" + strings.Repeat("x", 40), "!" + strings.Repeat("x", 50)}},
		{"the end of a skipped line falls between reads", strings.Repeat("x", 47) + "\r\nb\n",
			[]string{"!" + strings.Repeat("x", 47), "b|lf"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := read(t, newReader(strings.NewReader(tt.in), 30, smallBuffer)); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			bytewise := iotest.OneByteReader(strings.NewReader(tt.in))
			if got := read(t, newReader(bytewise, 30, smallBuffer)); !slices.Equal(got, tt.want) {
				t.Errorf("byte by byte: got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestLimitBelowTheBuffer(t *testing.T) {
	got := read(t, NewReader(strings.NewReader("abcd\nabc\n"), 3))
	if want := []string{"!xxxx", "abc|lf"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSkippingNeedsNoMemory(t *testing.T) {
	const size = 256 << 20
	r := NewReader(io.LimitReader(zeros{}, size), 1<<20)
	_, err := r.Next()
	var long *TooLongError
	if !errors.As(err, &long) || long.Bytes != size {
		t.Fatalf("got %v", err)
	}
	if cap(r.long) > 2<<20 {
		t.Errorf("holds %d bytes", cap(r.long))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestStreamFails(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name, before string
	}{
		{"at once", ""},
		{"within a short line", "abc"},
		{"within a line that is gathered", strings.Repeat("a", 20)},
		{"within a line that is skipped", strings.Repeat("a", 99)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := io.MultiReader(strings.NewReader(tt.before), iotest.ErrReader(broken))
			if _, err := newReader(in, 30, smallBuffer).Next(); err != broken {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestEOLNames(t *testing.T) {
	for _, e := range []EOL{LF, CRLF, None} {
		if got, err := ParseEOL([]byte(e.String())); err != nil || got != e {
			t.Errorf("%v: got %v, %v", e, got, err)
		}
	}
	for _, name := range []string{"", "LF", "crlf ", strings.Repeat("z", 9999)} {
		if _, err := ParseEOL([]byte(name)); err == nil || len(err.Error()) > 100 {
			t.Errorf("%.9q: got %v", name, err)
		}
	}
}
