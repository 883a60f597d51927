package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	maxFiles = 10_000 // in a directory
	maxLooks = 100    // at a directory that changes all the time
)

// compressed are names that a rotated file has when its lines cannot be read any more.
var compressed = []string{".gz", ".bz2", ".xz", ".zst", ".lz4", ".Z", ".zip"}

// A member is a file of the family.
type member struct {
	path string
	info fs.FileInfo
}

// A family is a file and what was rotated away from it. The oldest comes first, the file
// itself last.
type family []member

// look lists the family of a file. Rotation renames one file after the other, and who lists
// them meanwhile may miss one or see it twice: so it looks until it sees the same twice.
func look(path string) (family, error) {
	before, err := lookOnce(path)
	for range maxLooks {
		if err != nil {
			return nil, err
		}
		var now family
		now, err = lookOnce(path)
		if err == nil && slices.EqualFunc(before, now, sameMember) {
			return now, nil
		}
		before = now
	}
	return nil, fmt.Errorf("the files beside %s are renamed faster than they can be listed", path)
}

func sameMember(a, b member) bool { return a.path == b.path && os.SameFile(a.info, b.info) }

func lookOnce(path string) (family, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	if len(names) > maxFiles {
		return nil, fmt.Errorf("%s holds %d files, at most %d are looked at", filepath.Dir(path), len(names), maxFiles)
	}
	var all family
	for _, name := range names {
		if !belongs(name, filepath.Base(path)) {
			continue
		}
		m := member{path: filepath.Join(filepath.Dir(path), name)}
		m.info, err = os.Stat(m.path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was renamed just now, or is a link to nowhere
		case err != nil:
			return nil, err
		case m.info.Mode().IsRegular():
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b member) int { return compare(a, b, path) })
	return all, nil
}

// belongs reports whether a name is that of a file, or of one that was rotated away from it.
func belongs(name, base string) bool {
	rest, ok := strings.CutPrefix(name, base)
	if !ok || rest != "" && rest[0] != '.' && rest[0] != '-' {
		return false
	}
	return !slices.ContainsFunc(compressed, func(end string) bool { return strings.HasSuffix(name, end) }) || rest == ""
}

// compare sorts the older of two members before the newer.
//
//	one of them is the file itself    it is the newest
//	both names end in a number        the larger number is older
//	otherwise                         by the time of the last write, then by name
func compare(a, b member, live string) int {
	switch {
	case a.path == b.path:
		return 0
	case a.path == live:
		return 1
	case b.path == live:
		return -1
	}
	m, okA := rotation(a.path, live)
	n, okB := rotation(b.path, live)
	if okA && okB && m != n {
		if m > n {
			return -1
		}
		return 1
	}
	if c := a.info.ModTime().Compare(b.info.ModTime()); c != 0 {
		return c
	}
	return strings.Compare(a.path, b.path)
}

// rotation is the number n of path.n. Larger ones than a million are dates.
func rotation(path, live string) (uint64, bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(path, live+"."), 10, 64)
	return n, err == nil && n < 1_000_000
}

// index is the place of a file, or -1.
func (all family) index(info fs.FileInfo) int {
	return slices.IndexFunc(all, func(m member) bool { return os.SameFile(m.info, info) })
}

// since are those that were written to after a time, in nanoseconds from 1970, and the file
// itself, which is newer than any that was rotated away.
func (all family) since(written int64, live string) family {
	var out family
	for _, m := range all {
		if m.path == live || m.info.ModTime().UnixNano() > written {
			out = append(out, m)
		}
	}
	return out
}

// behind are the members that come after a file. When that is not in the directory any more,
// they are those that were written to after it.
func (all family) behind(info fs.FileInfo, live string) family {
	if i := all.index(info); i >= 0 {
		return all[i+1:]
	}
	return all.since(info.ModTime().UnixNano(), live)
}

// hasData reports whether there is anything to read.
func (all family) hasData() bool {
	return slices.ContainsFunc(all, func(m member) bool { return m.info.Size() > 0 })
}
