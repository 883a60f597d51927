package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/quoin-io/quoin/server/internal/catalog"
	"github.com/quoin-io/quoin/server/internal/partition"
	"github.com/quoin-io/quoin/server/internal/producerindex"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/retired"
	"github.com/quoin-io/quoin/server/internal/seglog"
)

// partitionOf says which partition a directory is of, as its path does, or nil.
func partitionOf(dir string) *producerstate.Partition {
	dir, err := filepath.Abs(dir)
	n := number(filepath.Base(dir))
	if err != nil || n < 0 {
		return nil
	}
	id, err := catalog.ParseTopicID(filepath.Base(filepath.Dir(dir)))
	if err != nil {
		return nil
	}
	return &producerstate.Partition{TopicID: id, Number: int32(n)}
}

// producers verifies what a partition has about its producers besides the log.
func (v *verification) producers(name, dir string, log seglog.Report) error {
	snapshots, err := partition.VerifySnapshots(files, dir, partitionOf(dir), log.Start, log.End)
	if err != nil {
		return v.unreadable(name, err)
	}
	for _, f := range snapshots.Findings {
		v.found(finding{grade: wrong, kind: "snapshot", dir: name, file: f.File, reason: f.Reason})
	}
	if err := v.retired(name, dir, snapshots.Retired); err != nil {
		return err
	}
	return v.indexes(name, dir, log)
}

// retired verifies the table of producers that have left memory; a snapshot knows of its
// generation atLeast.
func (v *verification) retired(name, dir string, atLeast uint64) error {
	table, err := retired.Verify(files, dir, func(f retired.Finding) {
		g, kind := wrong, retiredRole
		switch f.Kind {
		case retired.FoundLeftover:
			g, kind = mended, string(f.Kind)
		case retired.FoundAside:
			g, kind = aside, string(f.Kind)
		}
		v.found(finding{grade: g, kind: kind, dir: name, file: f.File, reason: f.Reason})
	})
	switch {
	case err != nil:
		return v.unreadable(name, err)
	case table.Generation < atLeast:
		v.found(finding{grade: wrong, kind: retiredRole, dir: name, reason: fmt.Sprintf(
			"the table has generation %d, a snapshot knows of %d, so newer rows are missing", table.Generation, atLeast)})
	}
	return nil
}

// indexes verifies the producer indexes. One that is wrong costs a look-up the time to make
// it anew, so that is no damage; and that of the segment which is written has the end of the
// last stop in good order.
func (v *verification) indexes(name, dir string, log seglog.Report) error {
	segments, err := completeSegments(dir, log)
	if err != nil {
		return v.unreadable(name, err)
	}
	for _, f := range log.Files {
		base, temp, ok := producerindex.ParseName(f.Name)
		switch of, there := segments[f.Name]; {
		case !ok:
		case temp:
			v.found(finding{grade: mended, kind: leftover, dir: name, file: f.Name, reason: "it was being written"})
		case !there:
			v.found(finding{grade: mended, kind: leftover, dir: name, file: f.Name, reason: fmt.Sprintf("there is no segment %d", base)})
		default:
			err := verifyIndex(dir, of)
			if err != nil && !producerindex.MustRebuild(err) {
				return v.unreadable(name, err)
			}
			if err != nil {
				v.found(finding{grade: mended, kind: indexRole, dir: name, file: f.Name,
					reason: "the next look-up makes it anew: " + indexReason(err)})
			}
		}
	}
	return nil
}

func verifyIndex(dir string, of producerindex.Segment) error {
	x, err := producerindex.Open(files, dir, of)
	if err != nil {
		return err
	}
	return errors.Join(x.Verify(), x.Close())
}

func indexReason(err error) string {
	if errors.Is(err, producerindex.ErrForeign) {
		return "it is of another segment, or of this one when it had another end"
	}
	return err.Error()
}

// completeSegments are the segments that are there, by the name of the index that each would
// have.
func completeSegments(dir string, log seglog.Report) (map[string]producerindex.Segment, error) {
	all := make(map[string]producerindex.Segment)
	next := log.End
	for i := len(log.Files) - 1; i >= 0; i-- { // by name: the newest first
		f := log.Files[i]
		if f.Role != "segment" {
			continue
		}
		stem := strings.TrimSuffix(f.Name, ".seg")
		base, _, ok := producerindex.ParseName(stem + ".pix")
		if !ok {
			return nil, fmt.Errorf("%s: it is not called as a segment is", f.Name)
		}
		check, err := segmentCheck(filepath.Join(dir, f.Name))
		if err != nil {
			return nil, err
		}
		all[producerindex.Name(base)] = producerindex.Segment{Base: base, Check: check, Next: next}
		next = base
	}
	return all, nil
}

// segmentCheck reads the last field of the header of a segment, which is a check over what
// stands before it and names the file. It is 0 if the header does not verify.
func segmentCheck(name string) (uint64, error) {
	f, err := files.Open(name)
	if err != nil {
		return 0, err
	}
	head := make([]byte, seglog.SegmentHeaderBytes)
	n, err := f.ReadAt(head, 0)
	if err := f.Close(); err != nil {
		return 0, err
	}
	if n < len(head) {
		return 0, shortIsNone(err)
	}
	body, check := head[:len(head)-8], binary.LittleEndian.Uint64(head[len(head)-8:])
	if !seglog.IsSegment(head) || xxhash.Sum64(body) != check {
		return 0, nil
	}
	return check, nil
}

// shortIsNone is for a file that is shorter than its header, which is no fault of the disk.
func shortIsNone(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return err
	}
	return nil
}
