package seglog

import (
	"errors"
	"path/filepath"
	"sync"

	"github.com/quoin-io/quoin/server/internal/vfs"
)

// handles keeps a bounded number of segments open for reading, with their indexes. A
// handle that somebody uses is never closed; the least recently used of the others is.
type handles struct {
	fs  vfs.FS
	dir string
	max int
	// entries makes the index of a segment that is opened.
	entries func(v view, f vfs.File) ([]entry, error)
	mu      struct {
		sync.Mutex
		open   map[Offset]*handle
		tick   uint64
		closed bool
	}
}

// handle is an open segment. refs and used are guarded by handles.mu.
type handle struct {
	base    Offset
	ready   sync.Once
	err     error // of opening
	file    vfs.File
	entries []entry // empty while the segment is active: it has its own then
	refs    int
	used    uint64
}

func newHandles(fs vfs.FS, dir string, limit int) *handles {
	h := &handles{fs: fs, dir: dir, max: limit}
	h.mu.open = map[Offset]*handle{}
	return h
}

// pin adds a file that is open already, in use until it is released.
func (h *handles) pin(base Offset, f vfs.File) *handle {
	x := &handle{base: base, file: f, refs: 1}
	x.ready.Do(func() {})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.open[base] = x
	return x
}

// acquire returns the handle of a segment, which the caller must release.
func (h *handles) acquire(v view) (*handle, error) {
	h.mu.Lock()
	if h.mu.closed {
		h.mu.Unlock()
		return nil, ErrClosed
	}
	x := h.mu.open[v.base]
	if x == nil {
		x = &handle{base: v.base}
		h.mu.open[v.base] = x
	}
	h.mu.tick++
	x.refs++
	x.used = h.mu.tick
	h.mu.Unlock()
	x.ready.Do(func() { x.err = h.load(x, v) })
	if x.err == nil {
		return x, nil
	}
	h.mu.Lock()
	if h.mu.open[v.base] == x { // the next one tries anew
		delete(h.mu.open, v.base)
	}
	h.mu.Unlock()
	return nil, errors.Join(x.err, h.release(x))
}

func (h *handles) load(x *handle, v view) error {
	f, err := h.fs.Open(filepath.Join(h.dir, segName(v.base)))
	if err != nil {
		return err
	}
	x.file = f
	x.entries, err = h.entries(v, f)
	return err
}

// release gives a handle back. The error is that of closing a file.
func (h *handles) release(x *handle) error {
	h.mu.Lock()
	x.refs--
	var victims []*handle
	if x.refs == 0 && h.mu.open[x.base] != x {
		victims = append(victims, x) // it is out of the table, so nobody else will close it
	}
	for len(h.mu.open) > h.max+1 { // one is the active segment
		v := h.idle()
		if v == nil {
			break
		}
		delete(h.mu.open, v.base)
		victims = append(victims, v)
	}
	h.mu.Unlock()
	return closeAll(victims)
}

// idle is the least recently used handle that nobody uses, or nil.
func (h *handles) idle() *handle {
	var oldest *handle
	for _, x := range h.mu.open {
		if x.refs == 0 && (oldest == nil || x.used < oldest.used) {
			oldest = x
		}
	}
	return oldest
}

// close closes all handles; those in use are closed when they are released.
func (h *handles) close() error {
	h.mu.Lock()
	h.mu.closed = true
	var victims []*handle
	for _, x := range h.mu.open {
		if x.refs == 0 {
			victims = append(victims, x)
		}
	}
	clear(h.mu.open)
	h.mu.Unlock()
	return closeAll(victims)
}

func closeAll(victims []*handle) error {
	var err error
	for _, x := range victims {
		if x.file != nil {
			err = errors.Join(err, x.file.Close())
		}
	}
	return err
}
