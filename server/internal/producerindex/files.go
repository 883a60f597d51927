package producerindex

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/sorttable"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

const (
	suffix     = ".pix"
	nameDigits = 20
)

// Name is the name of the index of the segment with this base offset.
func Name(base batchfmt.Offset) string {
	return fmt.Sprintf("%0*d%s", nameDigits, int64(base), suffix)
}

// ParseName reports whether name is that of an index, and of which segment. temp says that it
// is one that is being written, or was when the process ended.
func ParseName(name string) (base batchfmt.Offset, temp, ok bool) {
	name, temp = strings.CutSuffix(name, sorttable.TempSuffix)
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != nameDigits {
		return 0, false, false
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, false, false
	}
	return batchfmt.Offset(n), temp, true
}

// Remove removes the index of a segment. It is no error that there is none. The caller syncs
// dir.
func Remove(fsys vfs.FS, dir string, base batchfmt.Offset) error {
	err := fsys.Remove(filepath.Join(dir, Name(base)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// List returns, rising, the base offsets of the indexes in dir. None of them was looked at.
func List(fsys vfs.FS, dir string) ([]batchfmt.Offset, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	var bases []batchfmt.Offset
	for _, name := range names {
		if base, temp, ok := ParseName(name); ok && !temp {
			bases = append(bases, base)
		}
	}
	return bases, nil
}

// Sweep removes from dir the indexes whose segment is not there any more, as has says, and
// those that were being written when a process ended. It is for the start, before anything
// writes there. Other files it leaves alone. It returns how many it removed; the caller
// syncs dir, or leaves it to the next one.
func Sweep(fsys vfs.FS, dir string, has func(base batchfmt.Offset) bool) (removed int, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		base, temp, ok := ParseName(name)
		if !ok || !temp && has(base) {
			continue
		}
		if err := fsys.Remove(filepath.Join(dir, name)); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}
