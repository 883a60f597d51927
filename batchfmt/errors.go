package batchfmt

import "fmt"

// A FormatError says what is wrong with bytes that should be a batch.
type FormatError struct {
	Field  string // the field of the layout, such as "size" or "record key"
	Offset int    // where it stands, in bytes from the start of the batch; within the decompressed section for record fields
	Reason string
	// Need is how many more bytes are needed at least, when the input is a prefix of
	// what could be a batch; else 0.
	Need int
	// Version is the batch version when the error is that this package does not know
	// it; else 0. Front.Size still allows to step over such a batch.
	Version Version
	// Newer is set when the batch is of a later release, as far as one can tell: its version,
	// or a bit, a number or an extension that must be known, is not. Where the checksums agree
	// nothing is damaged, and whoever reads is to be upgraded.
	Newer bool
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("batch: %s at byte %d: %s", e.Field, e.Offset, e.Reason)
}

// Short reports whether the input may become a batch when more bytes arrive.
func (e *FormatError) Short() bool { return e.Need > 0 }

func fieldError(field string, off int, format string, args ...any) error {
	return &FormatError{Field: field, Offset: off, Reason: fmt.Sprintf(format, args...)}
}

// newerError is fieldError for what a later release may have given a meaning.
func newerError(field string, off int, format string, args ...any) error {
	err := fieldError(field, off, format, args...).(*FormatError)
	err.Newer = true
	return err
}

func short(b []byte, want int) error {
	return &FormatError{
		Field: "size", Offset: len(b), Need: want - len(b),
		Reason: fmt.Sprintf("%d bytes are there, %d are needed", len(b), want),
	}
}
