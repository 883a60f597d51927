package retired

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/quoin-io/quoin/server/internal/sorttable"
)

var (
	// ErrDamaged is the answer when what is asked for stood, or may have stood, where the
	// disk does not hold any more what was written. Asking again does not help; nothing may
	// be concluded about the producer. The cause is wrapped beside it.
	ErrDamaged = errors.New("retired table is damaged")
	// ErrClosed is the answer after Close.
	ErrClosed = errors.New("retired table is closed")
	// ErrRow is the answer to a row that cannot be put: no producer id, or a value of more
	// than MaxValueBytes.
	ErrRow = errors.New("not a row for the retired table")
)

// isDamage tells what is wrong with the bytes for good from what the system could not do
// this time.
func isDamage(err error) bool {
	var format *sorttable.FormatError
	return errors.As(err, &format) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrDamaged)
}

func damaged(err error) error { return fmt.Errorf("%w: %w", ErrDamaged, err) }
