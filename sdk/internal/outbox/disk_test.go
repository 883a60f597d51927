package outbox

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
)

const sectorBytes = 512

var (
	errTest = errors.New("test fault")
	errGone = errors.New("the power is gone")
)

// disk is a file system in memory that keeps apart what is durable, what was changed since
// and what a program sees. A sync that fails drops what it should have written, while
// reads go on to show it, as Linux does.
type disk struct {
	mu      sync.Mutex
	durable map[string]*diskFile // nil files are directories
	now     map[string]*diskFile
	renames []nameChange
	locked  map[string]bool

	calls     int
	failAt    int // this call fails once; 0 for none
	goneAt    int // from this call on all fail; 0 for none
	space     int64
	limited   bool
	syncLies  bool // of files, but for the first
	dirLies   bool
	fileSyncs int
	onSync    func() // called before a file is synced
}

type nameChange struct {
	name string
	gone bool
	file *diskFile
}

type diskFile struct {
	durable []byte
	changes []fileChange
	now     []byte
}

type fileChange struct {
	off  int64
	data []byte
	cut  bool
}

func newDisk() *disk {
	root := map[string]*diskFile{"/": nil}
	return &disk{durable: root, now: maps.Clone(root), locked: map[string]bool{}}
}

func (c fileChange) apply(b []byte) []byte {
	if c.cut {
		return resized(b, c.off)
	}
	b = resized(b, max(int64(len(b)), c.off+int64(len(c.data))))
	copy(b[c.off:], c.data)
	return b
}

func resized(b []byte, n int64) []byte {
	if n <= int64(len(b)) {
		return b[:n]
	}
	return append(b, make([]byte, n-int64(len(b)))...)
}

// afterCut is the disk after a power cut: of what was not synced, keep says what is there.
func (d *disk) afterCut(keep func() bool) *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := maps.Clone(d.durable)
	for _, c := range d.renames {
		if !keep() {
			continue
		}
		if c.gone {
			delete(names, c.name)
		} else {
			names[c.name] = c.file
		}
	}
	cut := newDisk()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		var f *diskFile
		if old := names[name]; old != nil {
			b := old.afterCut(keep)
			f = &diskFile{durable: b, now: slices.Clone(b)}
		}
		cut.durable[name], cut.now[name] = f, f
	}
	return cut
}

func (f *diskFile) afterCut(keep func() bool) []byte {
	b := slices.Clone(f.durable)
	for _, c := range f.changes {
		end := c.off + int64(len(c.data))
		if (c.cut || end > int64(len(b))) && keep() {
			b = resized(b, end)
		}
		for off := c.off; off < end; {
			next := min((off/sectorBytes+1)*sectorBytes, end)
			if keep() {
				b = fileChange{off: off, data: c.data[off-c.off : next-c.off]}.apply(b)
			}
			off = next
		}
	}
	return b
}

func keepNothing() bool { return false }

func keepAll() bool { return true }

func keepSome(r *rand.Rand) func() bool { return func() bool { return r.IntN(3) > 0 } }

// before counts a call and says whether it fails.
func (d *disk) before() error {
	d.calls++
	switch {
	case d.goneAt > 0 && d.calls >= d.goneAt:
		return errGone
	case d.calls == d.failAt:
		return errTest
	}
	return nil
}

func (d *disk) do(act func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.before(); err != nil {
		return err
	}
	return act()
}

func (d *disk) change(c nameChange) {
	d.renames = append(d.renames, c)
	if c.gone {
		delete(d.now, c.name)
	} else {
		d.now[c.name] = c.file
	}
}

func (d *disk) create(name string) (f file, err error) {
	err = d.do(func() error {
		if _, there := d.now[name]; there {
			return fs.ErrExist
		}
		df := &diskFile{}
		d.change(nameChange{name: name, file: df})
		f = &handle{d, df}
		return nil
	})
	return f, err
}

func (d *disk) open(name string) (f file, err error) {
	err = d.do(func() error {
		df := d.now[name]
		if df == nil {
			return fs.ErrNotExist
		}
		f = &handle{d, df}
		return nil
	})
	return f, err
}

