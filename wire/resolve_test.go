package wire

import (
	"math"
	"testing"
	"time"
)

func TestResolveOutcomeNames(t *testing.T) {
	tests := map[ResolveOutcome]string{
		0:                 "outcome(0)",
		ResolveStored:     "stored",
		ResolveInFlight:   "in flight",
		ResolveNotYet:     "not stored yet",
		ResolveNever:      "not stored",
		ResolveTopicGone:  "topic gone",
		ResolveUnknowable: "unknowable",
		7:                 "outcome(7)",
		255:               "outcome(255)",
	}
	for outcome, want := range tests {
		if got := outcome.String(); got != want {
			t.Errorf("%d: %s, want %s", uint8(outcome), got, want)
		}
		// Whatever the number is, the answer is read.
		m, err := Decode(KindResolved, (&Resolved{Outcome: outcome}).appendPayload(nil))
		if err != nil || m.(*Resolved).Outcome != outcome {
			t.Errorf("%d: %+v, %v", uint8(outcome), m, err)
		}
	}
}

// A lane may be idle for longer than 32 bits of milliseconds, which are 49 days.
func TestIdleTimes(t *testing.T) {
	const longest = math.MaxInt64 / time.Millisecond * time.Millisecond
	tests := []struct {
		name       string
		idle, want time.Duration
	}{
		{"years", 10_000 * 24 * time.Hour, 10_000 * 24 * time.Hour},
		{"part of a millisecond", 1999 * time.Microsecond, time.Millisecond},
		{"below zero", -time.Hour, 0},
		{"longest", math.MaxInt64, longest},
	}
	for _, test := range tests {
		m := &ProducersDescribed{Lanes: []LaneInfo{{Idle: test.idle}}}
		got, err := Decode(m.Kind(), m.appendPayload(nil))
		if err != nil || got.(*ProducersDescribed).Lanes[0].Idle != test.want {
			t.Errorf("%s: %+v, %v", test.name, got, err)
		}
	}
	c := cursor{rest: le(uint64(math.MaxUint64))}
	if got := c.longMillis("idle"); got != longest {
		t.Errorf("more than a duration holds: %v", got)
	}
}
