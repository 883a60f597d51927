package outbox

import (
	"fmt"

	"github.com/quoin-io/quoin/batchfmt"
)

// Limits of the names in a Binding, in bytes.
const (
	maxServerName = 64
	maxName       = 255
)

// A Binding says whose batches an outbox holds.
type Binding struct {
	// Server is the incarnation of the server, or empty. At most 64 bytes.
	Server string
	// Topic is the name of the topic, at most 255 bytes.
	Topic   string
	TopicID [16]byte
	// Producer is the name of the producer, at most 255 bytes.
	Producer string
	// ProducerID is what the server gave to the name. 0 is not known yet: it fits any, and
	// Outbox.Bind must be called before the first Put.
	ProducerID batchfmt.ProducerID
}

func (b Binding) String() string {
	s := fmt.Sprintf("producer %q (id %d) for topic %q (id %x)", b.Producer, b.ProducerID, b.Topic, b.TopicID)
	if b.Server != "" {
		s += fmt.Sprintf(" of server %q", b.Server)
	}
	return s
}

func (b Binding) check() error {
	switch {
	case len(b.Server) > maxServerName:
		return fmt.Errorf("outbox: the server's name has %d bytes, at most %d are allowed", len(b.Server), maxServerName)
	case len(b.Topic) > maxName || b.Topic == "":
		return fmt.Errorf("outbox: the topic's name has %d bytes, 1 to %d are allowed", len(b.Topic), maxName)
	case len(b.Producer) > maxName || b.Producer == "":
		return fmt.Errorf("outbox: the producer's name has %d bytes, 1 to %d are allowed", len(b.Producer), maxName)
	}
	return nil
}

// fits reports whether both speak of the same, where a producer id of 0 leaves it open.
func (b Binding) fits(other Binding) bool {
	if b.ProducerID == batchfmt.NoProducer || other.ProducerID == batchfmt.NoProducer {
		b.ProducerID, other.ProducerID = 0, 0
	}
	return b == other
}
