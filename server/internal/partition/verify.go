package partition

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// A SnapshotFinding is what is wrong with a producer snapshot.
type SnapshotFinding struct {
	File   string // empty if it is about all of them
	Reason string
}

func (f SnapshotFinding) String() string {
	if f.File == "" {
		return f.Reason
	}
	return f.File + ": " + f.Reason
}

// A SnapshotReport is what VerifySnapshots has seen.
type SnapshotReport struct {
	Count    int
	Findings []SnapshotFinding
	Retired  uint64 // generation that the retired table has at least, as the newest snapshot has it
}

// VerifySnapshots reads the producer snapshots in the directory of a partition that is not
// open, and says which of them do not verify, are not of this partition (nil if it is not
// known which one it is), or cannot be of a log whose records are [start, end), and whether
// the history of the producers is lost. A snapshot that ends before the start is none of these
// as long as a newer one goes on from there. It changes nothing; the error is the disk's.
func VerifySnapshots(fsys vfs.FS, dir string, of *producerstate.Partition, start, end batchfmt.Offset) (SnapshotReport, error) {
	var r SnapshotReport
	names, err := snapshots(fsys, dir)
	if err != nil {
		return r, err
	}
	newest := batchfmt.Offset(-1) // end of the one that a start would take
	for _, name := range names {
		state, upTo, err := readSnapshot(fsys, filepath.Join(dir, name), of)
		switch {
		case errors.Is(err, fs.ErrPermission):
			return r, err
		case err != nil:
			r.found(name, "%v", err)
			continue
		case snapshotName(upTo) != name:
			r.found(name, "it ends at offset %d, and should be called %s", upTo, snapshotName(upTo))
		case upTo > end:
			r.found(name, "it reaches beyond the end of the log: it ends at offset %d, the log at %d", upTo, end)
		}
		newest, r.Retired = upTo, max(r.Retired, state.Retired())
	}
	r.Count = len(names)
	if start > 0 && (newest < start || newest > end) {
		r.found("", "the history of the producers is lost: the log begins at offset %d, and the newest snapshot that verifies does not go on from there", start)
	}
	return r, nil
}

func (r *SnapshotReport) found(file, format string, args ...any) {
	r.Findings = append(r.Findings, SnapshotFinding{file, fmt.Sprintf(format, args...)})
}
