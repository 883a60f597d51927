package vfs

import (
	"io"
	"io/fs"
	"math/rand/v2"
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

func (f *memFile) afterCrash(keep chooser) node {
	b := slices.Clone(f.durable)
	for _, c := range f.changes {
		if !keep.change() {
			continue
		}
		if c.truncate {
			b = c.apply(b)
			continue
		}
		for _, part := range keep.parts(c) {
			b = part.apply(b)
		}
	}
	return &memFile{durable: b, now: slices.Clone(b)}
}

// chooser says which of the changes that were not synced are there after a crash.
type chooser interface {
	change() bool
	parts(write fileChange) []fileChange
}

type keepNone struct{}

func (keepNone) change() bool                  { return false }
func (keepNone) parts(fileChange) []fileChange { return nil }

// keepRandom keeps three of four changes, and of every second write only some sectors.
type keepRandom struct{ r *rand.Rand }

// sectorBytes is what a disk writes as a whole.
const sectorBytes = 512

func (k keepRandom) change() bool { return k.r.IntN(4) > 0 }

func (k keepRandom) parts(w fileChange) []fileChange {
	if k.r.IntN(2) == 0 {
		return []fileChange{w}
	}
	var kept []fileChange
	for off := w.off; off < w.off+int64(len(w.data)); {
		end := min((off/sectorBytes+1)*sectorBytes, w.off+int64(len(w.data)))
		if k.r.IntN(2) == 0 {
			kept = append(kept, fileChange{off: off, data: w.data[off-w.off : end-w.off]})
		}
		off = end
	}
	return kept
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
