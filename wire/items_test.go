package wire

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

// An itemSpan is where in a payload an item stands: its length at [at, at+width), its
// fields behind that, up to end.
type itemSpan struct{ at, width, end int }

// itemsOf finds all items in a payload of m's kind, the inner behind the outer.
func itemsOf(m Message, payload []byte) []itemSpan {
	var spans []itemSpan
	at := 0
	c := cursor{kind: m.Kind(), rest: payload, from: payload}
	c.sees = func(_ string, raw []byte, value any) {
		if n, ok := value.(dumpItemBytes); ok {
			spans = append(spans, itemSpan{at, len(raw), at + len(raw) + int(n)})
		}
		at += len(raw)
	}
	kinds[m.Kind()].make().decode(&c)
	return spans
}

// lengthen adds n to the length of an item.
func lengthen(payload []byte, s itemSpan, n int) {
	if s.width == 2 {
		binary.LittleEndian.PutUint16(payload[s.at:], binary.LittleEndian.Uint16(payload[s.at:])+uint16(n))
		return
	}
	binary.LittleEndian.PutUint32(payload[s.at:], binary.LittleEndian.Uint32(payload[s.at:])+uint32(n))
}

// ofNewerPeer is the payload of m as a peer writes it that has more fields in every item.
func ofNewerPeer(m Message, more []byte) []byte {
	payload := m.appendPayload(nil)
	spans := itemsOf(m, payload)
	for _, outer := range spans {
		for _, inner := range spans {
			if outer.at <= inner.at && inner.end <= outer.end {
				lengthen(payload, outer, len(more))
			}
		}
	}
	slices.SortFunc(spans, func(a, b itemSpan) int { return b.end - a.end })
	for _, s := range spans {
		payload = slices.Insert(payload, s.end, more...)
	}
	return payload
}

// newerItems is such a frame, for dumps.
func newerItems() []byte {
	payload := ofNewerPeer(&ProduceResults{Results: make([]ProduceResult, 2)}, []byte("newer"))
	return append(header(uint32(len(payload)), KindProduceResults, 0), payload...)
}

