package golden

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/quoin-io/quoin/wire"
)

// The meaning of a frame must hold every byte of it: one that is turned in the name of a key
// changes the frame, and nobody would see it in a release that is frozen.
func TestMeaningsHoldSecrets(t *testing.T) {
	for _, f := range load(t, Frames) {
		was, err := wire.Read(bytes.NewReader(f.Bytes))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(frameMeaningOf(was))
		for at := wire.HeaderSize; at < len(f.Bytes); at++ {
			b := bytes.Clone(f.Bytes)
			b[at] ^= 1
			m, err := wire.Read(bytes.NewReader(b))
			if err != nil || reflect.DeepEqual(m, was) {
				continue // not a frame, or a field that a flag switches off
			}
			now, _ := json.Marshal(frameMeaningOf(m))
			if Agree(text, now) == nil {
				t.Errorf("%v: byte %d was turned, and the meaning is the same", f, at)
				break
			}
		}
	}
}
