package credentials

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// maxFileBytes bounds what is read of any file: a long chain has about 10 KiB.
const maxFileBytes = 64 << 10

const newSuffix = ".new"

// A store is the files of one data directory.
type store struct {
	dir       string
	tightened []string
}

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }

// read returns a file after its permissions were seen to, or fs.ErrNotExist.
func (s *store) read(name string) ([]byte, error) {
	path := s.path(name)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(path, 0o600); err != nil {
			return nil, &FileError{
				Path: path, Kind: err,
				Reason: fmt.Sprintf("has permissions %04o and they cannot be changed: %v", info.Mode().Perm(), err),
				Remedy: "make the server's user its owner and set 0600",
			}
		}
		s.tightened = append(s.tightened, path)
	}
	b, err := readBounded(path)
	if errors.Is(err, errSize) {
		return nil, &FileError{Path: path, Kind: ErrDamaged, Reason: err.Error(), Remedy: "restore it from a backup"}
	}
	return b, err
}

var errSize = fmt.Errorf("is larger than %d bytes", maxFileBytes)

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(b) > maxFileBytes {
		err = errSize
	}
	return b, err
}

// write makes a file that is there complete or not at all, whenever the power fails.
func (s *store) write(name string, b []byte) (err error) {
	s.removeStale(name)
	f, err := os.CreateTemp(s.dir, name+".*"+newSuffix) // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), s.path(name)); err != nil {
		return err
	}
	return syncDir(s.dir)
}

// removeStale removes what a crash in write left. That it cannot be removed does no
// harm: the next temporary file has another name.
func (s *store) removeStale(name string) {
	stale, _ := filepath.Glob(s.path(name + ".*" + newSuffix)) // fails for a bad pattern only
	for _, path := range stale {
		os.Remove(path)
	}
}

func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // directories cannot be synced there
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
