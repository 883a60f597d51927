package vfs

import (
	"io/fs"
	"maps"
	"slices"
)

// Create makes an empty file and opens it.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, base, err := m.parent("create", name)
	if err != nil {
		return nil, err
	}
	if d.now[base] != nil {
		return nil, pathError("create", name, fs.ErrExist)
	}
	f := &memFile{}
	d.change(dirChange{name: base, child: f})
	return m.handle(name, f), nil
}

// Open opens an existing file.
func (m *Mem) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookup("open", name)
	if err != nil {
		return nil, err
	}
	f, ok := n.(*memFile)
	if !ok {
		return nil, pathError("open", name, fs.ErrInvalid)
	}
	return m.handle(name, f), nil
}

func (m *Mem) handle(name string, f *memFile) *memHandle {
	m.mu.open++
	return &memHandle{m: m, name: name, file: f}
}

// Rename gives a file another name. Only within one directory is it one step for a crash.
func (m *Mem) Rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, oldBase, err := m.parent("rename", oldName)
	if err != nil {
		return err
	}
	to, newBase, err := m.parent("rename", newName)
	if err != nil {
		return err
	}
	child := from.now[oldBase]
	switch {
	case child == nil:
		return pathError("rename", oldName, fs.ErrNotExist)
	case from == to && oldBase == newBase:
	case from == to:
		from.change(dirChange{gone: oldBase, name: newBase, child: child})
	default:
		to.change(dirChange{name: newBase, child: child})
		from.change(dirChange{gone: oldBase})
	}
	return nil
}

// Remove removes a file or an empty directory. Who has the file open keeps it.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, base, err := m.parent("remove", name)
	if err != nil {
		return err
	}
	child := d.now[base]
	if child == nil {
		return pathError("remove", name, fs.ErrNotExist)
	}
	if sub, ok := child.(*memDir); ok && len(sub.now) > 0 {
		return pathError("remove", name, fs.ErrInvalid)
	}
	d.change(dirChange{gone: base})
	return nil
}

// RemoveAll removes a directory with everything in it, name by name as a real one does,
// so that a crash may leave a part.
func (m *Mem) RemoveAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, base, err := m.parent("remove", dir)
	if err != nil || d.now[base] == nil {
		return nil
	}
	removeAll(d, base)
	return nil
}

func removeAll(d *memDir, base string) {
	if sub, ok := d.now[base].(*memDir); ok {
		for _, name := range slices.Sorted(maps.Keys(sub.now)) {
			removeAll(sub, name)
		}
	}
	d.change(dirChange{gone: base})
}

// MkdirAll makes a directory and those above it.
func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.mu.root
	for _, part := range parts(dir) {
		if d.now[part] == nil {
			d.change(dirChange{name: part, child: newMemDir()})
		}
		sub, ok := d.now[part].(*memDir)
		if !ok {
			return pathError("mkdir", dir, fs.ErrExist)
		}
		d = sub
	}
	return nil
}

// List returns the base names in a directory, sorted.
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.dir("list", dir)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(d.now)), nil
}

// SyncDir makes the names in a directory durable.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.dir("sync", dir)
	if err != nil {
		return err
	}
	d.sync()
	return nil
}

// Stat returns the size of a file; of a directory, 0.
func (m *Mem) Stat(name string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookup("stat", name)
	if err != nil {
		return 0, err
	}
	if f, ok := n.(*memFile); ok {
		return int64(len(f.now)), nil
	}
	return 0, nil
}
