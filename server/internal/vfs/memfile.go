package vfs

import (
	"io"
	"io/fs"
	"slices"
)

// memFile is the content of one file; Mem.mu guards it.
type memFile struct {
	durable []byte
	changes []fileChange
	now     []byte
}

// fileChange is a write of data at off, or with truncate the setting of the length to off.
type fileChange struct {
	off      int64
	data     []byte
	truncate bool
}

func (c fileChange) apply(b []byte) []byte {
	if c.truncate {
		return resize(b, c.off)
	}
	if end := c.off + int64(len(c.data)); end > int64(len(b)) {
		b = resize(b, end)
	}
	copy(b[c.off:], c.data)
	return b
}

// resize sets the length; what it adds is zero, also where the slice held bytes before.
func resize(b []byte, size int64) []byte {
	n := int64(len(b))
	if size <= n {
		return b[:size]
	}
	b = slices.Grow(b, int(size-n))[:size]
	clear(b[n:])
	return b
}

func (f *memFile) change(c fileChange) {
	f.changes = append(f.changes, c)
	f.now = c.apply(f.now)
}

func (f *memFile) sync() {
	for _, c := range f.changes {
		f.durable = c.apply(f.durable)
	}
	f.changes = nil
}

func (f *memFile) afterCrash(name string, keep func(Unsynced) bool) node {
	b := slices.Clone(f.durable)
	for i, c := range f.changes {
		b = c.applyKept(b, Unsynced{Name: name, Change: i}, keep)
	}
	return &memFile{durable: b, now: slices.Clone(b)}
}

// applyKept applies of a change what keep says is kept; u names the change.
func (c fileChange) applyKept(b []byte, u Unsynced, keep func(Unsynced) bool) []byte {
	end := c.off + int64(len(c.data))
	u.Kind = UnsyncedLength
	if (c.truncate || end > int64(len(b))) && keep(u) {
		b = resize(b, end)
	}
	for off := c.off; off < end; {
		next := min((off/sectorBytes+1)*sectorBytes, end)
		u.Kind, u.Sector = UnsyncedSector, off/sectorBytes
		if keep(u) {
			b = fileChange{off: off, data: c.data[off-c.off : next-c.off]}.apply(b)
		}
		off = next
	}
	return b
}

// failSync is a sync that failed: some of it may be written, and all of it counts as written.
func (f *memFile) failSync(name string, keep func(Unsynced) bool) {
	for i, c := range f.changes {
		if keep != nil {
			f.durable = c.applyKept(f.durable, Unsynced{Name: name, Change: i}, keep)
		}
	}
	f.changes = nil
}

// dropCache forgets what is seen but neither durable nor still to be written.
func (f *memFile) dropCache() {
	f.now = slices.Clone(f.durable)
	for _, c := range f.changes {
		f.now = c.apply(f.now)
	}
}

// memHandle is one opening of a file.
type memHandle struct {
	m      *Mem
	name   string
	file   *memFile
	closed bool // guarded by m.mu
}

// use runs act under the lock, unless the handle is closed.
func (h *memHandle) use(op string, act func()) error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if h.closed {
		return pathError(op, h.name, fs.ErrClosed)
	}
	act()
	return nil
}

func (h *memHandle) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, pathError("read", h.name, fs.ErrInvalid)
	}
	n := 0
	err := h.use("read", func() {
		if off < int64(len(h.file.now)) {
			n = copy(p, h.file.now[off:])
		}
	})
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (h *memHandle) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, pathError("write", h.name, fs.ErrInvalid)
	}
	err := h.use("write", func() {
		if len(p) > 0 {
			h.file.change(fileChange{off: off, data: slices.Clone(p)})
		}
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (h *memHandle) Truncate(size int64) error {
	if size < 0 {
		return pathError("truncate", h.name, fs.ErrInvalid)
	}
	return h.use("truncate", func() { h.file.change(fileChange{off: size, truncate: true}) })
}

func (h *memHandle) Sync() error { return h.use("sync", h.file.sync) }

func (h *memHandle) failSync() {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	h.file.failSync(h.name, h.m.mu.survives)
}

func (h *memHandle) dropCache() error {
	return h.use("drop the cache", func() {
		if !h.m.mu.sticky {
			h.file.dropCache()
		}
	})
}

func (h *memHandle) Size() (int64, error) {
	var size int64
	err := h.use("size", func() { size = int64(len(h.file.now)) })
	return size, err
}

func (h *memHandle) Close() error {
	return h.use("close", func() {
		h.closed = true
		h.m.mu.open--
	})
}
