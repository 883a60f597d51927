package golden

import (
	"bytes"
	"encoding/hex"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/wire"
)

// A frameMeaning is what a frame says.
type frameMeaning struct {
	Kind    wire.Kind    `json:"kind"`
	Message wire.Message `json:"message"`
	Secrets []string     `json:"secrets,omitempty"` // in order; no message shows its own
}

func frameMeaningOf(m wire.Message) frameMeaning {
	return frameMeaning{m.Kind(), m, secretsIn(reflect.ValueOf(m).Elem(), nil)}
}

// secretsIn are the secrets in the fields of a message, in hex.
func secretsIn(v reflect.Value, found []string) []string {
	for i := range v.NumField() {
		if s, ok := v.Field(i).Interface().(wire.Secret); ok {
			found = append(found, hex.EncodeToString(s[:]))
		}
	}
	return found
}

// TestFrames reads every golden frame of every release with the code of today.
func TestFrames(t *testing.T) {
	for _, f := range load(t, Frames) {
		t.Run(f.String(), func(t *testing.T) {
			r := bytes.NewReader(f.Bytes)
			m, err := wire.Read(r)
			if err != nil || r.Len() > 0 {
				t.Fatalf("%d bytes left: %v", r.Len(), err)
			}
			wantMeaning(t, f, frameMeaningOf(m))
			if f.Release == Next && !bytes.Equal(wire.Append(nil, m), f.Bytes) {
				t.Error("encoded again it has other bytes")
			}
		})
	}
}

func hexFiles(t testing.TB, dir string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.hex"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s has no goldens: %v", dir, err)
	}
	files := map[string]string{}
	for _, name := range names {
		files[filepath.Base(name)] = string(read(t, name))
	}
	return files
}

// TestEveryMessageHasAFrame asks for a golden of each kind that package wire knows.
func TestEveryMessageHasAFrame(t *testing.T) {
	have := map[wire.Kind]bool{}
	for _, f := range load(t, Frames) {
		h, err := wire.ParseHeader(f.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		have[h.Kind] = have[h.Kind] || f.Release == Next
	}
	known := 0
	for k := range wire.Kind(1<<16 - 1) {
		if strings.HasPrefix(k.String(), "kind(") {
			continue
		}
		known++
		if !have[k] {
			t.Errorf("%v has no golden frame", k)
		}
	}
	if known < 30 {
		t.Errorf("only %d kinds are known", known)
	}
}
