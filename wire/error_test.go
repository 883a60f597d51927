package wire

import (
	"reflect"
	"slices"
	"testing"
)

// An Error of an older peer ends in front of the offset, or of the version, alone and inside of
// another message: what is absent has its default, and what stands behind the Error is read.
func TestErrorOfAnOlderPeer(t *testing.T) {
	whole := Error{Code: CodeVersionUnsupported, Topic: "orders", Partition: 3, Sequence: -1, Expected: 4004, Detail: "why", Offset: 4001, Version: 2}
	for _, test := range []struct {
		name   string
		lacks  int
		change func(*Error)
	}{
		{"all is there", 0, func(*Error) {}},
		{"no version", errorTail[0], func(e *Error) { e.Version = 0 }},
		{"no offset and no version", errorTail[0] + errorTail[1], func(e *Error) { e.Offset, e.Version = -1, 0 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := whole
			test.change(&want)
			payload := whole.appendPayload(nil)
			payload = payload[:len(payload)-test.lacks]
			wantDecoded(t, payload, &want)
			wantDecoded(t, slices.Concat(le(uint32(7)), item(payload)), &LaneRefused{Lane: 7, Err: want})
			wantDecoded(t, slices.Concat(item(payload), le(uint16(1), uint16(2))), &Refused{Err: want, MinProtocol: 1, MaxProtocol: 2})
		})
	}
}

// wantDecoded decodes into a message that was used before, so that a default is seen to be set.
func wantDecoded(t *testing.T, payload []byte, want Message) {
	t.Helper()
	got := extremeOf(want.Kind(), true)
	if err := DecodeInto(got, payload); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
}