func (d *disk) remove(name string) error {
	return d.do(func() error {
		if _, there := d.now[name]; !there {
			return fs.ErrNotExist
		}
		d.change(nameChange{name: name, gone: true})
		return nil
	})
}

func (d *disk) mkdir(dir string) error {
	return d.do(func() error {
		if _, there := d.now[dir]; !there {
			d.change(nameChange{name: dir})
		}
		return nil
	})
}

func (d *disk) exists(name string) (there bool, err error) {
	err = d.do(func() error {
		_, there = d.now[name]
		return nil
	})
	return there, err
}

func (d *disk) list(dir string) (names []string, err error) {
	err = d.do(func() error {
		for name := range d.now {
			if filepath.Dir(name) == dir && name != dir {
				names = append(names, filepath.Base(name))
			}
		}
		slices.Sort(names)
		return nil
	})
	return names, err
}

func (d *disk) syncDir(dir string) error {
	return d.do(func() error {
		if d.dirLies {
			return nil
		}
		var left []nameChange
		for _, c := range d.renames {
			switch {
			case filepath.Dir(c.name) != dir:
				left = append(left, c)
			case c.gone:
				delete(d.durable, c.name)
			default:
				d.durable[c.name] = c.file
			}
		}
		d.renames = left
		return nil
	})
}

func (d *disk) lock(name string) (c io.Closer, err error) {
	err = d.do(func() error {
		if d.locked[name] {
			return ErrInUse
		}
		d.locked[name] = true
		c = unlocker(func() { delete(d.locked, name) })
		return nil
	})
	return c, err
}

type unlocker func()

func (u unlocker) Close() error {
	u()
	return nil
}

// bytes is what all files take.
func (d *disk) bytes() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := int64(0)
	for _, f := range d.now {
		if f != nil {
			n += int64(len(f.now))
		}
	}
	return n
}

// handle is an open file.
type handle struct {
	d *disk
	f *diskFile
}

func (h *handle) ReadAt(p []byte, off int64) (n int, err error) {
	err = h.d.do(func() error {
		if off < int64(len(h.f.now)) {
			n = copy(p, h.f.now[off:])
		}
		if n < len(p) {
			return io.EOF
		}
		return nil
	})
	return n, err
}

func (h *handle) WriteAt(p []byte, off int64) (n int, err error) {
	err = h.d.do(func() error {
		n = len(p)
		if grow := off + int64(n) - int64(len(h.f.now)); h.d.limited && grow > 0 {
			if grow > h.d.space {
				n -= int(grow - h.d.space)
				grow = h.d.space
			}
			h.d.space -= grow
		}
		if n > 0 {
			c := fileChange{off: off, data: slices.Clone(p[:n])}
			h.f.changes = append(h.f.changes, c)
			h.f.now = c.apply(h.f.now)
		}
		if n < len(p) {
			return noSpace[0]
		}
		return nil
	})
	return n, err
}

func (h *handle) Truncate(size int64) error {
	return h.d.do(func() error {
		h.d.space += int64(len(h.f.now)) - size
		c := fileChange{off: size, cut: true}
		h.f.changes = append(h.f.changes, c)
		h.f.now = c.apply(h.f.now)
		return nil
	})
}

func (h *handle) Sync() error {
	if h.d.onSync != nil {
		h.d.onSync()
	}
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	h.d.fileSyncs++
	if err := h.d.before(); err != nil {
		if !errors.Is(err, errGone) {
			h.f.changes = nil
		}
		return err
	}
	if h.d.syncLies && h.d.fileSyncs > 1 {
		return nil
	}
	for _, c := range h.f.changes {
		h.f.durable = c.apply(h.f.durable)
	}
	h.f.changes = nil
	return nil
}

func (h *handle) size() (n int64, err error) {
	err = h.d.do(func() error {
		n = int64(len(h.f.now))
		return nil
	})
	return n, err
}

func (h *handle) Close() error { return h.d.do(func() error { return nil }) }
