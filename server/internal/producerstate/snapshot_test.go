package producerstate

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"

	"github.com/quoin-io/quoin/batchfmt"
)

// goldenSnapshot is a snapshot of version 1. It must be read for ever.
const goldenSnapshot = "" +
	"515053 01 f3000000" + // magic, version, size 243
	"e803000000000000" + // end 1000
	"00000000 02000000" + // no flags, two lanes
	"4d00000000000000" + // ids up to 77 may have been lost
	"6e00000000000000" + // a part of the log below 110 was lost
	"0500000000000000" + // lanes have left to generation 5
	"0102030405060708 090a0b0c0d0e0f10" + // topic id
	"03000000 00000000" + // partition 3
	// producer 7
	"0700000000000000 0000000000000000 1300000000000000" + // id, floor 0, last 19
	"7700000000000000 0400000000000000" + // last offset 119, confirmed 4
	"03000000 01 02 04 00" + // epoch 3, closed, two entries, a position of three bytes
	"0000000000000000 0900000000000000 6400000000000000 0900000000000380" + // [0..9] at 100
	"0a00000000000000 1300000000000000 6e00000000000000 1300000a00000380" + // [10..19] at 110
	"706f73" + // "pos"
	// producer 8, of which only a fence is known
	"0800000000000000 0500000000000000 0400000000000000" + // id, floor 5, last 4
	"ffffffffffffffff ffffffffffffffff" + // last offset and confirmed are not known
	"02000000 02 00 01 00" + // epoch 2, suspect, no entry, an empty position
	""

var testPartition = Partition{TopicID: [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, Number: 3}

func goldenState() *State {
	s := New(Limits{})
	s.Forget(77)
	s.Apply(ident(3, 0, 9), 100, []byte("pos"))
	s.Apply(ident(3, 10, 19), 110, nil)
	s.replayControl(nativePID, batchfmt.Control{Kind: batchfmt.ControlClose, Last: 19})
	s.Confirm(nativePID, 4)
	s.replayControl(8, batchfmt.Control{Kind: batchfmt.ControlFence, MinEpoch: 2, Floor: 5, Last: 4, Position: []byte{}})
	s.Lost(50, 110) // producer 7 goes on behind it
	s.Opened(9)     // leaves no trace
	s.SetRetired(5)
	s.SetRetired(4)
	return s
}

// sealSnapshot puts size and check on a changed snapshot.
func sealSnapshot(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[snapOffSize:], uint32(len(b)))
	at := len(b) - snapCheckSize
	binary.LittleEndian.PutUint64(b[at:], xxhash.Sum64(b[:at]))
	return b
}

