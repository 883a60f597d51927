package source

import (
	"context"
	"errors"
	"iter"

	"github.com/quoin-io/quoin/sdk"
)

// A Position is where a source stands, in at most [sdk.MaxPosition] bytes (64) that mean
// something to the source alone; nil is its beginning.
type Position = []byte

// An Item is what is stored as one: its records come into one batch together with the
// position, or none of them does.
type Item struct {
	// Records must fit into one batch of the topic. An item without any is not stored: its
	// position goes along with the next item that has some, and until then a run that begins
	// again reads it again.
	Records []sdk.Record
	// Position is where the source stands behind Records: reading from it gives the next item
	// first. It is neither empty nor that of the item before, for then nobody could tell
	// whether this item is stored.
	Position Position
}

// A Source can be read again from any position that it gave out, in this process and in
// later ones, and then gives the same items in the same order.
type Source interface {
	// Read gives the items behind from, nil being the beginning. What an item points to may
	// be reused when yield returns.
	//
	// The end of the sequence is the end of the source, and of [Run]. A source that waits for
	// more must give up waiting when ctx ends, and then just ends its sequence. An error ends
	// the sequence too, and the source is read again after a pause, from the position that is
	// stored last; not so with [Stop].
	Read(ctx context.Context, from Position) iter.Seq2[Item, error]
}

// Func is a function as a [Source].
type Func func(ctx context.Context, from Position) iter.Seq2[Item, error]

// Read calls f.
func (f Func) Read(ctx context.Context, from Position) iter.Seq2[Item, error] { return f(ctx, from) }

// Stop marks an error of a source as one that reading again does not mend. [Run] stores the
// items in front of it and returns it. Stop of nil is nil.
func Stop(err error) error {
	if err == nil {
		return nil
	}
	return &stopError{err}
}

type stopError struct{ err error }

func (e *stopError) Error() string { return e.err.Error() }
func (e *stopError) Unwrap() error { return e.err }

func isStop(err error) bool {
	var stop *stopError
	return errors.As(err, &stop)
}
