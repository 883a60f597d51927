package vfs

import (
	"io/fs"
	"maps"
	"math/rand/v2"
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
type Mem struct {
	mu struct {
		sync.Mutex
		root *memDir
		open int
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
	// afterCrash is a copy with nothing unsynced; keep chooses among the changes.
	afterCrash(keep chooser) node
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

// CrashClone returns the disk as it is after a power cut at which nothing was written
// but what had been synced. The receiver goes on unchanged.
func (m *Mem) CrashClone() *Mem { return m.crash(keepNone{}) }

// CrashCloneRandom returns one of the disks that a power cut may leave: of the changes
// that were not synced each may be there or not, and a write also in part, by sectors.
func (m *Mem) CrashCloneRandom(r *rand.Rand) *Mem { return m.crash(keepRandom{r}) }

func (m *Mem) crash(keep chooser) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &Mem{}
	c.mu.root = m.mu.root.afterCrash(keep).(*memDir)
	return c
}

// OpenFiles is the number of files that are open, for tests that look for leaks.
func (m *Mem) OpenFiles() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.open
}

func (d *memDir) afterCrash(keep chooser) node {
	names := maps.Clone(d.durable)
	for _, c := range d.changes {
		if keep.change() {
			c.apply(names)
		}
	}
	c := newMemDir()
	// In the order of the names, so that a seeded choice can be repeated.
	for _, name := range slices.Sorted(maps.Keys(names)) {
		child := names[name].afterCrash(keep)
		c.durable[name], c.now[name] = child, child
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