func TestGoldenSnapshot(t *testing.T) {
	golden, err := hex.DecodeString(strings.ReplaceAll(goldenSnapshot, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	golden = sealSnapshot(append(golden, make([]byte, snapCheckSize)...))
	if got := AppendSnapshot([]byte("before"), goldenState(), testPartition, 1000); !bytes.Equal(got, append([]byte("before"), golden...)) {
		t.Errorf("written\n%x, want\n%x", got[len("before"):], golden)
	}
	s, end, err := ParseSnapshot(golden, &testPartition)
	if err != nil {
		t.Fatal(err)
	}
	if end != 1000 || s.Forgotten() != 77 || !Equal(s, goldenState()) || s.Lane(nativePID).Confirmed() != 4 || s.Len() != 2 {
		t.Errorf("end %d, %d lanes", end, s.Len())
	}
}

func TestSnapshotOfNothing(t *testing.T) {
	s, end, err := ParseSnapshot(AppendSnapshot(nil, New(Limits{}), testPartition, 0), &testPartition)
	if err != nil || end != 0 || s.Len() != 0 || s.Forgotten() != 0 {
		t.Errorf("end %d, %d lanes, %v", end, s.Len(), err)
	}
}

// A parsed snapshot goes on like the state that wrote it.
func TestParsedSnapshotIsAState(t *testing.T) {
	s, _, err := ParseSnapshot(AppendSnapshot(nil, goldenState(), testPartition, 1000), &testPartition)
	if err != nil {
		t.Fatal(err)
	}
	s.Begin()
	s.Apply(ident(3, 20, 29), 1000, nil)
	s.Rollback()
	if !Equal(s, goldenState()) || s.Opened(nativePID) == 0 || s.AtLimit(99) {
		t.Error("it does not roll back, open or take lanes")
	}
}

func TestEveryPrefixAndEveryFlippedBitIsRefused(t *testing.T) {
	golden := AppendSnapshot(nil, goldenState(), testPartition, 1000)
	refuse := func(what string, i int, b []byte) {
		t.Helper()
		s, _, err := ParseSnapshot(b, &testPartition)
		var se *SnapshotError
		if s != nil || !errors.As(err, &se) || se.Field == "" || se.Reason == "" || se.Offset < 0 || se.Offset > len(golden) {
			t.Fatalf("%s %d: %v", what, i, err)
		}
	}
	for i := range golden {
		refuse("prefix", i, golden[:i:i])
	}
	for i := range 8 * len(golden) {
		b := bytes.Clone(golden)
		b[i/8] ^= 1 << (i % 8)
		refuse("bit", i, b)
	}
	refuse("one byte more", len(golden), append(bytes.Clone(golden), 0))
}

func TestSnapshotOverTheLimitIsRefusedUnread(t *testing.T) {
	b := make([]byte, MaxSnapshotBytes+1)
	copy(b, AppendSnapshot(nil, goldenState(), testPartition, 1000))
	_, _, err := ParseSnapshot(b, &testPartition)
	want := "producer snapshot: size at byte 4: 301989889 bytes are over the limit, 301989888"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestSnapshotFields: a snapshot whose checksum agrees is still not believed.
func TestSnapshotFields(t *testing.T) {
	const lane, window = snapHeaderSize, snapHeaderSize + laneFixedSize
	const second = window + 2*entrySize + 3
	u64 := func(at int, v int64) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint64(b[at:], uint64(v)); return b }
	}
	set := func(at int, v byte) func([]byte) []byte {
		return func(b []byte) []byte { b[at] = v; return b }
	}
	for _, r := range []struct {
		name   string
		change func([]byte) []byte
		field  string
		offset int
	}{
		{"negative end", u64(snapOffEnd, -1), "end", snapOffEnd},
		{"end within the newest batch", u64(snapOffEnd, 119), "last offset", lane + laneOffOffset},
		{"unknown flag", set(snapOffFlags, 2), "flags", snapOffFlags},
		{"more lanes than bytes", set(snapOffCount+3, 0xff), "lane count", snapOffCount},
		{"a lane too many", set(snapOffCount, 3), "lane", second + laneFixedSize},
		{"a lane too few", set(snapOffCount, 1), "lane count", snapOffCount},
		{"no producer", u64(lane, 0), "producer id", lane},
		{"order of the lanes", u64(second, 7), "producer id", second},
		{"negative floor", u64(lane+laneOffFloor, -1), "floor", lane + laneOffFloor},
		{"last below the floor", u64(lane+laneOffLast, -2), "last", lane + laneOffLast},
		{"last beyond all batches", u64(lane+laneOffLast, math.MaxInt64), "last", lane + laneOffLast},
		{"last before the window's", u64(lane+laneOffLast, 18), "window range", window + entrySize},
		{"last offset below unknown", u64(lane+laneOffOffset, -2), "last offset", lane + laneOffOffset},
		{"last offset at the end", u64(lane+laneOffOffset, 1000), "last offset", lane + laneOffOffset},
		{"confirmed below none", u64(lane+laneOffConfirmed, -2), "confirmed", lane + laneOffConfirmed},
		{"confirmed beyond last", u64(lane+laneOffConfirmed, 20), "confirmed", lane + laneOffConfirmed},
		{"unknown lane flag", set(lane+laneOffFlags, 4), "lane flags", lane + laneOffFlags},
		{"deeper than the window", set(lane+laneOffDepth, 6), "depth", lane + laneOffDepth},
		{"position too long", set(lane+laneOffPosition, 66), "position", lane + laneOffPosition},
		{"reserved", set(lane+laneOffReserved, 1), "reserved", lane + laneOffReserved},
		{"position beyond the bytes", set(second+laneOffPosition, 2), "lane", second},
		{"window beyond the bytes", set(second+laneOffDepth, 1), "lane", second},
		{"negative base", u64(window, -1), "window range", window},
		{"empty range", u64(window+8, -1), "window range", window},
		{"order of the window", u64(window+8, 19), "window range", window + entrySize},
		{"negative offset", u64(window+16, -1), "window offset", window + 16},
		{"offset at the end", u64(window+16, 1000), "window offset", window + 16},
		{"records beyond the end", u64(window+16, 995), "window offset", window + 16},
		{"last record at the end", u64(window+16, 991), "window offset", window + 16},
		{"offset that overflows", u64(window+16, math.MaxInt64), "window offset", window + 16},
	} {
		t.Run(r.name, func(t *testing.T) {
			b := sealSnapshot(r.change(AppendSnapshot(nil, goldenState(), testPartition, 1000)))
			_, _, err := ParseSnapshot(b, &testPartition)
			var se *SnapshotError
			if !errors.As(err, &se) || se.Field != r.field || se.Offset != r.offset {
				t.Errorf("got %v, want field %q at %d", err, r.field, r.offset)
			}
		})
	}
}

// TestSnapshotAndReplayEqualFullReplay over logs that no decision ever saw: whatever
// stands in a log, a snapshot anywhere in it loses nothing.
func TestSnapshotAndReplayEqualFullReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		full, cut := New(Limits{}), New(Limits{})
		log := drawLog(t)
		at := rapid.IntRange(0, len(log)).Draw(t, "snapshot behind")
		for _, b := range log[:at] {
			cut.Replay(b)
		}
		end := endOf(log[:at])
		s, got, err := ParseSnapshot(AppendSnapshot(nil, cut, testPartition, end), &testPartition)
		if err != nil || got != end || !Equal(s, cut) {
			t.Fatalf("end %d, want %d: %v", got, end, err)
		}
		for _, b := range log[at:] {
			s.Replay(b)
		}
		for _, b := range log {
			full.Replay(b)
		}
		if !Equal(s, full) {
			t.Fatal("snapshot and replay differ from a full replay")
		}
		if a, b := AppendSnapshot(nil, s, testPartition, endOf(log)), AppendSnapshot(nil, full, testPartition, endOf(log)); !bytes.Equal(a, b) {
			t.Fatal("equal states have different snapshots")
		}
	})
}

