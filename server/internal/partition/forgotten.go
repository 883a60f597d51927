package partition

import (
	"errors"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerindex"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/seglog"
)

// findProven looks for a batch of a lane that nothing is known of any more. Only what stands
// in the log counts: a stored batch that shares a sequence with it, verified in full, or what
// damage has left of the batch itself. That a sequence is not found says nothing; a range that
// begins below and ends above all that is left of the lane counts as not found.
//
// Whoever may write can ask for any number of producers that were never here, so the log itself
// is not searched. Each segment costs a look at its filter, in memory, and a block of its index
// for about one in eighty that do not have the producer. What is found costs a walk over the
// headers of a run, at most, and one batch.
func (p *Partition) findProven(id producerstate.Identity) (producerstate.Finding, error) {
	nothing := producerstate.Finding{Found: producerstate.FoundNothing}
	at, found, err := p.findRun(id.PID, id.Base, id.Last)
	if err != nil || !found {
		return nothing, p.unlessEnding(err)
	}
	offset, found, err := p.findInRun(at)
	if err = p.unlessEnding(err); err != nil {
		return nothing, err
	}
	if found {
		b, err := p.log.BatchAt(offset)
		var corrupt *seglog.CorruptError
		switch {
		case err == nil && b.ProducerID() == id.PID && b.BaseSequence() <= id.Last && id.Base <= b.LastSequence():
			return foundBatch(b), nil
		case err == nil: // another batch than its header was a moment ago
			return nothing, nil
		case !errors.As(err, &corrupt):
			return nothing, err
		}
	}
	return p.findRemains(at.run, id.Digest)
}

// findRemains looks in the damaged places of a run for the front of a batch, which has its
// digest. That covers the whole batch, so no other one has it.
func (p *Partition) findRemains(run producerindex.Run, digest batchfmt.Digest) (producerstate.Finding, error) {
	f := producerstate.Finding{Found: producerstate.FoundNothing}
	err := p.log.Remains(run.FirstOffset, run.LastOffset+1, func(offset batchfmt.Offset, d batchfmt.Digest) bool {
		if d == digest {
			f = producerstate.Finding{Found: producerstate.FoundDamaged, BaseOffset: offset}
		}
		return d != digest
	})
	return f, err
}

// unlessEnding gives the error of a search, and another one if it may have been broken off.
func (p *Partition) unlessEnding(err error) error {
	if p.ending.Load() {
		return errEnding
	}
	return err
}
