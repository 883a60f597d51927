package session

import (
	"fmt"
	"slices"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// newest is the newest version of batches that this server knows.
const newest = batchfmt.Version2

// delivery is what is done with a batch for a reader. First match wins.
//
//	the reader knows the version            as it is
//	the reader does not know version 1      refused   no other version is converted to
//	the topic is strict                     refused   by the choice of its owner
//	otherwise                               converted, in its memory
type delivery uint8

const (
	asItIs delivery = iota
	converted
	refused
)

func (sub *subscription) delivery(v batchfmt.Version) delivery {
	switch {
	case sub.part.Reads(v):
		return asItIs
	case !sub.part.Reads(batchfmt.Version1) || sub.part.Strict():
		return refused
	}
	return converted
}

// convert makes of a frame with batches as they are stored one with batches that the reader
// knows, in the same memory: a batch does not become larger. A batch that is refused ends
// the frame in front of it, and is an error when it is the first.
func (sub *subscription) convert(frame []byte, next batchfmt.Offset) ([]byte, batchfmt.Offset, *wire.Error) {
	out, in := frame[:pushHead], frame[pushHead:]
	if sub.part.Reads(batchfmt.Version1) && sub.part.Reads(batchfmt.Version2) {
		return frame, next, nil
	}
	for len(in) > 0 {
		b, err := batchfmt.Parse(in) // read and verified a moment ago
		if err != nil {
			return nil, 0, wire.Errorf(wire.CodeInternal, "batch read from the log: %v", err)
		}
		in = in[b.Size():]
		switch sub.delivery(b.Version()) {
		case asItIs:
			out = append(out, b.Bytes()...)
		case converted:
			if out, err = batchfmt.AppendVersion1(out, b); err != nil {
				return nil, 0, wire.Errorf(wire.CodeInternal, "convert the batch at offset %d: %v", b.BaseOffset(), err)
			}
		case refused:
			if len(out) > pushHead {
				return out, b.BaseOffset(), nil
			}
			return nil, 0, sub.unreadable(b, in)
		}
	}
	return out, next, nil
}

// unreadable is the refusal of a batch. It says where the reader may go on if it wants to do
// without: behind this batch and those that follow it and would be refused just so.
func (sub *subscription) unreadable(b batchfmt.Batch, rest []byte) *wire.Error {
	next := b.NextOffset()
	for len(rest) > 0 {
		x, err := batchfmt.Parse(rest)
		if err != nil || sub.delivery(x.Version()) != refused {
			break
		}
		next, rest = x.NextOffset(), rest[x.Size():]
	}
	why := remedy(sub.s.peer.BatchVersions, b.Version())
	if sub.part.Reads(batchfmt.Version1) {
		why = fmt.Sprintf("topic %q is strict and hands out nothing else; %s", sub.part.Topic, why)
	}
	e := wire.Errorf(wire.CodeVersionUnsupported, "the batch at offset %d has version %d, which the reader does not know: %s, or read on at offset %d",
		b.BaseOffset(), b.Version(), why, next)
	e.Expected, e.Offset, e.Version = int64(next), b.BaseOffset(), b.Version()
	return sub.part.Subject(e)
}

// remedy says what helps a reader of these versions, one at least, with a batch of another one.
// First match wins.
//
//	all are below that of the batch             the reader is the older side
//	all are above the newest of this server     the server is: a newer one may convert to them
//	otherwise                                   neither is, and the reader leaves that one out
func remedy(reads []batchfmt.Version, v batchfmt.Version) string {
	switch lowest, highest := slices.Min(reads), slices.Max(reads); {
	case highest < v:
		return "upgrade the reader"
	case lowest > newest:
		return fmt.Sprintf("the reader knows none below %d, and this server none above %d: upgrade the server, or let the reader accept version %d as well",
			lowest, newest, v)
	}
	return fmt.Sprintf("let the reader accept version %d as well", v)
}
