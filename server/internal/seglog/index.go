package seglog

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"sort"

	"github.com/cespare/xxhash/v2"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// The index file; the layout is drawn in the package comment.
const (
	idxMagic      = "QIDX"
	idxVersion    = 1
	idxHeaderSize = 56
	idxEntrySize  = 16
	idxCheckSize  = 8

	// maxIndexEntries bounds an index in memory and on disk (16 MiB). A segment with
	// more has a coarser index at its end.
	maxIndexEntries = 1 << 20
)

// entry says where a batch that is no control batch begins.
type entry struct {
	offset Offset
	pos    int64
}

// index is the content of an index file.
type index struct {
	base    Offset
	check   uint64 // of the segment's header
	end     segEnd
	entries []entry
}

func (x index) append(b []byte) []byte {
	start := len(b)
	le := binary.LittleEndian
	b = slices.Grow(b, idxHeaderSize+len(x.entries)*idxEntrySize+idxCheckSize)
	b = append(b, idxMagic...)
	b = le.AppendUint32(b, idxVersion)
	b = le.AppendUint64(b, uint64(x.base))
	b = le.AppendUint64(b, x.check)
	b = le.AppendUint64(b, uint64(x.end.next))
	b = le.AppendUint64(b, uint64(x.end.size))
	b = le.AppendUint64(b, uint64(x.end.lastTime))
	b = le.AppendUint32(b, uint32(x.end.term))
	b = le.AppendUint32(b, uint32(len(x.entries)))
	for _, e := range x.entries {
		b = le.AppendUint64(b, uint64(e.offset))
		b = le.AppendUint64(b, uint64(e.pos))
	}
	return le.AppendUint64(b, xxhash.Sum64(b[start:]))
}

// parseIndex reads an index file and checks all that can be checked without the segment.
func parseIndex(b []byte) (index, error) {
	le := binary.LittleEndian
	switch {
	case len(b) < idxHeaderSize+idxCheckSize:
		return index{}, fmt.Errorf("index has %d bytes, %d are the least", len(b), idxHeaderSize+idxCheckSize)
	case string(b[:4]) != idxMagic:
		return index{}, fmt.Errorf("index has magic %q", b[:4])
	case le.Uint64(b[len(b)-idxCheckSize:]) != xxhash.Sum64(b[:len(b)-idxCheckSize]):
		return index{}, fmt.Errorf("index has a wrong check")
	case le.Uint32(b[4:]) != idxVersion:
		return index{}, fmt.Errorf("index format version %d is not known, only %d", le.Uint32(b[4:]), idxVersion)
	}
	x := index{
		base:  Offset(le.Uint64(b[8:])),
		check: le.Uint64(b[16:]),
		end: segEnd{
			next:     Offset(le.Uint64(b[24:])),
			size:     int64(le.Uint64(b[32:])),
			lastTime: int64(le.Uint64(b[40:])),
			term:     batchfmt.Term(le.Uint32(b[48:])),
		},
	}
	count := int64(le.Uint32(b[52:]))
	if count > maxIndexEntries || int64(len(b)) != idxHeaderSize+count*idxEntrySize+idxCheckSize {
		return index{}, fmt.Errorf("index of %d bytes says that it has %d entries", len(b), count)
	}
	x.entries = make([]entry, count)
	for i := range x.entries {
		at := b[idxHeaderSize+i*idxEntrySize:]
		x.entries[i] = entry{Offset(le.Uint64(at)), int64(le.Uint64(at[8:]))}
	}
	return x, x.validate()
}

// validate checks that entries rise and lie between the base and the end.
func (x index) validate() error {
	if x.base < 0 || x.end.next < x.base || x.end.size < segHeaderSize {
		return fmt.Errorf("index from %d to %d, byte %d, cannot be", x.base, x.end.next, x.end.size)
	}
	before := entry{x.base - 1, segHeaderSize - 1}
	for _, e := range x.entries {
		if e.offset <= before.offset || e.pos <= before.pos || e.offset >= x.end.next || e.pos >= x.end.size {
			return fmt.Errorf("index entry for offset %d at byte %d is out of order", e.offset, e.pos)
		}
		before = e
	}
	return nil
}

// floor is where to begin a walk to the batch that holds offset: the last entry at or
// below it, else the start of the segment.
func floor(entries []entry, base, offset Offset) entry {
	i := sort.Search(len(entries), func(i int) bool { return entries[i].offset > offset })
	if i == 0 {
		return entry{base, segHeaderSize}
	}
	return entries[i-1]
}

// after returns the first entry behind a position, from which a reader may go on.
func after(entries []entry, pos int64) (entry, bool) {
	i := sort.Search(len(entries), func(i int) bool { return entries[i].pos > pos })
	if i == len(entries) {
		return entry{}, false
	}
	return entries[i], true
}

// addEntry adds a batch to the index of a segment if it lies every bytes behind the
// entry before. A control batch uses no offset, so none may lead to it.
func addEntry(entries []entry, b batchfmt.Batch, pos, every int64) []entry {
	if b.IsControl() || len(entries) >= maxIndexEntries {
		return entries
	}
	if n := len(entries); n > 0 && pos-entries[n-1].pos < every {
		return entries
	}
	return append(entries, entry{b.BaseOffset(), pos})
}

// writeIndex puts an index file in place. Its name is durable after the next sync of the
// directory; until then it may be missing, which costs time only.
func writeIndex(fs vfs.FS, dir string, x index) error {
	name := filepath.Join(dir, idxName(x.base))
	tmp := name + tmpSuffix
	if err := removeIfThere(fs, tmp); err != nil {
		return err
	}
	if err := writeFile(fs, tmp, x.append(nil)); err != nil {
		return err
	}
	return fs.Rename(tmp, name)
}

// readIndex reads and parses an index file.
func readIndex(fs vfs.FS, dir string, base Offset) (index, error) {
	name := filepath.Join(dir, idxName(base))
	f, err := fs.Open(name)
	if err != nil {
		return index{}, err
	}
	defer f.Close() // only read from
	size, err := f.Size()
	if err != nil {
		return index{}, err
	}
	if limit := int64(idxHeaderSize + maxIndexEntries*idxEntrySize + idxCheckSize); size > limit {
		return index{}, fmt.Errorf("index %s has %d bytes, over the limit, %d", name, size, limit)
	}
	b := make([]byte, size)
	if err := readFull(f, b, 0); err != nil {
		return index{}, fmt.Errorf("read index %s: %w", name, err)
	}
	x, err := parseIndex(b)
	if err == nil && x.base != base {
		err = fmt.Errorf("index %s says base offset %d", name, x.base)
	}
	return x, err
}
