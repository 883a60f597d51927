package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/rogpeppe/go-internal/testscript"
	bolt "go.etcd.io/bbolt"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/catalog"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/seglog"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// The store that scripts look at: topic "orders" with two partitions. Partition 0 has twelve
// batches of ten records and two fences, in three segments:
//
//	segment 0    batches 0 to 30, at bytes 32, 1276, 2520 and 3764; a fence of offset 40 at 5008
//	segment 40   batches 40 to 70, at the same places
//	segment 80   batches 80 to 110, likewise, and a fence of offset 120 at 5008
//
// Partition 1 is empty.
const (
	storeTime    = 1_700_000_000_000 // Unix milliseconds
	storeSegment = 4*storeBatch + 300
	storeBatch   = 1244 // bytes
)

// makeStore makes it in a directory, as it is after a server has stopped, and sets P0 and
// P1, the directories of the partitions, and ID, that of the topic. Two stores differ in the
// id, and in the time at which segments were made, if a delay is given.
func makeStore(ts *testscript.TestScript, _ bool, args []string) {
	data := ts.MkAbs(args[0])
	made := time.UnixMilli(storeTime)
	if len(args) > 1 {
		later, err := time.ParseDuration(args[1])
		ts.Check(err)
		made = made.Add(later)
	}
	ts.Check(os.MkdirAll(data, 0o700))
	c, err := catalog.Open(data, catalog.Options{})
	ts.Check(err)
	defer c.Close()
	topic, err := c.CreateTopic("orders", 2, catalog.TopicConfig{})
	ts.Check(err)
	ts.Setenv("ID", topic.ID.String())
	for n := range topic.Partitions {
		dir := filepath.Join(args[0], "topics", topic.ID.String(), strconv.Itoa(int(n)))
		ts.Setenv(fmt.Sprintf("P%d", n), dir)
		l, _, err := seglog.Open(vfs.OS, ts.MkAbs(dir), seglog.Config{
			SegmentBytes: storeSegment, FillBytes: -1, Now: func() time.Time { return made },
		})
		ts.Check(err)
		_, err = c.NextTerm(topic.ID, n, 0)
		ts.Check(err)
		if n == 0 {
			ts.Check(fillStore(l))
			ts.Check(snapshotAt(ts.MkAbs(dir), 120, 0))
		}
		ts.Check(l.Close())
	}
}

// snapshotAt writes a snapshot of a partition that has no producers, and whose table of
// retired ones is of a generation.
func snapshotAt(dir string, end batchfmt.Offset, generation uint64) error {
	state := producerstate.New(producerstate.Limits{})
	state.SetRetired(generation)
	b := producerstate.AppendSnapshot(nil, state, *partitionOf(dir), end)
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("producers-%020d.snap", end)), b, 0o600)
}

// writeSnapshot is snapshotAt for scripts: directory, offset.
func writeSnapshot(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(snapshotAt(ts.MkAbs(args[0]), batchfmt.Offset(toInt(ts, args[1])), 0))
}

func toInt(ts *testscript.TestScript, s string) int {
	n, err := strconv.Atoi(s)
	ts.Check(err)
	return n
}

// snapshotVersion gives a snapshot a version that nobody knows, with a right check.
func snapshotVersion(ts *testscript.TestScript, _ bool, args []string) {
	change(ts, args[0], func(b []byte) []byte {
		b[3] = 99
		b = b[:len(b)-8]
		return binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b))
	})
}

// deleteTopic leaves a topic as a kill within its deletion does.
func deleteTopic(ts *testscript.TestScript, _ bool, args []string) {
	c, err := catalog.Open(ts.MkAbs(args[0]), catalog.Options{})
	ts.Check(err)
	for _, t := range c.Topics() {
		ts.Check(c.DeleteTopic(t.ID))
	}
	ts.Check(c.Close())
}

// splice puts what another file has from a position on in place of the rest of a file.
func splice(ts *testscript.TestScript, _ bool, args []string) {
	other, err := os.ReadFile(ts.MkAbs(args[2]))
	ts.Check(err)
	change(ts, args[0], func(b []byte) []byte {
		at, err := strconv.Atoi(args[1])
		ts.Check(err)
		from, err := strconv.Atoi(args[3])
		ts.Check(err)
		return append(b[:at], other[from:]...)
	})
}

