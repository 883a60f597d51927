package producerstate

import "github.com/quoin-io/quoin/batchfmt"

// GatewaySpace is the bit that tells the lanes of the Kafka gateway from native ones:
// a stored producer id with this bit set belongs to the gateway, which adds it to the
// id that its client uses. So neither kind can ever touch a lane of the other.
const GatewaySpace batchfmt.ProducerID = 1 << 63

// InGatewaySpace reports whether pid is the stored id of a gateway lane.
func InGatewaySpace(pid batchfmt.ProducerID) bool { return pid&GatewaySpace != 0 }

// Identity is what a batch claims to be. All of it is sealed in the batch, so a retry,
// over whatever connection, has the same identity.
type Identity struct {
	PID    batchfmt.ProducerID
	Epoch  batchfmt.Epoch // under which the batch was sealed
	Base   batchfmt.Seq   // sequence of the first record
	Last   batchfmt.Seq   // sequence of the last record
	Digest batchfmt.Digest
}

// IdentityOf reads the identity of b. A version-1 batch has none (PID is NoProducer),
// nor has a control batch (Last is below Base); Decide calls both Invalid.
func IdentityOf(b batchfmt.Batch) Identity {
	return Identity{
		PID:    b.ProducerID(),
		Epoch:  b.Epoch(),
		Base:   b.BaseSequence(),
		Last:   b.LastSequence(),
		Digest: b.Digest(),
	}
}

// valid reports whether id can be the identity of a batch with records.
func (id Identity) valid() bool {
	return id.PID != batchfmt.NoProducer && id.Base >= 0 && id.Last >= id.Base
}
