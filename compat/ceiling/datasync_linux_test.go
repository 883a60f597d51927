package ceiling

import (
	"os"
	"syscall"
)

// datasync waits until the file's bytes are on disk.
func datasync(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
