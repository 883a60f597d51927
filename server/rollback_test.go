package server_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/wire"
)

// A server that is older than what it finds in its log must not take it for damage, and must
// not cut it off. The last batch has something of a later release that must be known, and both
// its checksums agree.
func TestRollbackKeepsWhatANewerServerWrote(t *testing.T) {
	for what, change := range map[string]func(b []byte){
		"a critical extension": func(b []byte) { b[batchfmt.HeaderSize2+1] |= 0x80 },
		"an attribute":         func(b []byte) { b[48] |= 0x20 },
		"a codec":              func(b []byte) { b[48] |= 5 },
	} {
		for name, crash := range map[string]bool{"after a clean stop": false, "after a crash": true} {
			t.Run(what+" "+name, func(t *testing.T) { rollback(t, crash, change) })
		}
	}
}

func rollback(t *testing.T, crash bool, change func([]byte)) {
	f := setUp(t)
	f.lane.Produce(f.batch(t, 0, "a"))
	wantStored(t, f.lane.Result(), 0, false)
	f.lane.Produce(f.sealed(t, batchfmt.Seal{BaseSequence: 1, Extensions: []batchfmt.Extension{{Type: 0x7f03, Data: []byte("x")}}}, batchfmt.Record{Value: []byte("b")}))
	wantStored(t, f.lane.Result(), 1, false)
	segs, _ := filepath.Glob(filepath.Join(f.partitionDir(), "*.seg"))
	var before []byte
	f.RestartWith(func() {
		raw, err := os.ReadFile(segs[0])
		if err != nil {
			t.Fatal(err)
		}
		first, err := batchfmt.Parse(raw[32:])
		if err != nil {
			t.Fatal(err)
		}
		at := 32 + first.Size()
		b, err := batchfmt.Parse(raw[at:])
		if err != nil {
			t.Fatal(err)
		}
		change(b.Bytes())
		binary.LittleEndian.PutUint64(b.Bytes()[40:], xxhash.Sum64(b.Bytes()[48:]))
		b.Stamp(batchfmt.Stamp{BaseOffset: b.BaseOffset(), AppendTime: b.AppendTime(), Term: b.Term(), Durable: b.Durable()})
		before = append([]byte(nil), b.Bytes()...)
		copy(raw[at:], before)
		if err := os.WriteFile(segs[0], raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if crash {
			for _, pattern := range []string{"*.snap", "*.idx", "*.pix"} {
				names, _ := filepath.Glob(filepath.Join(f.partitionDir(), pattern))
				for _, n := range names {
					if err := os.Remove(n); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	})
	c := rawclient.Dial(t, f.URL())
	info := describe(t, c, "orders")
	if info.Partitions[0].Code != wire.CodePartitionStopped {
		t.Errorf("the partition is served as if nothing were there: %+v", info.Partitions[0])
	}
	if _, m := c.OpenLane(&wire.OpenLane{Lane: 1, TopicID: f.topic.ID}); m.Kind() != wire.KindLaneRefused {
		t.Errorf("a lane is answered with %+v", m)
	}
	raw, _ := os.ReadFile(segs[0])
	if !bytes.Contains(raw, before) {
		t.Error("what the newer server has stored is gone from the log")
	}
}
