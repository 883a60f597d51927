//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package outbox

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes a lock that no other opening of the file has, or returns ErrInUse.
func lockFile(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrInUse
		default:
			return err
		}
	}
}