func TestItemsOfANewerPeerAreRead(t *testing.T) {
	items := 0
	for _, s := range samples(t) {
		t.Run(s.name, func(t *testing.T) {
			items += len(itemsOf(s.m, s.m.appendPayload(nil)))
			got, err := Decode(s.m.Kind(), ofNewerPeer(s.m, []byte{0xff, 0, 0xff}))
			if err != nil || !reflect.DeepEqual(got, s.m) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	if items < 15 {
		t.Errorf("only %d items were found", items)
	}
}

// holdsError reports whether the item of a message is an Error.
func holdsError(m Message) bool {
	switch m.(type) {
	case *Refused, *LaneRefused:
		return true
	}
	return false
}

func TestItemsThatLackSomethingAreRefused(t *testing.T) {
	for _, s := range samples(t) {
		t.Run(s.name, func(t *testing.T) {
			whole := s.m.appendPayload(nil)
			for _, span := range itemsOf(s.m, whole) {
				for n := range span.end - span.at - span.width {
					if isOlderForm(holdsError(s.m), span.end-span.at-span.width-n) {
						continue
					}
					payload := slices.Clone(whole)
					lengthen(payload, span, n-(span.end-span.at-span.width))
					m, err := Decode(s.m.Kind(), payload)
					var bad *FrameError
					if !errors.As(err, &bad) || m != nil {
						t.Fatalf("item at byte %d with a length of %d: %+v, %v", span.at, n, m, err)
					}
				}
			}
		})
	}
}

func TestItemsThatLieAreRefused(t *testing.T) {
	results := le(uint32(1), uint16(math.MaxUint16), make([]byte, resultBytes-2))
	topic := le(uint32(math.MaxUint32), "t", zero16, int64(0), uint32(0), uint32(0))
	inner := le(uint32(topicInfoBytes-4+partitionInfoBytes), "", zero16, int64(0), uint32(0), noVersions, uint32(1),
		uint16(partitionInfoBytes-1), make([]byte, partitionInfoBytes-2), "over the end")
	tests := []struct {
		name    string
		kind    Kind
		payload []byte
		field   string
		reason  string
	}{
		{"longer than the payload", KindProduceResults, results, "result", "needs 65535 bytes, 65 are left"},
		{"much longer than the payload", KindTopicCreated, topic, "topic", "needs 4294967295 bytes, 35 are left"},
		{"longer than the item around it", KindTopicCreated, inner, "partition", "needs 27 bytes, 26 are left"},
		{"no length", KindRefused, []byte{1}, "error", "needs 2 bytes, 1 are left"},
		{"an error that is cut off", KindLaneRefused, le(uint32(1), uint16(1), make([]byte, 99)), "code", "needs 2 bytes, 1 are left"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Decode(test.kind, test.payload)
			var bad *FrameError
			if !errors.As(err, &bad) || bad.Field != test.field || bad.Reason != test.reason {
				t.Errorf("%v, want %s: %s", err, test.field, test.reason)
			}
		})
	}
}

// Items whose length has 16 bits hold nothing that a caller could make longer than that.
func TestLongItemsAreCut(t *testing.T) {
	long := strings.Repeat("x", 1<<17)
	tests := []struct{ m, want Message }{
		{&ProducersExplained{[]Decision{{Kind: long, Text: long}, {Row: 7}}},
			&ProducersExplained{[]Decision{{Kind: long[:maxName], Text: long[:maxDetail]}, {Row: 7}}}},
		{&ProduceResults{[]ProduceResult{{Detail: long}, {Lane: 7}}}, &ProduceResults{[]ProduceResult{{Detail: long[:maxDetail]}, {Lane: 7}}}},
		{&LaneRefused{Err: Error{Topic: long, Detail: long}}, &LaneRefused{Err: Error{Topic: long[:maxName], Detail: long[:maxDetail]}}},
	}
	for _, test := range tests {
		got, err := Decode(test.m.Kind(), test.m.appendPayload(nil))
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%v: %+v, %v", test.m.Kind(), got, err)
		}
	}
}

// Those of 32 bits hold what a caller gives, for the peer to take or to refuse.
func TestLargeItems(t *testing.T) {
	lanes := &ProducersDescribed{Lanes: []LaneInfo{{Window: make([]WindowEntry, 5000)}, {ProducerID: 9}}}
	got, err := Decode(lanes.Kind(), lanes.appendPayload(nil))
	if err != nil || !reflect.DeepEqual(got, lanes) {
		t.Errorf("got %+v, %v", got, err)
	}
	lanes.Lanes[0].Position = make([]byte, 1<<17)
	if _, err := Decode(lanes.Kind(), lanes.appendPayload(nil)); err == nil || !strings.Contains(err.Error(), "position: has 131072 bytes") {
		t.Errorf("got %v", err)
	}
}

// Every page that a server may write must be one that a client can read, with room for
// fields to come.
func TestLargestPagesFitTheirFrames(t *testing.T) {
	lanes := &ProducersDescribed{Lanes: make([]LaneInfo, MaxLanesPerPage)}
	for i := range lanes.Lanes {
		lanes.Lanes[i] = LaneInfo{Name: strings.Repeat("n", maxName), Window: make([]WindowEntry, 5), Position: make([]byte, batchfmt.MaxPositionBytes)}
	}
	decisions := &ProducersExplained{Decisions: make([]Decision, MaxDecisions)}
	for i := range decisions.Decisions {
		decisions.Decisions[i] = Decision{Kind: strings.Repeat("k", maxName), Text: strings.Repeat("t", maxDetail)}
	}
	for _, m := range []Message{lanes, decisions} {
		if size, limit := len(m.appendPayload(nil)), kinds[m.Kind()].limit; size > limit*2/3 {
			t.Errorf("%v: %d bytes of %d", m.Kind(), size, limit)
		}
	}
}
