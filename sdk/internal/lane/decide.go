package lane

import (
	"github.com/quoin-io/quoin/sdk/internal/planted"
	"github.com/quoin-io/quoin/wire"
)

// A verdict is what follows from an answer that is not success.
type verdict uint8

const (
	resendNow verdict = iota + 1 // the reason has gone already
	resend                       // the same bytes again, after a pause
	reopen                       // ask the server where the lane stands, after a pause, then resend
	refuse                       // the batch is not stored; the lane can go on without it
	stop                         // the lane is over
)

// laneOver are the answers after which nothing more may be written in this lane, though
// they say that this request did nothing.
var laneOver = map[wire.Code]bool{
	wire.CodeUnknownTopic:        true,
	wire.CodeUnknownTopicID:      true,
	wire.CodeUnknownPartition:    true,
	wire.CodeVersionUnsupported:  true,
	wire.CodeUnsupportedVersion:  true,
	wire.CodeSequenceConflict:    true,
	wire.CodeProducerCloned:      true,
	wire.CodeDataLoss:            true,
	wire.CodeProducerKeyMismatch: true,
}

// tellsWhere are the errors whose base offset says where the batch is stored.
var tellsWhere = map[wire.Code]bool{
	wire.CodeInvalidProducerEpoch: true,
	wire.CodeSuperseded:           true,
	wire.CodeBatchUnreadable:      true,
}

// storedThere reports whether an error says that the batch is stored all the same.
func storedThere(r *wire.ProduceResult) bool { return r.BaseOffset >= 0 && tellsWhere[r.Code] }

// decideHead says what follows from an answer for the head that is not success. First
// match wins.
//
//	out of order, batches were in front of it then   resendNow  they have their outcome by now
//	out of order                                     reopen     the server stands elsewhere than we think
//	no such lane                                     reopen
//	a newer opening took over, and it is ours too    reopen     ours may have arrived in another order
//	may be retried                                   resend
//	the lane is over                                 stop
//	the answer leaves the outcome open               stop
//	an earlier attempt left the outcome open         stop       an error now says nothing about then
//	otherwise                                        refuse
func decideHead(code wire.Code, asHead, uncertain bool) verdict {
	info := code.Info()
	switch {
	case code == wire.CodeOutOfOrder && planted.GapFails:
		return refuse
	case code == wire.CodeOutOfOrder && !asHead:
		return resendNow
	case code == wire.CodeOutOfOrder, code == wire.CodeInvalidLane, code == wire.CodeSuperseded:
		return reopen
	case info.Retry, info.Outcome == wire.NothingHappened && planted.RefusalRetried:
		return resend
	case laneOver[code], info.Outcome != wire.NothingHappened, uncertain:
		return stop
	}
	return refuse
}
