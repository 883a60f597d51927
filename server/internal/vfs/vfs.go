package vfs

import "io"

// FS is what the storage code needs of a file system. Names are paths in the syntax of
// the operating system. Errors are those of io/fs: a missing name is fs.ErrNotExist, a
// name that must not exist yet is fs.ErrExist. All methods are safe for concurrent use.
type FS interface {
	// Create makes an empty file and opens it. The name must not exist.
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// Rename gives a file another name, in place of what had that name before.
	Rename(oldName, newName string) error
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// MkdirAll makes a directory and those above it that do not exist.
	MkdirAll(dir string) error
	// List returns the base names in a directory, sorted.
	List(dir string) ([]string, error)
	// SyncDir makes the names in a directory durable: those that were made, those that
	// were renamed and those that are gone.
	SyncDir(dir string) error
	// Stat returns the size of a file in bytes. For a directory the size means nothing.
	Stat(name string) (size int64, err error)
	// RemoveAll removes a directory with everything in it. It is no error that it does
	// not exist.
	RemoveAll(dir string) error
}

// File is an open file. ReadAt, WriteAt, Size and Sync are safe for concurrent use.
type File interface {
	io.ReaderAt
	io.WriterAt
	// Truncate sets the length; bytes that it adds are zero.
	Truncate(size int64) error
	// Sync makes durable what was written and the length that was set before the call.
	// After it failed, what the file holds on the disk is not known, and a later call
	// that succeeds does not change that.
	Sync() error
	// Size is the length in bytes.
	Size() (int64, error)
	Close() error
}

// DropCache asks the system to forget what it holds of f in memory, so that the next
// read shows what the disk has. After a failed sync the two may differ: the system takes
// pages that it could not write for clean. Pages that are not written yet stay; sync
// first. The system may not do it, and a file that cannot does nothing.
func DropCache(f File) error {
	if d, ok := f.(interface{ dropCache() error }); ok {
		return d.dropCache()
	}
	return nil
}
