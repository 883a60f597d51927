package seglog

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/quoin-io/quoin/server/internal/vfs"
)

// readFull fills b from pos; less is io.ErrUnexpectedEOF.
func readFull(f io.ReaderAt, b []byte, pos int64) error {
	n, err := f.ReadAt(b, pos)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// writeFile makes a file with this content and syncs it, but not its name.
func writeFile(fsys vfs.FS, name string, content []byte) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func removeIfThere(fsys vfs.FS, name string) error {
	err := fsys.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeDir removes dir with everything in it, and makes that durable.
func removeDir(fsys vfs.FS, dir string) error {
	if err := fsys.RemoveAll(dir); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(filepath.Clean(dir)))
}
