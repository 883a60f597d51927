package wire

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestEveryKindHasASample(t *testing.T) {
	have := map[Kind]bool{}
	for _, s := range samples(t) {
		have[s.m.Kind()] = true
		if name, _, _ := strings.Cut(s.name, "-"); name != s.m.Kind().String() {
			t.Errorf("sample %s is a %v", s.name, s.m.Kind())
		}
	}
	for _, k := range sortedKinds() {
		if !have[k] {
			t.Errorf("no sample of %v", k)
		}
		if got := kinds[k].make().Kind(); got != k {
			t.Errorf("%v makes a %v", k, got)
		}
	}
}

// everyMessage calls f with all samples and with the zero and extreme values of each kind.
func everyMessage(t *testing.T, f func(t *testing.T, m Message)) {
	for _, s := range samples(t) {
		t.Run(s.name, func(t *testing.T) { f(t, s.m) })
	}
	for _, k := range sortedKinds() {
		t.Run(k.String()+"/zero", func(t *testing.T) { f(t, kinds[k].make()) })
		t.Run(k.String()+"/large", func(t *testing.T) { f(t, extremeOf(k, true)) })
		t.Run(k.String()+"/small", func(t *testing.T) { f(t, extremeOf(k, false)) })
	}
}

func TestRoundTrip(t *testing.T) {
	everyMessage(t, func(t *testing.T, m Message) {
		var w bytes.Buffer
		if err := Write(&w, m); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(w.Bytes(), Append(nil, m)) {
			t.Error("Write and Append differ")
		}
		got, err := Read(&w)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, m) {
			t.Errorf("got  %+v\nwant %+v", got, m)
		}
		if w.Len() != 0 {
			t.Errorf("%d bytes are left", w.Len())
		}
	})
}

// A message that is used again must not show what it held before.
func TestDecodeIntoUsedMessage(t *testing.T) {
	everyMessage(t, func(t *testing.T, m Message) {
		used := extremeOf(m.Kind(), true)
		if err := DecodeInto(used, m.appendPayload(nil)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(used.appendPayload(nil), m.appendPayload(nil)) {
			t.Errorf("got  %+v\nwant %+v", used, m)
		}
	})
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	ping := &Ping{Nonce: 9}
	got := Append([]byte("before"), ping)
	if want := append([]byte("before"), Append(nil, ping)...); !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

func TestPutProduceFrame(t *testing.T) {
	batch := sealed(t, 900, "a", "b")
	m := &Produce{Lane: 7, Durability: Synced, FirstSend: noon, ConfirmedThrough: -1, Batch: batch}
	frame := append(make([]byte, HeaderSize+ProduceHead), batch...)
	PutProduceFrame(frame, m)
	if want := Append(nil, m); !bytes.Equal(frame, want) {
		t.Errorf("got  %x\nwant %x", frame, want)
	}
}

func TestPutBatchesFrame(t *testing.T) {
	batch := stamped(t, 4000, "a", "b")
	frame := append(make([]byte, HeaderSize+BatchesHead), batch...)
	PutBatchesFrame(frame, 4002)
	if want := Append(nil, &Batches{HighWatermark: 4002, Batches: batch}); !bytes.Equal(frame, want) {
		t.Errorf("got  %x\nwant %x", frame, want)
	}
}

func TestWritersCutWhatDoesNotFit(t *testing.T) {
	long := strings.Repeat("x", maxDetail-1) + "é" // its last character would be cut in two
	tests := []struct {
		name    string
		m, want Message
	}{
		{"negative duration", &Drain{RetryAfter: -time.Hour}, &Drain{}},
		{"duration of years", &Drain{RetryAfter: math.MaxInt64}, &Drain{RetryAfter: math.MaxUint32 * time.Millisecond}},
		{"part of a millisecond", &Drain{RetryAfter: 1999 * time.Microsecond}, &Drain{RetryAfter: time.Millisecond}},
		{"long text", &Drain{Reason: long}, &Drain{Reason: long[:maxDetail-1]}},
		{"text that is no UTF-8", &Drain{Reason: "a\xffb"}, &Drain{Reason: "ab"}},
		{"topic of an error, as a peer asked for it", &Error{Topic: strings.Repeat("t", 3000)}, &Error{Topic: strings.Repeat("t", maxName)}},
		{"long timings", &ProduceResults{[]ProduceResult{{Timings: Timings{Sync: 2 * time.Hour}}}},
			&ProduceResults{[]ProduceResult{{Timings: Timings{Sync: math.MaxUint32 * time.Microsecond}}}}},
		{"reason that is no UTF-8", &Resolved{Detail: "a\xffb"}, &Resolved{Detail: "ab"}},
		{"long SDK name", &Hello{SDKName: strings.Repeat("s", 300)}, &Hello{SDKName: strings.Repeat("s", maxName)}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := Decode(test.m.Kind(), test.m.appendPayload(nil))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// Every refusal that a server can write must be one that a client can read.
func TestLargestRefusalsFitTheirFrames(t *testing.T) {
	worst := Error{Topic: strings.Repeat("t", 1<<16), Detail: strings.Repeat("d", 1<<16)}
	results := &ProduceResults{Results: make([]ProduceResult, MaxResultsPerFrame)}
	for i := range results.Results {
		results.Results[i].Detail = worst.Detail
	}
	for _, m := range []Message{&worst, &Refused{Err: worst}, &LaneRefused{Err: worst}, &Drain{Reason: worst.Detail},
		&Resolved{Detail: worst.Detail}, results} {
		var w bytes.Buffer
		if err := Write(&w, m); err != nil {
			t.Errorf("%v: %v", m.Kind(), err)
		} else if _, err := Read(&w); err != nil {
			t.Errorf("%v: %v", m.Kind(), err)
		}
	}
}
