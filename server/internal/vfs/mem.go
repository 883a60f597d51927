package vfs

import (
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Mem is a file system in memory that keeps apart what is durable and what is not. The
// zero value is not usable; see [NewMem].
//
// Every file and every directory is an image of what is durable, a list of the changes
// since, in order, and an image of what a program sees. A sync applies the list. The
// disk after a crash is the durable images plus whatever choice of the listed changes.
//
// A sync of a file that fails, as [Faulty] makes it, does to the file what Linux does: what
// was not synced counts as written from then on, whether the disk has it or not. Reads go on
// to show it, later syncs succeed without writing it, and only [DropCache] or a crash shows
// what the disk has.
type Mem struct {
	mu struct {
		sync.Mutex
		root *memDir
		open int
		// survives says what a failed sync wrote all the same; nil is nothing.
		survives func(Unsynced) bool
		// sticky makes DropCache do nothing, as the system is free to.
		sticky bool
	}
}

// NewMem returns an empty file system.
func NewMem() *Mem {
	m := &Mem{}
	m.mu.root = newMemDir()
	return m
}

// node is a *memDir or a *memFile.
type node interface {
	// afterCrash is a copy with nothing unsynced. name is the path of the node, and keep
	// says of everything unsynced in it and below whether it is there.
	afterCrash(name string, keep func(Unsynced) bool) node
}

type memDir struct {
	durable map[string]node
	changes []dirChange
	now     map[string]node
}

// dirChange is one step that survives a crash as a whole or not at all.
type dirChange struct {
	gone  string // this name is removed, unless empty
	name  string // and this one added, unless empty
	child node
}

func newMemDir() *memDir {
	return &memDir{durable: map[string]node{}, now: map[string]node{}}
}

func (d *memDir) change(c dirChange) {
	d.changes = append(d.changes, c)
	c.apply(d.now)
}

func (c dirChange) apply(names map[string]node) {
	if c.gone != "" {
		delete(names, c.gone)
	}
	if c.name != "" {
		names[c.name] = c.child
	}
}

func (d *memDir) sync() {
	for _, c := range d.changes {
		c.apply(d.durable)
	}
	d.changes = nil
}

// OpenFiles is the number of files that are open, for tests that look for leaks.
func (m *Mem) OpenFiles() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.open
}

func (d *memDir) afterCrash(name string, keep func(Unsynced) bool) node {
	names := maps.Clone(d.durable)
	for i, c := range d.changes {
		if keep(Unsynced{Name: name, Kind: UnsyncedName, Change: i}) {
			c.apply(names)
		}
	}
	c := newMemDir()
	// In the order of the names, so that a seeded choice can be repeated.
	for _, base := range slices.Sorted(maps.Keys(names)) {
		child := names[base].afterCrash(path.Join(name, base), keep)
		c.durable[base], c.now[base] = child, child
	}
	return c
}

// lookup finds a node; the root has the names "/" and ".".
func (m *Mem) lookup(op, name string) (node, error) {
	var n node = m.mu.root
	for _, part := range parts(name) {
		d, ok := n.(*memDir)
		if !ok {
			return nil, pathError(op, name, fs.ErrNotExist)
		}
		if n = d.now[part]; n == nil {
			return nil, pathError(op, name, fs.ErrNotExist)
		}
	}
	return n, nil
}

func (m *Mem) dir(op, name string) (*memDir, error) {
	n, err := m.lookup(op, name)
	if err != nil {
		return nil, err
	}
	d, ok := n.(*memDir)
	if !ok {
		return nil, pathError(op, name, fs.ErrInvalid)
	}
	return d, nil
}

// parent finds the directory of a name and its base name.
func (m *Mem) parent(op, name string) (*memDir, string, error) {
	p := parts(name)
	if len(p) == 0 {
		return nil, "", pathError(op, name, fs.ErrInvalid)
	}
	d, err := m.dir(op, filepath.Dir(filepath.Clean(name)))
	return d, p[len(p)-1], err
}

func parts(name string) []string {
	return slices.DeleteFunc(strings.Split(filepath.ToSlash(filepath.Clean(name)), "/"),
		func(s string) bool { return s == "" || s == "." })
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}
