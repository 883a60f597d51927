package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/quoin-io/quoin/examples/internal/cli"
)

func TestDetachedGivesTheStream(t *testing.T) {
	long := strings.Repeat("0123456789", 30_000)
	for _, tt := range []struct {
		name string
		in   io.Reader
	}{
		{"in large pieces", strings.NewReader(long)},
		{"with the last bytes and the end in one", iotest.DataErrReader(strings.NewReader(long))},
		{"in odd pieces", iotest.HalfReader(strings.NewReader(long))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDetached(t.Context(), tt.in)
			defer d.Close()
			got, err := io.ReadAll(iotest.HalfReader(d))
			if err != nil || string(got) != long {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if n, err := d.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("behind the end: %d, %v", n, err)
			}
		})
	}
}

func TestDetachedGivesUp(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close()
	ctx, cancel := context.WithCancel(t.Context())
	d := newDetached(ctx, in)
	cancel()
	if _, err := d.Read(make([]byte, 1)); !errors.Is(err, cli.ErrInterrupted) {
		t.Errorf("got %v", err)
	}
}
