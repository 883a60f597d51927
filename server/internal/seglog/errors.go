package seglog

import (
	"errors"
	"fmt"

	"github.com/quoin-io/quoin/batchfmt"
)

var (
	// ErrBroken is what a log answers for ever after a sync failed, or after a failed
	// write could not be undone. Only a new Open tells what the disk has. Reads below
	// what was durable before go on. The cause is wrapped beside it.
	ErrBroken = errors.New("log is broken")
	// ErrClosed is the answer after Close or Remove.
	ErrClosed = errors.New("log is closed")
	// ErrOutOfRange is the answer to a read from an offset that the log does not have:
	// below its start or above its end.
	ErrOutOfRange = errors.New("offset is out of range")
	// ErrOrder is the answer to a group that does not follow on: a wrong base offset, a
	// term below the last one, or a durable offset that cannot be. Nothing was written.
	ErrOrder = errors.New("batches do not follow on")

	// errReadBack is why a recovery fails on a disk that gives back something else than
	// was written a moment before.
	errReadBack = errors.New("the disk does not give back what was written")
)

// A VersionError says that a newer release has written into the log. This one leaves it as it
// is: what it cannot read is not damage, and nothing of it may be cut off or put aside.
type VersionError struct {
	What    string // of which the version is
	Version int
	Known   int   // the newest that is known here
	Why     error // what of a known version is not known; else nil
}

func (e *VersionError) Error() string {
	if e.Why != nil {
		return fmt.Sprintf("%s is of a newer release, %v: start a newer release", e.What, e.Why)
	}
	return fmt.Sprintf("%s has version %d, the newest that this release knows is %d: start a newer release", e.What, e.Version, e.Known)
}

// A CorruptError says where stored bytes are not what was written.
type CorruptError struct {
	Segment  string          // name of the file
	Offset   batchfmt.Offset // the first offset that cannot be read
	Position int64           // where in the file, in bytes
	// Next is the offset from which reading may go on, if that is known; else 0. It is
	// greater than Offset.
	Next   batchfmt.Offset
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("segment %s is damaged at offset %d, byte %d: %s", e.Segment, e.Offset, e.Position, e.Reason)
}
