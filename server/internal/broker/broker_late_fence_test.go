package broker

import (
	"testing"

	"github.com/quoin-io/quoin/server/internal/catalog"
	"github.com/quoin-io/quoin/wire"
)

// The request of an instance that lost the name meanwhile comes to fence late: it must not
// take the right away from the instance that came after it, which alone holds the name.
func TestLateFenceLeavesTheHolderAlone(t *testing.T) {
	h := openBroker(t)
	older, err := h.b.catalog.InitProducer(catalog.InstanceID{1}, "n") // and its goroutine is held up here
	if err != nil {
		t.Fatal(err)
	}
	m, failure := h.b.InitProducer(t.Context(), &wire.InitProducer{Instance: [16]byte{2}, Name: "n"}, "the newer")
	if failure != nil {
		t.Fatal(failure)
	}
	newer := m.(*wire.ProducerInited)
	open := &wire.OpenLane{ProducerID: newer.ProducerID, Key: newer.Key, Epoch: newer.Epoch, TopicID: h.topic}
	grant, failure := h.b.Authorize(open, h.part)
	if failure != nil {
		t.Fatal(failure)
	}
	if failure := h.b.fenceOlder(t.Context(), older, "the older"); failure != nil {
		t.Logf("the older one is refused: %v", failure)
	}
	if !grant.Holds() {
		t.Errorf("the holder of the name lost its right: %s", grant.Fencer())
	}
	again, failure := h.b.Authorize(open, h.part)
	if failure != nil || !again.Holds() {
		t.Errorf("the holder of the name cannot open a lane again: %v", failure)
	}
	if got := h.b.takenBy(newer.ProducerID); got != ", the newer" {
		t.Errorf("the name is said to be taken by %q", got)
	}
}
