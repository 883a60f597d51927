package outbox

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	fileMode = 0o600
	dirMode  = 0o700
)

// filesystem is what an outbox needs of a file system. Only what was synced, of a file or of
// the names in a directory, is there after a power cut; anything else may be, also in
// parts.
type filesystem interface {
	create(name string) (file, error) // must not exist
	open(name string) (file, error)
	remove(name string) error
	mkdir(dir string) error
	exists(name string) (bool, error)
	list(dir string) ([]string, error) // sorted
	syncDir(dir string) error
	lock(name string) (io.Closer, error) // ErrInUse when somebody has it
}

type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
	size() (int64, error)
}

type osFS struct{}

func (osFS) create(name string) (file, error) {
	return openFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

func (osFS) open(name string) (file, error) { return openFile(name, os.O_RDWR) }

func openFile(name string, flag int) (file, error) {
	f, err := os.OpenFile(name, flag, fileMode)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) remove(name string) error { return os.Remove(name) }

func (osFS) mkdir(dir string) error {
	err := os.Mkdir(dir, dirMode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func (osFS) exists(name string) (bool, error) {
	_, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (osFS) list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (osFS) syncDir(dir string) error { return syncDir(dir) }

func (osFS) lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(&fs.PathError{Op: "lock", Path: name, Err: err}, f.Close())
	}
	return f, nil // the lock goes with the file, also when the process is killed
}

type osFile struct{ *os.File }

func (f osFile) size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// makeDir makes dir and what is missing above it, and makes their names durable. It does
// that for dir also when it was there: whoever made it may have been killed before.
func makeDir(fsys filesystem, dir string) error {
	parent := filepath.Dir(dir)
	if parent == dir {
		return nil
	}
	there, err := fsys.exists(parent)
	if err != nil {
		return err
	}
	if !there {
		if err := makeDir(fsys, parent); err != nil {
			return err
		}
	}
	there, err = fsys.exists(dir)
	if err != nil {
		return err
	}
	if err := fsys.mkdir(dir); err != nil {
		return err
	}
	err = fsys.syncDir(parent)
	if there && errors.Is(err, fs.ErrPermission) {
		return nil // whoever made it for us does not let us look at where it stands
	}
	return err
}
