package vfs

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// MakeDir makes dir and those above it that are missing, one by one, and makes their
// names durable. So that a process killed in the middle leaves nothing in doubt, it also
// does that for the lowest one that was there already. Directories above that one are
// taken to be durable: whoever makes directories for durable data should use this, not
// MkdirAll.
func MakeDir(fsys FS, dir string) error {
	dir = filepath.Clean(dir)
	var chain []string // from dir upwards, the last one exists
	for p := dir; ; p = filepath.Dir(p) {
		chain = append(chain, p)
		_, err := fsys.Stat(p)
		if err == nil || p == filepath.Dir(p) {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for i := len(chain) - 1; i >= 0; i-- {
		if err := fsys.MkdirAll(chain[i]); err != nil {
			return err
		}
		err := fsys.SyncDir(filepath.Dir(chain[i]))
		if errors.Is(err, fs.ErrPermission) && i == len(chain)-1 && i > 0 {
			continue // whoever made this one for us does not let us look at where it stands
		}
		if err != nil {
			return err
		}
	}
	return nil
}
