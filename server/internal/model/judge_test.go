package model

import (
	"fmt"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// An attempt is one Produce frame on its way, with what was certain when it was sent.
type attempt struct {
	id      ident
	lower   batchfmt.Seq   // the lane's last sequence: not less than this
	opening int            // of its stream
	given   int            // newest opening of the lane that was given
	fenced  bool           // its instance had lost the producer id
	issued  batchfmt.Epoch // highest epoch given out
	crowded bool           // there were more in flight than a lane may have
}

// A situation is what explains an answer besides the reference: what the world did.
type situation struct {
	fenced  bool           // the instance has lost the producer id, or is about to
	issued  batchfmt.Epoch // highest epoch given out by now
	faults  bool           // a write or a sync was made to fail since the start
	full    bool           // there was no room on the disk since the start
	stopped bool           // a sync was made to fail since the start
	ending  bool           // the server is being stopped
	holders int            // lanes that may be open in the partition
	limit   int            // how many it takes
}

// unsettled are the answers after which the attempt may still turn out to be stored.
var unsettled = map[wire.Code]bool{
	wire.CodeDurabilityUnknown: true, wire.CodeShutdown: true, wire.CodeInternal: true,
	wire.CodeLookUpFailed: true, wire.CodeProtocol: true,
}

// answered holds the answer to a batch against what is stored and what was said.
func (r *reference) answered(p place, a attempt, m *wire.ProduceResult, s situation) {
	h := r.at(p)
	f := h.fact(a.id)
	if !unsettled[m.Code] {
		f.open = max(0, f.open-1)
	}
	if wrong := r.judge(h, f, a, m, s); wrong != "" {
		r.fail("%v was answered with %v (offset %d, expected %d, duplicate %v, verified %v, not stored %v, %s): %s",
			a.id, m.Code, m.BaseOffset, m.Expected, m.Duplicate, m.Verified, m.NotStored, m.Detail, wrong)
	}
	if m.Code == wire.CodeInvalidProducerEpoch || m.Code == wire.CodeSuperseded {
		r.fate(h, f, m)
	}
}

// fate takes what a refusal says about the batch itself.
func (r *reference) fate(h *history, f *fact, m *wire.ProduceResult) {
	switch {
	case m.NotStored:
		r.absent(f, "it was fenced, never stored")
	case m.BaseOffset >= 0:
		r.stored(f, m.BaseOffset)
		h.isThere(f)
	}
}

// judge says what is wrong with an answer.
func (r *reference) judge(h *history, f *fact, a attempt, m *wire.ProduceResult, s situation) string {
	t := h.lane(a.id.pid)
	switch m.Code {
	case wire.CodeOK:
		switch {
		case a.fenced:
			return "its instance is fenced"
		case a.opening < a.given && !t.unsure:
			return "its opening is over"
		case m.Duplicate && !m.Verified && !h.damaged:
			return "nobody compared it"
		case !m.Duplicate && f.found >= 0:
			return "it is not marked as a duplicate"
		case a.id.epoch > a.issued && a.id.epoch > s.issued:
			return "nobody gave out its epoch"
		}
		r.stored(f, m.BaseOffset)
		h.isThere(f)
	case wire.CodeOutOfOrder:
		return h.gap(t, a, batchfmt.Seq(m.Expected))
	case wire.CodeSequenceConflict:
		r.absent(f, "it was called a conflict")
		h.conflicts(a.id)
	case wire.CodeInvalidProducerEpoch:
		return fencing(t, a, batchfmt.Epoch(m.Expected), s)
	case wire.CodeSuperseded:
		if t.asked <= a.opening && !t.unsure {
			return "there is no newer opening"
		}
	case wire.CodeUnknownProducerID:
		if (a.lower >= 0 || a.id.base == 0) && !r.forgettable(h, a.id.pid) {
			return "the lane cannot be forgotten"
		}
	case wire.CodeUnknownTopicID:
		return unless(h.gone, "the topic is there")
	case wire.CodeTooManyInFlight:
		return unless(a.crowded, "there are not too many")
	case wire.CodeBatchUnreadable, wire.CodeUnknownOutcome:
		return unless(h.damaged, "the disk has lost nothing")
	default:
		return s.trouble(m.Code)
	}
	return ""
}

func unless(ok bool, wrong string) string {
	if ok {
		return ""
	}
	return wrong
}

// trouble judges the answers that any request may get.
func (s situation) trouble(code wire.Code) string {
	switch code {
	case wire.CodeInvalidLane, wire.CodeThrottled:
		return "" // the lane was refused, or many things are looked up
	case wire.CodeShutdown:
		return unless(s.ending, "nobody stops the server")
	case wire.CodeStorageError:
		return unless(s.faults, "no write failed")
	case wire.CodeDiskFull:
		return unless(s.full, "there is room")
	case wire.CodePartitionStopped, wire.CodeDurabilityUnknown:
		return unless(s.stopped || s.faults || s.full, "nothing failed")
	}
	return "this must not happen"
}

// conflicts claims that something else holds a sequence of id.
func (h *history) conflicts(id ident) {
	h.claims = append(h.claims, func() string {
		for _, b := range h.lane(id.pid).batches {
			if b != id && b.base <= id.last && id.base <= b.last {
				return ""
			}
		}
		return fmt.Sprintf("%v was called a conflict, and nothing holds its sequences", id)
	})
}

// gap judges OUT_OF_ORDER: what is expected is the lane's next sequence. That answer does not wait
// for the sync of what stands in front, so it must show soon.
func (h *history) gap(t *track, a attempt, expected batchfmt.Seq) string {
	lives := h.lives
	if expected <= a.lower || expected >= a.id.base {
		return fmt.Sprintf("the lane had ended with sequence %d", a.lower)
	}
	h.soon = append(h.soon, func() string {
		if h.lives == lives && expected > t.last+1 {
			return fmt.Sprintf("%v was out of order, sequence %d expected, but the lane ends with %d", a.id, expected, t.last)
		}
		return ""
	})
	return ""
}

// fencing judges INVALID_PRODUCER_EPOCH.
func fencing(t *track, a attempt, current batchfmt.Epoch, s situation) string {
	lane := max(t.epoch, t.fence)
	switch {
	case current > max(s.issued, lane):
		return fmt.Sprintf("epoch %d was never given out", current)
	case a.fenced || s.fenced:
	case a.id.epoch > a.issued:
	case a.id.epoch < lane:
	default:
		return fmt.Sprintf("its instance holds the id, its epoch was given out, the lane takes epoch %d", lane)
	}
	return ""
}

// An asked opening is an OpenLane on its way, with what was certain when it was sent.
type asked struct {
	m      *wire.OpenLane
	pid    batchfmt.ProducerID
	number int
	lower  batchfmt.Seq
	fenced bool
	issued batchfmt.Epoch
	closed bool
}

// opened holds the answer to an opening against what is stored. Nothing else may be under
// way in the lane until all is read.
func (r *reference) opened(p place, q asked, m *wire.LaneOpened) {
	h := r.at(p)
	t := h.lane(q.pid)
	if q.fenced || q.m.Epoch != q.issued {
		r.fail("p%d epoch %d was opened, fenced %v, its epoch is %d", q.pid, q.m.Epoch, q.fenced, q.issued)
	}
	if m.LastSequence < 0 && q.m.Acked == nil && q.m.Sent == nil && !q.m.Fresh && r.forgettable(h, q.pid) {
		return // whoever has sent nothing begins at the start; what it then sends is judged
	}
	if q.m.Sent != nil && m.LastSequence > *q.m.Sent && !q.m.Fresh || q.m.Sent == nil && m.LastSequence >= 0 && !q.m.Fresh {
		r.fail("p%d was opened at sequence %d, more than it says it has sent", q.pid, m.LastSequence)
	}
	h.claims = append(h.claims, func() string {
		if m.LastSequence == t.last && m.LastOffset == t.end && (m.LastDigest == t.digest || h.damaged) || h.gone {
			return ""
		}
		return fmt.Sprintf("p%d was opened at sequence %d, offset %d, digest %x; there is %d, %d, %x",
			q.pid, m.LastSequence, m.LastOffset, m.LastDigest, t.last, t.end, t.digest)
	})
}

// refused holds the refusal of an opening against what is stored.
func (r *reference) refused(p place, q asked, e *wire.Error, s situation) {
	h := r.at(p)
	t := h.lane(q.pid)
	wrong := ""
	switch e.Code {
	case wire.CodeInvalidProducerEpoch:
		wrong = unless(s.fenced || q.m.Epoch != q.issued, "it holds the id, with this epoch")
	case wire.CodeProducerCloned:
		sent := batchfmt.Seq(-1)
		if q.m.Sent != nil {
			sent = *q.m.Sent
		}
		h.claims = append(h.claims, func() string {
			return unless(t.last > sent && !q.m.Fresh, fmt.Sprintf("p%d was called a clone with %d sent, and the lane ends with %d", q.pid, sent, t.last))
		})
	case wire.CodeUnknownProducerID:
		wrong = unless(q.closed || r.forgettable(h, q.pid), "the lane cannot be forgotten")
	case wire.CodeDataLoss:
		wrong = unless(h.damaged, "the disk has lost nothing")
	case wire.CodeProducerLimitReached:
		wrong = unless(s.holders >= s.limit, fmt.Sprintf("%d lanes of %d are open", s.holders, s.limit))
	case wire.CodeUnknownTopicID:
		wrong = unless(h.gone, "the topic is there")
	default:
		wrong = s.trouble(e.Code)
	}
	if wrong != "" {
		r.fail("opening of p%d, epoch %d, sent %v, fresh %v was refused: %v: %s", q.pid, q.m.Epoch, deref(q.m.Sent), q.m.Fresh, e, wrong)
	}
}

func deref(s *batchfmt.Seq) batchfmt.Seq {
	if s == nil {
		return -1
	}
	return *s
}
