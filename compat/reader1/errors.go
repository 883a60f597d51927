package reader1

import "fmt"

// An UnsupportedVersionError says that a batch has a version that this reader does not know.
// Nothing of the batch was consumed.
type UnsupportedVersionError struct {
	Version uint8 // of the batch
	// Size is how many bytes the batch has, for a caller who chooses to go on behind it. It
	// is 0 when that is not certain: the first 48 bytes are not all there, or the front
	// check does not agree with them.
	Size int
}

func (e *UnsupportedVersionError) Error() string {
	return fmt.Sprintf("batch version %d is not supported, this reader knows version 1: upgrade the reader, or ask the server for version 1", e.Version)
}

// A ShortError says that what is there may become a batch when more bytes come.
type ShortError struct {
	Need int // how many bytes lack, at least; 1 or more
}

func (e *ShortError) Error() string { return fmt.Sprintf("batch: %d bytes lack", e.Need) }

// A CorruptError says that bytes are no good batch.
type CorruptError struct {
	Field  string // of the layout or of a record, such as "checksum" or "record key"
	Offset int    // of the field in the batch; for fields of records in the section after decompression
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("batch: %s at byte %d: %s", e.Field, e.Offset, e.Reason)
}

func corrupt(field string, off int, format string, args ...any) error {
	return &CorruptError{Field: field, Offset: off, Reason: fmt.Sprintf(format, args...)}
}
