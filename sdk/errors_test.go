package sdk

import (
	"errors"
	"testing"

	"github.com/quoin-io/quoin/wire"
)

func TestRefusedVersionOfAProducer(t *testing.T) {
	for producer, want := range map[uint64]int{0: 1, 77: 2} {
		var got *ServerError
		err := produceCause(wire.Errorf(wire.CodeVersionUnsupported, ""), "t", 0, producer)
		if !errors.As(err, &got) || got.Version != want || got.Offset != -1 {
			t.Errorf("producer %d: %+v", producer, err)
		}
	}
	var other *ServerError
	if err := produceCause(wire.Errorf(wire.CodeDiskFull, ""), "t", 0, 77); !errors.As(err, &other) || other.Version != 0 {
		t.Errorf("%+v", err)
	}
}

// What a program needs to go on is in fields, and in the text where the server gave none.
func TestRefusedVersionIsInFields(t *testing.T) {
	refused := func(change func(*wire.Error)) *wire.Error {
		e := wire.Errorf(wire.CodeVersionUnsupported, "")
		e.Topic, e.Partition, e.Expected, e.Offset, e.Version = "t", 0, 9, 4, 3
		change(e)
		return e
	}
	const head = `sdk: consume "t" partition 0: BATCH_VERSION_UNSUPPORTED: `
	for _, test := range []struct {
		name    string
		err     *wire.Error
		offset  int64
		version int
		text    string
	}{
		{"of a batch", refused(func(*wire.Error) {}), 4, 3, head + "a side cannot read this batch version: version 3 at offset 4"},
		{"the server has words for it", refused(func(e *wire.Error) { e.Detail = "why" }), 4, 3, head + "why"},
		{"of a producer", refused(func(e *wire.Error) { e.Offset = -1 }), -1, 3, head + "a side cannot read this batch version: version 3"},
		{"an older server", refused(func(e *wire.Error) { e.Offset, e.Version = -1, 0 }), -1, 0, head + "a side cannot read this batch version"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := serverError("consume", "t", test.err)
			var got *ServerError
			if !errors.As(err, &got) || !errors.Is(err, ErrBatchVersion) {
				t.Fatal(err)
			}
			if got.Offset != test.offset || got.Version != test.version || got.Expected != 9 || err.Error() != test.text {
				t.Errorf("offset %d, version %d, expected %d: %v", got.Offset, got.Version, got.Expected, err)
			}
		})
	}
}
