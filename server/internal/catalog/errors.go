package catalog

import (
	"errors"
	"fmt"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
)

// Refusals. All are compared with errors.Is.
var (
	// ErrLocked: another process has the catalog of this data directory open.
	ErrLocked = errors.New("another server has this data directory open")
	// ErrVersion: the file, or a row of it, was written in a format that this binary does not
	// know; the error is a *VersionError.
	ErrVersion = errors.New("unknown catalog format")
	// ErrDamaged: bytes of the file are not what was written.
	ErrDamaged = errors.New("catalog is damaged")
	// ErrClosed: the catalog was closed.
	ErrClosed = errors.New("catalog is closed")
	// ErrBroken: a commit failed with an unknown outcome; only opening the catalog anew helps.
	ErrBroken = errors.New("catalog stopped after a failed commit")
	// ErrFull: the disk is full. Nothing has happened; the same request may be made again.
	ErrFull = errors.New("no space left for the catalog")

	// ErrName: a name breaks the rules; the error is a *NameError.
	ErrName = errors.New("bad name")
	// ErrTopicExists: a topic of this name is there.
	ErrTopicExists = errors.New("topic exists")
	// ErrUnknownTopic: no topic has this name or id.
	ErrUnknownTopic = errors.New("unknown topic")
	// ErrTopicLimit: Options.MaxTopics topics are there.
	ErrTopicLimit = errors.New("topic limit reached")
	// ErrPartitions: a partition count or number is out of its range.
	ErrPartitions = errors.New("bad partition count")
	// ErrConfig: a topic setting is out of its range.
	ErrConfig = errors.New("bad topic configuration")

	// ErrUnknownProducer: no producer has this id, or its key is not one that was ever given for it.
	ErrUnknownProducer = errors.New("unknown producer id")
	// ErrProducerClosed: the producer was closed by its holder, and the key was the holder's.
	ErrProducerClosed = errors.New("producer is closed")
	// ErrWrongKey: the key was never given out for this producer id.
	ErrWrongKey = errors.New("wrong producer key")
	// ErrFenced: a newer instance holds the name; the error is a *FencedError.
	ErrFenced = errors.New("a newer instance holds the producer")
	// ErrProducerLimit: Options.MaxProducers producers are there.
	ErrProducerLimit = errors.New("producer limit reached")
	// ErrExhausted: a counter stands at its highest value and never wraps.
	ErrExhausted = errors.New("counter exhausted")
	// ErrZeroID: an instance or request id is all zeros, which stands for "none".
	ErrZeroID = errors.New("id is all zeros")
)

// A VersionError says that the file, or a row of it, is of another format version. What
// another release has written is not damage, and is left as it is.
type VersionError struct {
	Path  string // empty for a value that was decoded outside of a file
	Row   string // such as "topic row"; empty when the file as a whole is meant
	Found uint32 // what the file, or the row, says
	Known uint32 // what this binary reads and writes
}

func (e *VersionError) Error() string {
	who := "a newer"
	if e.Found < e.Known {
		who = "an older"
	}
	subject, what := e.Path, "format"
	if e.Row != "" {
		subject, what = e.Row, "row version"
		if e.Path != "" {
			subject = e.Path + ": " + e.Row
		}
	}
	return fmt.Sprintf("%s has %s %d, written by %s version of quoin; this one reads %s %d: start the version that wrote it, nothing was changed",
		subject, what, e.Found, who, what, e.Known)
}

func (e *VersionError) Is(target error) bool { return target == ErrVersion }

// A DamagedError says which part of the catalog does not make sense.
type DamagedError struct {
	Path   string // file, empty for a value that was decoded outside of one
	What   string // such as "producer 17", "topic row" or "file"
	Reason string
}

func (e *DamagedError) Error() string {
	s := "catalog: " + e.What + ": " + e.Reason
	if e.Path != "" {
		s += " (" + e.Path + ": restore it from a backup; a new catalog would give producer ids a second time)"
	}
	return s
}

func (e *DamagedError) Is(target error) bool { return target == ErrDamaged }

// A NameError says what is wrong with a name.
type NameError struct {
	Kind   string // "topic" or "producer"
	Name   string // as given, at most 64 bytes of it
	Reason string
}

func (e *NameError) Error() string {
	return fmt.Sprintf("%s name %q: %s", e.Kind, e.Name, e.Reason)
}

func (e *NameError) Is(target error) bool { return target == ErrName }

// A FencedError says who holds what the caller held once.
type FencedError struct {
	PID   batchfmt.ProducerID // the id that the caller named or had
	Epoch batchfmt.Epoch      // the present epoch
	Since time.Time           // when the present holder got it, by the server's clock, to the millisecond
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("producer %d: a newer instance holds it with epoch %d since %s",
		e.PID, e.Epoch, e.Since.UTC().Format(time.RFC3339Nano))
}

func (e *FencedError) Is(target error) bool { return target == ErrFenced }
