package sorttable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"unsafe"

	"github.com/cespare/xxhash/v2"

	"github.com/quoin-io/quoin/server/internal/vfs"
)

// Table is an open table. It is safe for concurrent use.
type Table struct {
	fs     vfs.FS
	name   string
	head   header
	filter filter
	fences []fence

	// mu is held for reading over each read of the file, so that Close waits for it.
	mu struct {
		sync.RWMutex
		held   vfs.File // nil: the file is opened for each read
		closed bool
	}
}

// Open opens the table name. It reads and checks the header, the filter and the fences; the
// blocks are checked when they are read. The error is a *FormatError for whatever is wrong
// with the bytes, else what the file system said. What the file claims is held against its
// length before any memory is taken for it.
func Open(fsys vfs.FS, name string) (*Table, error) {
	t := &Table{fs: fsys, name: name}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open sorted table: %w", err)
	}
	if err := errors.Join(t.load(f), f.Close()); err != nil {
		return nil, err
	}
	return t, nil
}

// load reads everything but the blocks.
func (t *Table) load(f vfs.File) error {
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("size of sorted table %s: %w", t.name, err)
	}
	b := make([]byte, min(size, maxHeadSize))
	if err := t.readFull(f, b, 0, "header"); err != nil {
		return err
	}
	var bad *FormatError
	if t.head, bad = parseHeader(b, size); bad != nil {
		return t.named(bad)
	}
	b = make([]byte, t.head.filterSize)
	if err := t.readFull(f, b, t.head.filterAt(), "filter"); err != nil {
		return err
	}
	if t.filter, bad = parseFilter(&t.head, b); bad != nil {
		return t.named(bad)
	}
	b = make([]byte, t.head.fencesSize())
	if err := t.readFull(f, b, t.head.fencesAt(), "fences"); err != nil {
		return err
	}
	if t.fences, bad = parseFences(&t.head, b); bad != nil {
		return t.named(bad)
	}
	return nil
}

// Meta is what the writer put there. It must not be changed.
func (t *Table) Meta() []byte { return t.head.meta }

// Name is the name of the file.
func (t *Table) Name() string { return t.name }

// Rows is the number of rows.
func (t *Table) Rows() int64 { return t.head.rows }

// FileBytes is the length of the file.
func (t *Table) FileBytes() int64 { return t.head.fileSize() }

// Bytes is the memory that the table holds.
func (t *Table) Bytes() int64 {
	return int64(unsafe.Sizeof(*t)) + int64(cap(t.head.meta)+cap(t.filter)) + int64(cap(t.fences))*int64(unsafe.Sizeof(fence{}))
}

// First is the lowest key, or zeros if there are no rows.
func (t *Table) First() Key {
	if len(t.fences) == 0 {
		return Key{}
	}
	return t.fences[0].first
}

// Last is the highest key, or zeros if there are no rows.
func (t *Table) Last() Key { return t.head.last }

// MayHave reports whether a row may have this A. False is certain; true is wrong for about
// one in eighty that have none. It reads nothing.
func (t *Table) MayHave(a uint64) bool { return t.filter.has(a) }

// Hold keeps the file open until Close, for many look-ups in a row; a second Hold does
// nothing.
func (t *Table) Hold() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return ErrClosed
	}
	if t.mu.held != nil {
		return nil
	}
	f, err := t.fs.Open(t.name)
	if err != nil {
		return fmt.Errorf("hold sorted table: %w", err)
	}
	t.mu.held = f
	return nil
}

// Close waits for reads on their way and makes all later ones fail with ErrClosed. What is
// in memory can still be asked for. A second Close does nothing.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.mu.held
	t.mu.held, t.mu.closed = nil, true
	if f == nil {
		return nil
	}
	return f.Close()
}

// withFile calls do with the open file.
func (t *Table) withFile(do func(vfs.File) error) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	switch {
	case t.mu.closed:
		return ErrClosed
	case t.mu.held != nil:
		return do(t.mu.held)
	}
	f, err := t.fs.Open(t.name)
	if err != nil {
		return fmt.Errorf("open sorted table: %w", err)
	}
	return errors.Join(do(f), f.Close())
}

// blockBytes is the size of a block.
func (t *Table) blockBytes(i int) int64 {
	return min(blockSize, t.head.blocksSize-int64(i)*blockSize)
}

func (t *Table) blockAt(i int) int64 { return t.head.blocksAt() + int64(i)*blockSize }

// readBlocks fills b with the blocks from i on and compares their checks.
func (t *Table) readBlocks(b []byte, i int) error {
	err := t.withFile(func(f vfs.File) error { return t.readFull(f, b, t.blockAt(i), "block") })
	if err != nil {
		return err
	}
	for ; len(b) > 0; i++ {
		n := t.blockBytes(i)
		if got := xxhash.Sum64(b[:n]); got != t.fences[i].check {
			return t.named(fault("block", t.blockAt(i), "the check is %016x, the bytes have %016x", t.fences[i].check, got))
		}
		b = b[n:]
	}
	return nil
}

// rowFault is what r met in block i.
func (t *Table) rowFault(r *blockReader, i int) error {
	return t.named(fault("row", t.blockAt(i)+int64(r.at), "%s", r.bad))
}

func (t *Table) named(e *FormatError) error {
	e.Name = t.name
	return e
}

func (t *Table) readFull(f vfs.File, b []byte, pos int64, what string) error {
	n, err := f.ReadAt(b, pos)
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return t.named(fault(what, pos, "it ends after %d of %d bytes", n, len(b)))
	}
	return fmt.Errorf("read %s of sorted table %s: %w", what, t.name, err)
}

// Verify reads the whole file again and checks everything: that header, filter and fences
// are those that the table was opened with, every block and every row, their order and their
// number, and that the filter knows of them all.
func (t *Table) Verify() error {
	fresh := &Table{name: t.name}
	if err := t.withFile(fresh.load); err != nil {
		return err
	}
	if !bytes.Equal(fresh.head.append(nil), t.head.append(nil)) {
		return t.named(fault("header", 0, "it is not the one that the table was opened with"))
	}
	return t.verifyRows()
}

// verifyRows checks the blocks against what is in memory.
func (t *Table) verifyRows() error {
	rows, last := int64(0), Key{}
	for row, err := range t.All() {
		if err != nil {
			return err
		}
		if (rows == 0 || row.Key.A != last.A) && !t.filter.has(row.Key.A) {
			return t.named(fault("filter", t.head.filterAt(), "it does not know of A %d", row.Key.A))
		}
		rows, last = rows+1, row.Key
	}
	if rows != t.head.rows || last != t.head.last {
		return t.named(fault("header", 0, "it says %d rows up to %v, there are %d up to %v", t.head.rows, t.head.last, rows, last))
	}
	return nil
}
