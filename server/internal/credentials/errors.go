package credentials

import "errors"

var (
	// ErrDamaged: a file does not hold what it should; the error is a *FileError.
	ErrDamaged = errors.New("damaged credentials")
	// ErrMissing: a file is not there although the file that it belongs to is; the
	// error is a *FileError.
	ErrMissing = errors.New("missing credentials")
)

// A FileError says which file is wrong, in what way, and what to do about it.
type FileError struct {
	Path   string
	Reason string
	Remedy string // an instruction for the operator
	Kind   error  // ErrDamaged, ErrMissing or the system's error
}

func (e *FileError) Error() string {
	return e.Path + ": " + e.Reason + "; " + e.Remedy
}

func (e *FileError) Unwrap() error { return e.Kind }
