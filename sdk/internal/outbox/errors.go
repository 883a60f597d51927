package outbox

import (
	"errors"
	"fmt"

	"github.com/quoin-io/quoin/batchfmt"
)

var (
	// ErrInUse says that another process, or another Outbox of this one, has the directory.
	ErrInUse = errors.New("outbox: the directory is in use by another producer")
	// ErrFull says that batches without outcome take all the room that the outbox has. Every
	// outcome makes room. Nothing was put.
	ErrFull = errors.New("outbox: full: too much is without an outcome")
	// ErrTooLarge says that a batch is larger than half a segment. It will never fit.
	ErrTooLarge = errors.New("outbox: the batch is larger than half a segment")
	// ErrNoSpace says that the disk, or a quota, is full. What was put is still there, and a
	// Sync when there is room writes it.
	ErrNoSpace = errors.New("outbox: no space on the disk")
	// ErrFailed says that the disk failed. What the disk has is not known, so the outbox
	// takes and promises nothing any more; the first cause is wrapped. Opening the directory
	// again tells what is there.
	ErrFailed = errors.New("outbox: failed")
	// ErrClosed is returned by all methods after Close.
	ErrClosed = errors.New("outbox: closed")
	// ErrNoBatch says that an id is not that of a batch without outcome.
	ErrNoBatch = errors.New("outbox: no batch without an outcome has this id")
	// ErrNoBody says that the sealed bytes of a batch are not there any more: they are
	// damaged, or the batch was told to be unknown and is never to be sent again.
	ErrNoBody = errors.New("outbox: the bytes of the batch are not kept")
	// ErrMustNotSend says that a batch was told to be unknown and cannot be replaced.
	ErrMustNotSend = errors.New("outbox: the batch was told to be unknown, it must not be sent again")
	// ErrUnbound says that the producer id is not known yet: see Outbox.Bind.
	ErrUnbound = errors.New("outbox: not bound to a producer id")
)

// A BindingError says that the directory belongs to somebody else. Nothing was touched.
type BindingError struct {
	Dir        string
	Have, Want Binding
}

func (e *BindingError) Error() string {
	return fmt.Sprintf("outbox: %s holds the batches of %s, not of %s", e.Dir, e.Have, e.Want)
}

// A VersionError says that a segment has a format that this package does not know.
// Nothing was touched.
type VersionError struct {
	File    string
	Version uint32
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("outbox: %s has format version %d, only %d is known", e.File, e.Version, formatVersion)
}

// A DamageError lists what could not be read. Everything else was found.
type DamageError struct {
	Dir     string
	Damages []Damage // at least one, at most 1024
	More    int      // how many others there are
}

func (e *DamageError) Error() string {
	d := e.Damages[0]
	if len(e.Damages) == 1 && e.More == 0 {
		return fmt.Sprintf("outbox: %s is damaged: %s", e.Dir, d)
	}
	return fmt.Sprintf("outbox: %s is damaged in %d places, the first: %s", e.Dir, len(e.Damages)+e.More, d)
}

// Damage is one damaged place.
type Damage struct {
	File   string // base name
	Offset int64  // in the file
	Bytes  int64  // that are not readable as what they should be
	Reason string
	Loss   Loss
	// Batch is what is known of the batch that was damaged, with LossBatch. Its Partition is
	// -1 when that is not known; its ID is 0 then.
	Batch *Batch
	// Missing are sequences that were put and cannot be found, as far as the batches around
	// them tell, with LossUnknown.
	Missing []Range
}

// Range is sequences of a partition, both ends included.
type Range struct {
	Partition   int32
	First, Last batchfmt.Seq
}

// Loss says what a damage costs.
type Loss uint8

const (
	// LossNone is a damage to what is there twice.
	LossNone Loss = iota
	// LossBatch is the bytes of one batch whose identity is known.
	LossBatch
	// LossUnknown is anything: batches, or marks of their outcome.
	LossUnknown
)

func (d Damage) String() string {
	s := fmt.Sprintf("%s, %d bytes at %d: %s", d.File, d.Bytes, d.Offset, d.Reason)
	switch b := d.Batch; {
	case b != nil && b.Partition < 0:
		s += fmt.Sprintf("; it holds sequences %d to %d, epoch %d, of a partition not known", b.Base, b.Last, b.Epoch)
	case b != nil:
		s += fmt.Sprintf("; it holds sequences %d to %d, epoch %d, of partition %d", b.Base, b.Last, b.Epoch, b.Partition)
	}
	for _, m := range d.Missing {
		s += fmt.Sprintf("; sequences %d to %d of partition %d are missing", m.First, m.Last, m.Partition)
	}
	return s
}