// drawLog draws batches and control batches of a few producers, with any sequences.
func drawLog(t *rapid.T) []batchfmt.Batch {
	var log []batchfmt.Batch
	for range rapid.IntRange(0, 40).Draw(t, "batches") {
		pid := rapid.SampledFrom([]batchfmt.ProducerID{0, 1, 2, gatewayPID}).Draw(t, "pid")
		seq := batchfmt.Seq(rapid.Int64Range(0, 60).Draw(t, "sequence"))
		epoch := batchfmt.Epoch(rapid.Uint32Range(0, 3).Draw(t, "epoch"))
		w := world{t: t}
		var b batchfmt.Batch
		switch {
		case pid == batchfmt.NoProducer:
			b = w.copy(plainBatch(t))
		case rapid.IntRange(0, 4).Draw(t, "control") == 0:
			kind := rapid.SampledFrom([]batchfmt.ControlKind{batchfmt.ControlFence, batchfmt.ControlClose}).Draw(t, "kind")
			c := batchfmt.Control{Kind: kind, MinEpoch: epoch, Floor: seq, Last: seq + batchfmt.Seq(rapid.Int64Range(-3, 30).Draw(t, "length"))}
			c.Last = max(c.Last, NoSequence)
			bytes := batchfmt.AppendControl(nil, pid, epoch, c)
			var err error
			if b, err = batchfmt.Parse(bytes); err != nil {
				t.Fatal(err)
			}
		default:
			b = w.seal(pid, epoch, seq, rapid.IntRange(1, 9).Draw(t, "records"))
		}
		b.Stamp(batchfmt.Stamp{BaseOffset: endOf(log)})
		log = append(log, b)
	}
	return log
}

func plainBatch(t *rapid.T) batchfmt.Batch {
	var builder batchfmt.Builder
	if err := builder.Add(&batchfmt.Record{Value: []byte("plain")}); err != nil {
		t.Fatal(err)
	}
	bytes, err := builder.Seal(nil, batchfmt.Seal{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := batchfmt.Parse(bytes)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEqualSeesEveryDifference(t *testing.T) {
	for name, change := range map[string]func(*State){
		"forgotten":   func(s *State) { s.forgotten++ },
		"suspect":     func(s *State) { s.Lane(8).marks &^= markSuspect },
		"one more":    func(s *State) { s.Apply(Identity{PID: 99, Last: 1}, 500, nil) },
		"one less":    func(s *State) { delete(s.lanes, 8) },
		"last":        func(s *State) { s.Apply(ident(3, 20, 29), 500, nil) },
		"position":    func(s *State) { s.Lane(nativePID).setPosition([]byte("other")) },
		"epoch":       func(s *State) { s.Lane(8).epoch++ },
		"closed":      func(s *State) { s.Lane(nativePID).marks &^= markClosed },
		"last offset": func(s *State) { s.Lane(nativePID).lastOffset++ },
		"digest":      func(s *State) { s.Lane(nativePID).window[0].digest++ },
	} {
		s := goldenState()
		if !Equal(s, goldenState()) {
			t.Fatal("a state differs from itself")
		}
		if change(s); Equal(s, goldenState()) || Equal(goldenState(), s) {
			t.Errorf("%s: the difference is not seen", name)
		}
	}
}

// FuzzParseSnapshot: bytes are refused, or they are the one snapshot of what they say.
func FuzzParseSnapshot(f *testing.F) {
	f.Add(AppendSnapshot(nil, New(Limits{}), testPartition, 0))
	f.Add(AppendSnapshot(nil, goldenState(), testPartition, 1000))
	f.Fuzz(func(t *testing.T, b []byte) {
		checkParse(t, b)
		if len(b) >= snapHeaderSize+snapCheckSize {
			checkParse(t, sealSnapshot(bytes.Clone(b))) // past the checksum
		}
	})
}

func checkParse(t *testing.T, b []byte) {
	s, end, err := ParseSnapshot(b, &testPartition)
	if err != nil {
		var se *SnapshotError
		if !errors.As(err, &se) || se.Offset < 0 || se.Offset > max(len(b), snapOffSize) {
			t.Fatalf("the error is %v", err)
		}
		return
	}
	if again := AppendSnapshot(nil, s, testPartition, end); !bytes.Equal(again, b) {
		t.Fatalf("parsed\n%x, written again\n%x", b, again)
	}
	for pid, l := range s.All() {
		id := Identity{PID: pid, Base: l.Last() + 1, Last: l.Last() + 1}
		Decide(Right{Gateway: InGatewaySpace(pid)}, l, id, Evidence{})
		s.Apply(id, end, nil)
	}
}
