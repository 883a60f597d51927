package sorttable

import (
	"errors"
	"fmt"
)

var (
	// ErrOrder is the answer of Write to rows whose keys do not rise.
	ErrOrder = errors.New("keys do not rise")
	// ErrTooLarge is the answer of Write to what is over a limit: a value, the meta, the
	// number of rows or of blocks.
	ErrTooLarge = errors.New("over a limit of a sorted table")
	// ErrClosed is the answer of a table after Close.
	ErrClosed = errors.New("sorted table is closed")
)

// A FormatError says where a file is not a table, or not the one that was written.
type FormatError struct {
	Name   string // of the file
	What   string // the part: header, filter, fences, block, row
	At     int64  // where that part begins, or for a row the row, in bytes from the start of the file
	Reason string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("sorted table %s: %s at byte %d: %s", e.Name, e.What, e.At, e.Reason)
}

// fault is a FormatError whose file is not known yet.
func fault(what string, at int64, format string, args ...any) *FormatError {
	return &FormatError{What: what, At: at, Reason: fmt.Sprintf(format, args...)}
}
