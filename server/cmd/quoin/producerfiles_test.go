package main

import (
	"bytes"
	"fmt"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerindex"
	"github.com/quoin-io/quoin/server/internal/retired"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// writeRetired puts rows of so many producers into the retired table of a partition, each
// time it is called into a run of their own: directory, count.
func writeRetired(ts *testscript.TestScript, _ bool, args []string) {
	table, _, err := retired.Open(vfs.OS, ts.MkAbs(args[0]), retired.Options{})
	ts.Check(err)
	var rows []retired.Row
	for n := range toInt(ts, args[1]) {
		rows = append(rows, retired.Row{PID: batchfmt.ProducerID(n + 1), Value: bytes.Repeat([]byte{byte(n)}, 100)})
	}
	ts.Check(table.Put(rows))
	ts.Check(table.Close())
}

// writeIndex writes the producer index of a segment of partition 0 of the store, as it is
// when the segment ends at an offset: directory, base offset, end.
func writeIndex(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	base, end := toInt(ts, args[1]), toInt(ts, args[2])
	check, err := segmentCheck(filepath.Join(dir, fmt.Sprintf("%020d.seg", base)))
	ts.Check(err)
	var b producerindex.Builder
	for o := base; o < end; o += 10 {
		b.Add(producerindex.Batch{PID: 9, Base: batchfmt.Seq(o), Last: batchfmt.Seq(o + 9), Offset: batchfmt.Offset(o), Position: int64(o-base) / 10 * storeBatch})
	}
	_, err = b.Write(vfs.OS, dir, producerindex.Segment{Base: batchfmt.Offset(base), Check: check, Next: batchfmt.Offset(end)})
	ts.Check(err)
}

// setGeneration makes the snapshot at the end of partition 0 of the store one that knows of a
// generation of the retired table: directory, generation.
func setGeneration(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(snapshotAt(ts.MkAbs(args[0]), 120, uint64(toInt(ts, args[1]))))
}
