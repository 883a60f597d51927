//go:build !darwin && !dragonfly && !freebsd && !illumos && !linux && !netbsd && !openbsd && !windows

package outbox

import (
	"errors"
	"os"
)

// lockFile refuses: without a lock that ends with the process two producers could send
// the same batches.
func lockFile(*os.File) error { return errors.ErrUnsupported }
