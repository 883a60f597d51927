package seglog

import (
	"errors"

	"github.com/quoin-io/quoin/batchfmt"
)

// hashBudget bounds how much is hashed in search of good batches, as a multiple of what is
// searched: bytes that look like many large batches must not cost time without end.
const hashBudget = 4

// minBatchBytes is less than any batch with a record has.
const minBatchBytes = batchfmt.HeaderSize1

// errTooMany says that the budget was spent.
var errTooMany = errors.New("what follows has too many beginnings of batches to tell what was stored")

// A search looks behind a bad place for the next good batch.
//
// Where a front verifies and can stand there, its size can be trusted, and the search steps
// from batch to batch, so that what a producer put into its records is not taken for a batch.
// Only where a front is lost, or is that of an older batch in a sector that was not written,
// does it look at every byte.
type search struct {
	w      *window
	marks  []entry // where batches begin for certain: the entries of an index that verifies
	limit  Offset  // no batch that is looked for reaches over it
	budget int64   // bytes that may still be hashed
}

// newer is the error for what a newer release has written at pos, if why says that there is no
// batch for such a reason. A producer could have put those bytes into one of its records: then a
// damaged log is left alone that could be read on, which loses nothing.
func (s *search) newer(pos int64, why error) error {
	if f, ok := errors.AsType[*batchfmt.FormatError](why); ok && f.Newer {
		return s.w.newer(pos)
	}
	return nil
}

// resume is where the next good batch behind a bad place begins, and its base offset.
func (s *search) resume(bad segEnd) (entry, bool, error) {
	pos, framed := bad.size, true
	for pos < s.w.end {
		mark, marked := after(s.marks, pos)
		head, err := s.w.header(pos)
		if err != nil && !isFormat(err) {
			return entry{}, false, err
		}
		if err := s.newer(pos, err); err != nil {
			return entry{}, false, err
		}
		size := int64(0)
		if err == nil {
			size = int64(head.Size())
		}
		if marked && pos+size > mark.pos {
			size, framed = 0, false // what overlaps a batch is none
		}
		plausible := size > 0 && s.plausible(bad, head, pos)
		other := plausible && (pos > bad.size || head.BaseOffset() > bad.next) // than the bad one
		if other && pos+size <= s.w.end && nextOf(head) <= s.limit {
			good, err := s.verify(pos, size)
			if good || err != nil {
				return entry{head.BaseOffset(), pos}, good, err
			}
		}
		if framed && plausible {
			pos += size
			continue
		}
		framed = false
		if pos, err = s.w.nextMagic(pos + 1); err != nil {
			return entry{}, false, err
		}
		if marked && pos >= mark.pos {
			pos, framed = mark.pos, true
		}
	}
	return entry{}, false, nil
}

// plausible says whether a batch, by its front, can stand at the bad place or behind it: what
// lies between must at least have had room for the offsets that are missing.
func (s *search) plausible(bad segEnd, head batchfmt.Batch, pos int64) bool {
	room := Offset((pos-bad.size)/minBatchBytes+1) * batchfmt.MaxRecordCount
	return head.Term() >= bad.term &&
		head.BaseOffset() >= bad.next && head.BaseOffset()-bad.next <= room &&
		head.Durable() <= head.BaseOffset()
}

func (s *search) verify(pos, size int64) (bool, error) {
	if s.budget -= size; s.budget < 0 {
		return false, errTooMany
	}
	b, err := s.w.batch(pos)
	if err != nil && !isFormat(err) {
		return false, err
	}
	return err == nil && b.Verify() == nil, nil
}
