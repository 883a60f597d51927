package retired

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/sorttable"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// The layout is drawn in the package comment.
const (
	headMagic      = "QRH\x01"
	headCopyBytes  = 4096
	headBytes      = 2 * headCopyBytes
	offRunCount    = 4
	offGeneration  = 8
	offSerial      = 16
	offForgotten   = 24
	offStaleSerial = 32
	offStaleID     = 40
	offVouched     = 48
	headFixedSize  = 56
	entrySize      = 56
	checkSize      = 8

	mostRuns  = 64      // that a head may list
	mostCount = 1 << 62 // no counter comes near
)

// maxID is the highest producer id, the space of the gateway aside.
const maxID = producerstate.GatewaySpace - 1

// plain is the id that forgotten ids are compared with.
func plain(pid batchfmt.ProducerID) batchfmt.ProducerID { return pid &^ producerstate.GatewaySpace }

// head is which runs there are, and what was lost.
type head struct {
	generation uint64
	serial     uint64 // the next one
	forgotten  batchfmt.ProducerID
	stale      staleMark
	vouched    batchfmt.Offset // see Table.Vouch
	runs       []entry         // the oldest first
}

// staleMark: rows at or below both may not be the last of their producer.
type staleMark struct {
	serial uint64
	id     batchfmt.ProducerID
}

func (s staleMark) covers(pid batchfmt.ProducerID, serial uint64) bool {
	return serial <= s.serial && plain(pid) <= s.id
}

// raise makes the mark cover what it did and rows up to serial of ids up to id.
func (s *staleMark) raise(serial uint64, id batchfmt.ProducerID) {
	if serial > 0 {
		s.serial, s.id = max(s.serial, serial), max(s.id, id)
	}
}

// entry is a run as the head has it.
type entry struct {
	number      uint64
	rows, named uint64
	first, last uint64 // serials
	highest     batchfmt.ProducerID
	bytes       uint64
}

// count takes a row that is being written into the run.
func (e *entry) count(k sorttable.Key) {
	e.rows++
	e.named += k.B & 1
	e.highest = max(e.highest, plain(batchfmt.ProducerID(k.A)))
}

// newHead is the head of a table that never had a row.
func newHead() head { return head{serial: 1} }

func (h head) clone() head {
	h.runs = slices.Clone(h.runs)
	return h
}

// lose says that the run of e is lost with all its rows.
func (h *head) lose(e entry) { h.hole(e.first, e.highest) }

// hole says that rows of ids up to highest are lost, from a run whose first serial is first.
func (h *head) hole(first uint64, highest batchfmt.ProducerID) {
	h.forgotten = max(h.forgotten, highest)
	h.stale.raise(first-1, highest)
}

// append appends one copy, without the zeros behind it.
func (h head) append(dst []byte) []byte {
	le, start := binary.LittleEndian, len(dst)
	dst = append(dst, headMagic...)
	dst = le.AppendUint32(dst, uint32(len(h.runs)))
	dst = le.AppendUint64(dst, h.generation)
	dst = le.AppendUint64(dst, h.serial)
	dst = le.AppendUint64(dst, uint64(h.forgotten))
	dst = le.AppendUint64(dst, h.stale.serial)
	dst = le.AppendUint64(dst, uint64(h.stale.id))
	dst = le.AppendUint64(dst, uint64(h.vouched))
	for _, e := range h.runs {
		for _, x := range [...]uint64{e.number, e.rows, e.named, e.first, e.last, uint64(e.highest), e.bytes} {
			dst = le.AppendUint64(dst, x)
		}
	}
	return le.AppendUint64(dst, xxhash.Sum64(dst[start:]))
}

// parseHead reads one copy and the zeros behind it.
func parseHead(b []byte) (head, error) {
	le := binary.LittleEndian
	if len(b) != headCopyBytes {
		return head{}, fmt.Errorf("a copy has %d bytes, not %d", headCopyBytes, len(b))
	}
	if string(b[:len(headMagic)]) != headMagic {
		return head{}, fmt.Errorf("%q is no head of a version that is known", b[:len(headMagic)])
	}
	n := int(min(le.Uint32(b[offRunCount:]), mostRuns+1))
	if n > mostRuns {
		return head{}, fmt.Errorf("more than %d runs", mostRuns)
	}
	end := headFixedSize + n*entrySize
	if have, got := le.Uint64(b[end:]), xxhash.Sum64(b[:end]); have != got {
		return head{}, fmt.Errorf("the check is %016x, the bytes have %016x", have, got)
	}
	if len(bytes.Trim(b[end+checkSize:], "\x00")) > 0 {
		return head{}, errors.New("there is something behind its end")
	}
	h := head{
		generation: le.Uint64(b[offGeneration:]),
		serial:     le.Uint64(b[offSerial:]),
		forgotten:  batchfmt.ProducerID(le.Uint64(b[offForgotten:])),
		stale:      staleMark{le.Uint64(b[offStaleSerial:]), batchfmt.ProducerID(le.Uint64(b[offStaleID:]))},
		vouched:    batchfmt.Offset(le.Uint64(b[offVouched:])),
	}
	for i := range n {
		e := b[headFixedSize+i*entrySize:]
		at := func(i int) uint64 { return le.Uint64(e[i*8:]) }
		h.runs = append(h.runs, entry{at(0), at(1), at(2), at(3), at(4), batchfmt.ProducerID(at(5)), at(6)})
	}
	return h, h.check()
}

