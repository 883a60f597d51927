package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/sdk"
)

func samplePosition() *position {
	return &position{id: identity{1, 2}, generation: 3, written: 4, offset: 5, prefix: prefixOf([]byte("hello"))}
}

func TestPosition(t *testing.T) {
	p := samplePosition()
	b := p.encode()
	if len(b) != positionBytes || len(b) > sdk.MaxPosition {
		t.Errorf("%d bytes", len(b))
	}
	if got, err := parsePosition(b); err != nil || *got != *p {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range b {
		if _, err := parsePosition(b[:i]); err == nil {
			t.Errorf("%d bytes are taken", i)
		}
	}
	for _, wrong := range []*position{{offset: -1}, {offset: 4, prefix: p.prefix}, {offset: 2000, prefix: p.prefix}, {offset: 2000, prefix: prefix{bytes: 1025}}} {
		if _, err := parsePosition(wrong.encode()); err == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
}

func FuzzParsePosition(f *testing.F) {
	f.Add(samplePosition().encode())
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parsePosition(b)
		if err == nil && !bytes.Equal(p.encode(), b) {
			t.Errorf("%x becomes %x", b, p.encode())
		}
	})
}

func TestFamilyNames(t *testing.T) {
	for name, want := range map[string]bool{
		"app.log": true, "app.log.1": true, "app.log-20260102": true, "app.log.old": true,
		"app.logger": false, "app.log.1.gz": false, "app.log.2.zst": false, "app": false, "xapp.log": false,
	} {
		if belongs(name, "app.log") != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	if !belongs("x.gz", "x.gz") {
		t.Error("a file that is asked for by its name is left out")
	}
	for path, want := range map[string]bool{"/d/x.12": true, "/d/x.20260102": false, "/d/x.a": false, "/d/x": false, "/d/x." + strings.Repeat("9", 30): false} {
		if _, ok := rotation(path, "/d/x"); ok != want {
			t.Errorf("%s: %v", path, ok)
		}
	}
}
