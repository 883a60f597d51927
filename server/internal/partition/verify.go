package partition

import (
	"path/filepath"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// A SnapshotFinding is a producer snapshot that cannot be used.
type SnapshotFinding struct {
	File   string
	Reason string
}

// VerifySnapshots reads the producer snapshots in the directory of a partition that is not
// open, and says how many there are and which of them cannot be used for a log that ends
// at end. It changes nothing.
func VerifySnapshots(fsys vfs.FS, dir string, end batchfmt.Offset) (count int, bad []SnapshotFinding, err error) {
	names, err := snapshots(fsys, dir)
	if err != nil {
		return 0, nil, err
	}
	for _, name := range names {
		_, upTo, err := readSnapshot(fsys, filepath.Join(dir, name))
		switch {
		case err != nil:
			bad = append(bad, SnapshotFinding{name, err.Error()})
		case upTo > end:
			bad = append(bad, SnapshotFinding{name, "it reaches beyond the end of the log"})
		}
	}
	return len(names), bad, nil
}
