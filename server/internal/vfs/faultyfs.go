package vfs

import "errors"

// The calls of FS, each after a look at the faults.

func (f *Faulty) Create(name string) (File, error) {
	if err := f.before(OpCreate, name); err != nil {
		return nil, err
	}
	return f.wrap(name)(f.inner.Create(name))
}

func (f *Faulty) Open(name string) (File, error) {
	if err := f.before(OpOpen, name); err != nil {
		return nil, err
	}
	return f.wrap(name)(f.inner.Open(name))
}

func (f *Faulty) wrap(name string) func(File, error) (File, error) {
	return func(inner File, err error) (File, error) {
		if err != nil {
			return nil, err
		}
		return &faultyFile{fs: f, name: name, inner: inner}, nil
	}
}

func (f *Faulty) Rename(oldName, newName string) error {
	if err := f.before(OpRename, oldName); err != nil {
		return err
	}
	return f.inner.Rename(oldName, newName)
}

func (f *Faulty) Remove(name string) error {
	if err := f.before(OpRemove, name); err != nil {
		return err
	}
	return f.inner.Remove(name)
}

func (f *Faulty) MkdirAll(dir string) error {
	if err := f.before(OpMkdirAll, dir); err != nil {
		return err
	}
	return f.inner.MkdirAll(dir)
}

func (f *Faulty) List(dir string) ([]string, error) {
	if err := f.before(OpList, dir); err != nil {
		return nil, err
	}
	return f.inner.List(dir)
}

func (f *Faulty) SyncDir(dir string) error {
	if err := f.before(OpSyncDir, dir); err != nil || f.lying() {
		return err
	}
	return f.inner.SyncDir(dir)
}

func (f *Faulty) Stat(name string) (int64, error) {
	if err := f.before(OpStat, name); err != nil {
		return 0, err
	}
	return f.inner.Stat(name)
}

func (f *Faulty) RemoveAll(dir string) error {
	if err := f.before(OpRemoveAll, dir); err != nil {
		return err
	}
	return f.inner.RemoveAll(dir)
}

type faultyFile struct {
	fs    *Faulty
	name  string
	inner File
}

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fs.before(OpRead, f.name); err != nil {
		return 0, err
	}
	return f.inner.ReadAt(p, off)
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	keep, err := f.fs.check(OpWrite, f.name, len(p))
	if err == nil {
		return f.inner.WriteAt(p, off)
	}
	n, writeErr := f.inner.WriteAt(p[:keep], off)
	if writeErr != nil {
		err = writeErr
	}
	return n, err
}

func (f *faultyFile) Truncate(size int64) error {
	if err := f.fs.before(OpTruncate, f.name); err != nil {
		return err
	}
	return f.inner.Truncate(size)
}

func (f *faultyFile) Sync() error {
	if err := f.fs.before(OpSync, f.name); err != nil {
		if x, ok := f.inner.(interface{ failSync() }); ok {
			x.failSync()
		}
		return err
	}
	if f.fs.lying() {
		return nil
	}
	return f.inner.Sync()
}

func (f *faultyFile) Size() (int64, error) {
	if err := f.fs.before(OpSize, f.name); err != nil {
		return 0, err
	}
	return f.inner.Size()
}

func (f *faultyFile) Close() error {
	err := f.fs.before(OpClose, f.name)
	return errors.Join(err, f.inner.Close())
}

func (f *faultyFile) dropCache() error { return DropCache(f.inner) }
