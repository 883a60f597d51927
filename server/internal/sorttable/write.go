package sorttable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"github.com/cespare/xxhash/v2"

	"github.com/quoin-io/quoin/server/internal/vfs"
)

// TempSuffix is behind the name of a table that is being written.
const TempSuffix = ".tmp"

// writeBytes is what the writer collects before it writes.
const writeBytes = 64 << 10

// Row is one row.
type Row struct {
	Key   Key
	Value []byte
}

// Stats says what was written.
type Stats struct {
	Rows      int64
	Blocks    int64
	FileBytes int64
}

// Write makes the table name of rows, whose keys must rise, in place of what had that name
// before. It is done when the file was written, synced, read back, found right and renamed;
// its name is durable once the caller syncs the directory. After an error the name is what
// it was before. rows is taken once; keys and values are not kept.
//
// Rows that come from where they can fail are for [WriteRows]: here an end that came too
// early is an end.
func Write(fsys vfs.FS, name string, meta []byte, rows iter.Seq2[Key, []byte]) (Stats, error) {
	return WriteRows(fsys, name, meta, func(yield func(Row, error) bool) {
		for k, v := range rows {
			if !yield(Row{k, v}, nil) {
				return
			}
		}
	})
}

// WriteRows is Write of rows that may fail, as those of [Table.All] do. The first error that
// comes instead of a row is returned, wrapped, and there is no table.
func WriteRows(fsys vfs.FS, name string, meta []byte, rows iter.Seq2[Row, error]) (Stats, error) {
	stats, err := writeRows(fsys, name, meta, rows)
	if err != nil {
		return Stats{}, fmt.Errorf("write sorted table %s: %w", name, err)
	}
	return stats, nil
}

func writeRows(fsys vfs.FS, name string, meta []byte, rows iter.Seq2[Row, error]) (Stats, error) {
	if len(meta) > MaxMetaBytes {
		return Stats{}, fmt.Errorf("%w: meta of %d bytes, at most %d", ErrTooLarge, len(meta), MaxMetaBytes)
	}
	if err := RemoveTemp(fsys, name); err != nil {
		return Stats{}, err
	}
	f, err := fsys.Create(name + TempSuffix)
	if err != nil {
		return Stats{}, err
	}
	w := writer{f: f, head: header{meta: meta}}
	err = errors.Join(w.write(rows), f.Close())
	if err == nil {
		err = fsys.Rename(name+TempSuffix, name)
	}
	if err != nil {
		// What is left is replaced by the next attempt; that it is left is no second error.
		_ = RemoveTemp(fsys, name)
		return Stats{}, err
	}
	return Stats{Rows: w.head.rows, Blocks: w.head.blocks(), FileBytes: w.head.fileSize()}, nil
}

// RemoveTemp removes what a Write of name that did not come to its end has left, if anything.
func RemoveTemp(fsys vfs.FS, name string) error {
	err := fsys.Remove(name + TempSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// writer writes one table.
type writer struct {
	f      vfs.File
	head   header
	out    []byte // whole parts that are not in the file yet
	pos    int64  // where they belong
	block  []byte // the block that is being filled
	count  int    // its rows
	first  Key    // the first of them
	fences []fence
	mixed  []uint64 // the A of all rows, for the filter
}

func (w *writer) write(rows iter.Seq2[Row, error]) error {
	w.pos = w.head.blocksAt()
	w.block = make([]byte, blockHeadSize, blockSize+maxRowSize)
	for row, err := range rows {
		if err == nil {
			err = w.add(row)
		}
		if err != nil {
			return err
		}
	}
	if w.count > 0 {
		if err := w.endBlock(len(w.block)); err != nil {
			return err
		}
	}
	return w.finish()
}

// maxRowSize is the most that appendRow appends.
const maxRowSize = 2*binary.MaxVarintLen64 + 2 + MaxValueBytes

func (w *writer) add(row Row) error {
	k, h := row.Key, &w.head
	switch {
	case len(row.Value) > MaxValueBytes:
		return fmt.Errorf("%w: value of %d bytes, at most %d", ErrTooLarge, len(row.Value), MaxValueBytes)
	case h.rows == MaxRows:
		return fmt.Errorf("%w: %d rows", ErrTooLarge, MaxRows)
	case h.rows > 0 && !h.last.less(k):
		return fmt.Errorf("%w: %v behind %v", ErrOrder, k, h.last)
	}
	if w.count > 0 {
		end := len(w.block)
		w.block = appendRow(w.block, h.last, k, row.Value)
		if len(w.block) > blockSize {
			w.block = w.block[:end]
			if err := w.endBlock(blockSize); err != nil {
				return err
			}
		}
	}
	if w.count == 0 {
		w.first = k
		w.block = appendRow(w.block, Key{}, k, row.Value)
	}
	if h.rows == 0 || h.last.A != k.A {
		w.mixed = append(w.mixed, mix(k.A))
	}
	h.last = k
	h.rows++
	w.count++
	return nil
}

// endBlock gives the block its size and begins the next one.
func (w *writer) endBlock(size int) error {
	if len(w.fences) == maxBlocks {
		return fmt.Errorf("%w: %d blocks", ErrTooLarge, maxBlocks)
	}
	end := len(w.block)
	w.block = w.block[:size]
	clear(w.block[min(end, size):])
	binary.LittleEndian.PutUint16(w.block, uint16(w.count))
	w.fences = append(w.fences, fence{w.first, xxhash.Sum64(w.block)})
	w.out = append(w.out, w.block...)
	w.head.blocksSize += int64(size)
	w.block, w.count = w.block[:blockHeadSize], 0
	return w.flush(writeBytes)
}

// flush writes if there are at least so many bytes.
func (w *writer) flush(atLeast int) error {
	if len(w.out) < atLeast || len(w.out) == 0 {
		return nil
	}
	_, err := w.f.WriteAt(w.out, w.pos)
	w.pos += int64(len(w.out))
	w.out = w.out[:0]
	return err
}

// finish writes what stands behind the blocks, and the header, and checks all of it.
func (w *writer) finish() error {
	f := newFilter(w.mixed)
	w.head.filterSize, w.head.filterCheck = int64(len(f)), xxhash.Sum64(f)
	w.out = append(w.out, f...)
	sum := xxhash.New()
	var b []byte
	for _, x := range w.fences {
		b = x.append(b[:0])
		_, _ = sum.Write(b) // never fails
		w.out = append(w.out, b...)
		if err := w.flush(writeBytes); err != nil {
			return err
		}
	}
	w.head.fencesCheck = sum.Sum64()
	if err := w.flush(0); err != nil {
		return err
	}
	head := w.head.append(nil)
	if _, err := w.f.WriteAt(head, 0); err != nil {
		return err
	}
	if err := errors.Join(w.f.Sync(), vfs.DropCache(w.f)); err != nil {
		return err
	}
	return readBack(w.f, head)
}

// readBack checks all of a file that was written with this header.
func readBack(f vfs.File, want []byte) error {
	t := &Table{}
	if err := t.load(f); err != nil {
		return fmt.Errorf("the disk does not give back what was written: %w", err)
	}
	if !bytes.Equal(t.head.append(nil), want) {
		return errors.New("the disk does not give back what was written")
	}
	t.mu.held = f
	if err := t.verifyRows(); err != nil {
		return fmt.Errorf("the disk does not give back what was written: %w", err)
	}
	return nil
}
