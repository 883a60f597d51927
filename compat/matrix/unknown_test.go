package matrix

import (
	"bufio"
	"errors"
	"strings"
	"testing"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/server/servertest"
)

const mandatory = "newer-client/mandatory"

// rig is a server of today with a client that reads both versions, and a topic that holds
// what fillTopic leaves.
func rig(t *testing.T, r release) (*client, [16]byte) {
	t.Helper()
	c := dial(t, r, servertest.Start(t, servertest.InMemory()).URL(), peer{hello: "client/hello-reads-1-2"})
	topic := c.topic("client/create-topic", "matrix", false)
	c.fillTopic(topic)
	c.fill["topic"] = topic[:]
	return c, topic
}

// A frame of a kind that is not known and may not be stepped over ends the stream that it came
// on with a named error, and nothing else.
func TestMandatoryKindEndsItsStream(t *testing.T) {
	for _, r := range releases(t) {
		c, topic := rig(t, r)
		begin := func(name string, answer uint16) (*quic.Stream, *bufio.Reader) {
			s := c.open()
			in := bufio.NewReader(s)
			c.send(s, name)
			if f := c.read(in); f.kind != answer {
				t.Fatalf("%s was answered with a frame of kind %d", name, f.kind)
			}
			return s, in
		}
		for place, open := range map[string]func() (*quic.Stream, *bufio.Reader){
			"instead of a request": func() (*quic.Stream, *bufio.Reader) { s := c.open(); return s, bufio.NewReader(s) },
			"on a lane": func() (*quic.Stream, *bufio.Reader) {
				return begin("client/open-plain-lane", kindLaneOpened)
			},
			"on a subscription": func() (*quic.Stream, *bufio.Reader) {
				return begin("client/subscribe-follow", kindSubscribed)
			},
		} {
			t.Run(place, func(t *testing.T) {
				s, in := open()
				c.send(s, mandatory)
				f := c.read(in)
				for f.kind == kindBatches {
					f = c.read(in)
				}
				if why, err := f.error(); err != nil || why.code != codeUnknownKind || !strings.Contains(why.detail, "newer peer") {
					t.Errorf("%+v, %v", why, err)
				}
				if _, err := readFrame(in); err == nil {
					t.Error("the stream goes on")
				}
				c.alive()
			})
		}
		if batches, why := c.fetch(topic, 0); why != nil || len(batches) != len(versionsStored) {
			t.Errorf("the topic has %d batches, %+v", len(batches), why)
		}
	}
}

// Where the streams of a connection hang on it, the connection ends, with the same name.
func TestMandatoryKindEndsTheConnection(t *testing.T) {
	for _, r := range releases(t) {
		url := servertest.Start(t, servertest.InMemory()).URL()
		greeted := dial(t, r, url, peer{hello: "client/hello-reads-1"})
		bare, err := connect(t, r, url, peer{})
		if err != nil {
			t.Fatal(err)
		}
		bare.control = bare.open()
		for place, c := range map[string]*client{"instead of Hello": bare, "on the control stream": greeted} {
			c.send(c.control, mandatory)
			_, err := readFrame(c.control)
			var closed *quic.ApplicationError
			if !errors.As(err, &closed) || !closed.Remote || closed.ErrorCode != codeUnknownKind {
				t.Errorf("%s: %v", place, err)
			}
		}
	}
}

// A Hello that nobody could serve is refused by name.
func TestHelloThatReadsNothing(t *testing.T) {
	for _, r := range releases(t) {
		c, err := connect(t, r, servertest.Start(t, servertest.InMemory()).URL(), peer{})
		if err != nil {
			t.Fatal(err)
		}
		if why, err := c.greet("newer-client/hello-reads-nothing").refused(); err != nil || why.code != codeUnsupportedVersion {
			t.Errorf("%+v, %v", why, err)
		}
	}
}

// A batch of a version that the server did not list is not stored, and the lane goes on.
func TestUnknownBatchVersionIsNotStored(t *testing.T) {
	for _, r := range releases(t) {
		c, topic := rig(t, r)
		lane := c.openLane("client/open-plain-lane")
		got := c.produce(lane, "newer-client/produce-9")
		if got.code == 0 || got.number != 42 || got.offset != -1 || !strings.Contains(got.detail, "version") || !strings.Contains(got.detail, "9") {
			t.Errorf("%+v", got)
		}
		c.wantStored(c.produce(lane, "client/produce-1"), result{lane: 7, number: 41, offset: endStored})
		if batches, why := c.fetch(topic, 0); why != nil || len(batches) != len(versionsStored)+1 {
			t.Errorf("the topic has %d batches, %+v", len(batches), why)
		}
	}
}
