package lines

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// FuzzLines: put together again, the lines of any bytes are these bytes; and a limit drops
// the lines over it and changes no other.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\r\nb\n\n\rc\r\r\nd"), uint16(2))
	f.Add([]byte("\xff\x00no end"), uint16(40))
	f.Fuzz(func(t *testing.T, data []byte, limit uint16) {
		var joined, kept []byte
		whole := newReader(bytes.NewReader(data), len(data), smallBuffer)
		for {
			line, err := whole.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if bytes.IndexByte(line.Value, '\n') >= 0 {
				t.Fatalf("line feed in %q", line.Value)
			}
			joined = line.AppendTo(joined)
			if len(line.Value) <= int(limit) {
				kept = line.AppendTo(kept)
			}
		}
		if !bytes.Equal(joined, data) {
			t.Fatalf("got %q, want %q", joined, data)
		}
		if got := readWithin(t, data, int(limit)); !bytes.Equal(got, kept) {
			t.Fatalf("within %d bytes: got %q, want %q", limit, got, kept)
		}
	})
}

func readWithin(t *testing.T, data []byte, limit int) []byte {
	var out []byte
	r := newReader(bytes.NewReader(data), limit, smallBuffer)
	for {
		line, err := r.Next()
		var long *TooLongError
		switch {
		case err == io.EOF:
			return out
		case errors.As(err, &long):
			if long.Bytes <= int64(limit) {
				t.Fatalf("skipped %d bytes, %d are allowed", long.Bytes, limit)
			}
		case err != nil:
			t.Fatal(err)
		default:
			out = line.AppendTo(out)
		}
	}
}
