package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func syncData(f *os.File) error {
	return onDescriptor(f, unix.Fdatasync)
}

func dropCache(f *os.File) error {
	return onDescriptor(f, func(fd int) error { return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) })
}

// onDescriptor runs a system call on the descriptor of f without taking f out of the
// care of the runtime, as File.Fd would. An interrupted call did nothing yet.
func onDescriptor(f *os.File, call func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	err = conn.Control(func(fd uintptr) {
		callErr = call(int(fd))
		for errors.Is(callErr, unix.EINTR) {
			callErr = call(int(fd))
		}
	})
	if err != nil {
		return os.ErrClosed // the one reason for which Control does not call
	}
	return callErr
}