// check holds the numbers against each other.
func (h head) check() error {
	if h.serial == 0 || h.serial > mostCount || h.generation > mostCount || h.forgotten > maxID || h.stale.id > maxID || h.stale.serial >= h.serial || h.vouched < 0 {
		return fmt.Errorf("generation %d, serial %d, forgotten %d, stale %+v, vouched %d cannot be", h.generation, h.serial, h.forgotten, h.stale, h.vouched)
	}
	last, seen := uint64(1), make(map[uint64]bool)
	for _, e := range h.runs {
		if e.number == 0 || e.number > h.generation || seen[e.number] ||
			e.rows == 0 || e.rows > sorttable.MaxRows || e.named > e.rows || e.highest > maxID || e.bytes > mostCount ||
			e.first == 0 || e.first > e.last || e.last < last || e.last >= h.serial {
			return fmt.Errorf("run %+v cannot be", e)
		}
		last, seen[e.number] = e.last, true
	}
	return nil
}

// headFile is the bytes of the whole file.
func (h head) file() []byte {
	b := make([]byte, headBytes)
	one := h.append(nil)
	copy(b, one)
	copy(b[headCopyBytes:], one)
	return b
}

// parseHeadFile reads a head of which at least one copy is right. notes says what is wrong
// with the other one. The error is ErrDamaged.
func parseHeadFile(b []byte) (h head, notes []error, err error) {
	var copies []head
	for i := range 2 {
		one := b[min(i*headCopyBytes, len(b)):min((i+1)*headCopyBytes, len(b))]
		c, err := parseHead(one)
		if err != nil {
			notes = append(notes, damaged(fmt.Errorf("%s: copy %d: %w", headName, i+1, err)))
			continue
		}
		copies = append(copies, c)
	}
	switch {
	case len(copies) == 0:
		return head{}, nil, errors.Join(notes...)
	case len(copies) == 2 && !bytes.Equal(copies[0].append(nil), copies[1].append(nil)):
		return head{}, nil, damaged(fmt.Errorf("%s: its copies differ", headName))
	case len(b) > headBytes:
		notes = append(notes, damaged(fmt.Errorf("%s: it has %d bytes, not %d", headName, len(b), headBytes)))
	}
	return copies[0], notes, nil
}

// readHead reads the head in dir. The error is ErrDamaged, fs.ErrNotExist, or the disk's.
func readHead(fs vfs.FS, dir string) (head, []error, error) {
	f, err := fs.Open(filepath.Join(dir, headName))
	if err != nil {
		return head{}, nil, err
	}
	size, err := f.Size()
	b := make([]byte, min(size, headBytes+1))
	if err == nil {
		err = readFull(f, b)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return head{}, nil, fmt.Errorf("read %s: %w", headName, err)
	}
	return parseHeadFile(b)
}

// writeHead puts h in place of the head in dir. After an error either of the two may be
// there, and a crash may still change which.
func writeHead(fs vfs.FS, dir string, h head) error {
	if err := h.check(); err != nil {
		return fmt.Errorf("write %s: %w", headName, err)
	}
	name := filepath.Join(dir, headName)
	if err := sorttable.RemoveTemp(fs, name); err != nil {
		return fmt.Errorf("write %s: %w", headName, err)
	}
	f, err := fs.Create(name + tempSuffix)
	if err != nil {
		return fmt.Errorf("write %s: %w", headName, err)
	}
	err = errors.Join(fillFile(f, h.file()), f.Close())
	if err == nil {
		err = fs.Rename(name+tempSuffix, name)
	}
	if err != nil {
		_ = sorttable.RemoveTemp(fs, name) // the next one does it else
		return fmt.Errorf("write %s: %w", headName, err)
	}
	return fs.SyncDir(dir)
}

// fillFile makes b durable in the empty file f and looks whether it is there.
func fillFile(f vfs.File, b []byte) error {
	if _, err := f.WriteAt(b, 0); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), vfs.DropCache(f)); err != nil {
		return err
	}
	got := make([]byte, len(b))
	if err := readFull(f, got); err != nil {
		return err
	}
	if !bytes.Equal(got, b) {
		return errors.New("the disk does not give back what was written")
	}
	return nil
}

// readFull fills b from the start of f.
func readFull(f vfs.File, b []byte) error {
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return err
	}
	return nil
}
