package counters

import "github.com/quoin-io/quoin/wire"

// Answer counts the answer that a batch gets. It is called once for each answer, at the
// place that gives it. First match wins.
//
//	OK                                  appended, or duplicate if it was stored before
//	OUT_OF_ORDER_SEQUENCE_NUMBER        gap
//	INVALID_PRODUCER_EPOCH, SUPERSEDED  fenced    whatever is known of the batch itself
//	SEQUENCE_CONFLICT                   conflict
//	nothing happened, by the table      rejected
//	otherwise                           unknown   what was stored and is unreadable included
func (b *Batches) Answer(code wire.Code, duplicate bool) { b.outcome(code, duplicate).Add(1) }

func (b *Batches) outcome(code wire.Code, duplicate bool) *Counter {
	switch code {
	case wire.CodeOK:
		if duplicate {
			return &b.Duplicate
		}
		return &b.Appended
	case wire.CodeOutOfOrder:
		return &b.Gap
	case wire.CodeInvalidProducerEpoch, wire.CodeSuperseded:
		return &b.Fenced
	case wire.CodeSequenceConflict:
		return &b.Conflict
	}
	if code.Info().Outcome == wire.NothingHappened {
		return &b.Rejected
	}
	return &b.Unknown
}