func fillStore(l *seglog.Log) error {
	next := batchfmt.Offset(0)
	put := func(raw []byte) error {
		b, err := batchfmt.Parse(raw)
		if err != nil {
			return err
		}
		b.Stamp(batchfmt.Stamp{BaseOffset: next, AppendTime: storeTime, Term: 1, Durable: next})
		next = b.NextOffset()
		if err := l.Append([]batchfmt.Batch{b}); err != nil {
			return err
		}
		_, err = l.Sync()
		return err
	}
	fence := func() error {
		return put(batchfmt.AppendControl(nil, 9, 1, batchfmt.Control{Kind: batchfmt.ControlFence, MinEpoch: 1, Last: -1}))
	}
	for i := range 12 {
		if i == 4 {
			if err := fence(); err != nil {
				return err
			}
		}
		var builder batchfmt.Builder
		for n := range 10 {
			value := fmt.Sprintf("record %d %s", i*10+n, strings.Repeat(".", 100))[:105]
			if err := builder.Add(&batchfmt.Record{Timestamp: storeTime, Value: []byte(value)}); err != nil {
				return err
			}
		}
		raw, err := builder.Seal(nil, batchfmt.Seal{ProducerID: 9, BaseSequence: batchfmt.Seq(i * 10)})
		if err != nil {
			return err
		}
		if err := put(raw); err != nil {
			return err
		}
	}
	return fence()
}

// flipByte changes a byte of a file: the file, and its position.
func flipByte(ts *testscript.TestScript, _ bool, args []string) {
	change(ts, args[0], func(b []byte) []byte {
		at, err := strconv.Atoi(args[1])
		ts.Check(err)
		b[at] ^= 0x40
		return b
	})
}

// cutFile takes the end of a file off, from a position on.
func cutFile(ts *testscript.TestScript, _ bool, args []string) {
	change(ts, args[0], func(b []byte) []byte {
		at, err := strconv.Atoi(args[1])
		ts.Check(err)
		return b[:at]
	})
}

func change(ts *testscript.TestScript, name string, edit func([]byte) []byte) {
	name = ts.MkAbs(name)
	b, err := os.ReadFile(name)
	ts.Check(err)
	ts.Check(os.WriteFile(name, edit(b), 0o600))
}

// damageRow changes a row of a catalog: directory, bucket; the first row is taken.
func damageRow(ts *testscript.TestScript, _ bool, args []string) {
	db, err := bolt.Open(filepath.Join(ts.MkAbs(args[0]), catalog.FileName), 0o600, nil)
	ts.Check(err)
	ts.Check(db.Update(func(tx *bolt.Tx) error {
		bucket := tx.Bucket([]byte(args[1]))
		key, value := bucket.Cursor().First()
		bad := append([]byte(nil), value...)
		bad[len(bad)-1] ^= 1
		return bucket.Put(key, bad)
	}))
	ts.Check(db.Close())
}

// status runs a command and wants this exit code, which exec cannot tell: status 7 quoin ...
func status(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if code != args[0] {
		ts.Fatalf("%s: exit status %s, want %s", strings.Join(args[1:], " "), code, args[0])
	}
}

// makeOddNames makes two files whose names need care: an escape sequence, and bytes that are
// no text.
func makeOddNames(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range []string{"a\x1b[2J", "b\xff"} {
		ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(args[0]), name), nil, 0o600))
	}
}

// sameFiles compares all files of two directories, by name and content.
func sameFiles(ts *testscript.TestScript, neg bool, args []string) {
	a, b := tree(ts, args[0]), tree(ts, args[1])
	if (a == b) == neg {
		ts.Fatalf("%s and %s: same is %v", args[0], args[1], a == b)
	}
}

func tree(ts *testscript.TestScript, dir string) string {
	var all strings.Builder
	dir = ts.MkAbs(dir)
	ts.Check(filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		b, err := os.ReadFile(name)
		fmt.Fprintf(&all, "%s %d\n%s\n", rel, len(b), b)
		return err
	}))
	return all.String()
}

// copyDir copies a directory to a place that it makes anew.
func copyDir(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.RemoveAll(ts.MkAbs(args[1])))
	ts.Check(os.CopyFS(ts.MkAbs(args[1]), os.DirFS(ts.MkAbs(args[0]))))
}
