package wire

import (
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

// Versions are one byte: a peer may know all of them and still be greeted.
func TestHelloListsAllVersions(t *testing.T) {
	h := &Hello{MinProtocol: 1, MaxProtocol: 9}
	for v := 1; v < 256; v++ {
		h.BatchVersions = append(h.BatchVersions, batchfmt.Version(v))
	}
	m, err := Decode(KindHello, h.appendPayload(nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, refused := Negotiate(m.(*Hello)); refused != nil {
		t.Fatal(refused)
	}
}

// A hint is a frame that may be stepped over: a bit of it that came later must not end the
// connection.
func TestHintWithANewBit(t *testing.T) {
	b := (&TopicChanged{Name: "t", Deleted: true}).appendPayload(nil)
	b[len(b)-1] |= 0x40
	if m, err := Decode(KindTopicChanged, b); err != nil || !m.(*TopicChanged).Deleted {
		t.Errorf("%+v, %v", m, err)
	}
}

// A newer server that has one more thing to say of a topic in its flags keeps older clients
// from using any topic: they look it up before they produce or consume.
func TestTopicWithANewBit(t *testing.T) {
	info := TopicInfo{Name: "t", Strict: true}
	b := (&TopicCreated{info}).appendPayload(nil)
	b[4+2+1+16+8+4] |= 0x40
	if m, err := Decode(KindTopicCreated, b); err != nil || !m.(*TopicCreated).Topic.Strict {
		t.Errorf("%+v, %v", m, err)
	}
}
