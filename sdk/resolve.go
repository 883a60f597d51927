package sdk

import (
	"context"
	"errors"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// ResolveOutcome is what became of a batch.
type ResolveOutcome = wire.ResolveOutcome

// What can have become of a batch. ResolveStored, ResolveNotStored and ResolveTopicGone are
// final; ResolveNotStored comes of [Settle], or of another batch that holds the sequences.
const (
	ResolveStored       = wire.ResolveStored     // it is stored
	ResolveInFlight     = wire.ResolveInFlight   // it is written and not safe on disk yet: ask again
	ResolveNotStoredYet = wire.ResolveNotYet     // it is not stored; a copy that is still on its way may be
	ResolveNotStored    = wire.ResolveNever      // it is not stored and never will be
	ResolveTopicGone    = wire.ResolveTopicGone  // the topic was deleted with all that it held
	ResolveUnknowable   = wire.ResolveUnknowable // nobody can tell any more: Reason says why
)

// A Resolution is what [Client.Resolve] found out.
type Resolution struct {
	Outcome ResolveOutcome
	// Offset is that of the batch's first record, see OffsetOf for the others. It is -1 unless
	// the batch is stored, and when nobody knows it any more.
	Offset int64
	// Verified says of a stored batch that the server compared it with the token. Without it
	// the sequences alone prove it, as what was stored there was removed since, or cannot be
	// read.
	Verified bool
	// Unreadable says of a stored batch that it cannot be read any more. Offset is where the
	// damage is.
	Unreadable bool
	Reason     string // for people; it may change in any release

	records int
}

// OffsetOf is the offset of a record of the batch, by its place in there, such as
// [OutcomeUnknown].Record; -1 when it is not known.
func (r Resolution) OffsetOf(record int) int64 {
	if r.Offset < 0 || r.Unreadable || record < 0 || record >= r.records {
		return -1
	}
	return r.Offset + int64(record)
}

// A ResolveOption changes what Resolve does.
type ResolveOption func(*resolveOptions)

type resolveOptions struct{ settle bool }

// Settle makes the answer final: a batch that is not stored never will be. For that the
// server writes a fence into the partition, which refuses everything that the producer has
// sealed for it so far. A producer that lives and uses the partition raises its epoch when
// it meets the fence, seals anew what was not stored, and goes on: that costs it some round
// trips and two small writes on disk. Other producers notice nothing.
func Settle() ResolveOption { return func(o *resolveOptions) { o.settle = true } }

// Resolve finds out what became of the batch that t names. It only looks, unless [Settle]
// is given: then [ResolveNotStoredYet] and [ResolveInFlight] are waited for and become
// final. Resolving a batch again is harmless and gives the same once it is final.
//
// Resolve goes on through lost connections until ctx ends. An error says that there is no
// answer, and nothing of the batch: [ErrInvalidToken] for the zero Token, a [ServerError]
// when the server refuses, for instance when the token's key is not that of the producer.
func (c *Client) Resolve(ctx context.Context, t Token, opts ...ResolveOption) (Resolution, error) {
	if t.IsZero() {
		return Resolution{}, badToken("it names nothing")
	}
	var o resolveOptions
	for _, opt := range opts {
		opt(&o)
	}
	m, err := c.resolve(ctx, &t, o.settle)
	if err != nil {
		return Resolution{}, resolveError(err, &t)
	}
	return resolutionOf(m, &t), nil
}

// resolve asks the server. To look takes no key, so none is sent.
func (c *Client) resolve(ctx context.Context, t *Token, settle bool) (*wire.Resolved, error) {
	m := &wire.Resolve{ProducerID: batchfmt.ProducerID(t.producerID), Epoch: batchfmt.Epoch(t.epoch), TopicID: t.topicID,
		Partition: t.partition, Base: batchfmt.Seq(t.first), Last: batchfmt.Seq(t.Last()), Digest: t.digest, Settle: settle}
	if settle {
		m.Key = wire.Secret([]byte(t.key.Value()))
	}
	reply, err := c.transport.Do(ctx, m, true)
	if err != nil {
		return nil, err
	}
	resolved, ok := reply.(*wire.Resolved)
	if !ok {
		return nil, unexpected("resolve", reply)
	}
	return resolved, nil
}

func resolveError(err error, t *Token) error {
	out := serverError("resolve", t.topic, err)
	var refusal *ServerError
	if errors.As(out, &refusal) {
		refusal.Partition, refusal.ProducerID, refusal.Sequence = t.Partition(), t.producerID, t.first
	}
	return out
}

func resolutionOf(m *wire.Resolved, t *Token) Resolution {
	r := Resolution{Outcome: m.Outcome, Offset: -1, Reason: m.Detail, records: int(t.records)}
	switch m.Outcome {
	case ResolveStored:
		r.Offset, r.Verified, r.Unreadable = int64(m.Offset), m.Verified, m.Unreadable
	case ResolveInFlight, ResolveNotStoredYet, ResolveNotStored, ResolveTopicGone, ResolveUnknowable:
	default:
		r.Outcome, r.Reason = ResolveUnknowable, "the server answered with "+m.Outcome.String()+", which this version does not know"
	}
	return r
}
