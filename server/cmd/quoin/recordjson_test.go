package main

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk"
)

func recordLine(t *testing.T, r *sdk.Record) string {
	t.Helper()
	var out strings.Builder
	list, err := (&outputForm{name: formJSON}).listing(&out)
	if err != nil {
		t.Fatal(err)
	}
	if err := list.row(recordObjectOf(r)); err != nil {
		t.Fatalf("%v, of %+v", err, r)
	}
	return out.String()
}

// randomRecord has what JSON could lose: null and empty, bytes that are no UTF-8, text that
// looks like an escape or like an object, names that repeat, times far away.
func randomRecord(random *rand.Rand) sdk.Record {
	texts := []string{"", "plain", "\x00\x1f\x7f", "\u2028\u2029<&>", "\ufffd", "\xff\xfe", "a\x80", "\xed\xa0\x80", `\ud800`,
		"null", `{"base64":""}`, `"`, `\`, "😀", "line\nfeed\r\n", "\xf4\x90\x80\x80"}
	content := func() []byte {
		switch random.IntN(4) {
		case 0:
			return nil
		case 1:
			b := make([]byte, random.IntN(300))
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			return b
		}
		return []byte(texts[random.IntN(len(texts))])
	}
	// Timestamps of a batch must not be farther apart than 64 bits tell.
	times := []int64{0, -1, 1, 981173106789, math.MinInt64 / 2, math.MaxInt64 / 2, time.Time{}.UnixMilli(), time.Time{}.UnixMilli() - 1,
		253402300799999, 253402300800000, -62167219200000, -62167219200001, random.Int64() / 2, -random.Int64() / 2}
	r := sdk.Record{Key: content(), Value: content(), Timestamp: time.UnixMilli(times[random.IntN(len(times))])}
	if r.Timestamp.IsZero() {
		r.Timestamp = r.Timestamp.Add(1) // the same millisecond, which the client does not take for none
	}
	for range random.IntN(4) {
		r.Headers = append(r.Headers, sdk.Header{Key: texts[random.IntN(len(texts))], Value: content()})
	}
	return r
}

// What consume prints as JSON, produce sends again as it was: through real servers, with
// records that are made at random.
func TestRoundTripOfRandomRecords(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s, ctx, c := withTopic(t, 1)
	if _, err := c.CreateTopic(ctx, "u", sdk.TopicOptions{}); err != nil {
		t.Fatal(err)
	}
	p, err := c.Producer("t").Idempotent().Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const records = 500
	for range records {
		if err := p.SendAsync(ctx, randomRecord(random), nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
	printed, _ := ask(t, s, 0, "consume", "t", "--exit-at-end", "-o", "json")
	_, summary := ask(t, s, 0, "produce", "u", "--jsonl", write(t, printed))
	if summary != "sent 500, appended 500, duplicates 0, failed 0\n" {
		t.Error(summary)
	}
	was, is := contents(t, s.URL(), "t"), contents(t, s.URL(), "u")
	if len(was) != records || len(is) != records {
		t.Fatalf("%d and %d records", len(was), len(is))
	}
	for i := range was {
		if !reflect.DeepEqual(was[i], is[i]) {
			t.Errorf("record %d was %+v, is %+v", i, was[i], is[i])
		}
	}
}

// contents are the records of a topic without their places.
func contents(t *testing.T, url, topic string) []sdk.Record {
	t.Helper()
	ctx := t.Context()
	c, err := sdk.Dial(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	consumer, err := c.Consumer(topic).StopAtEnd().Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	var all []sdk.Record
	for r, err := range consumer.Records(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sdk.Record{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), Headers: r.Headers, Timestamp: r.Timestamp})
	}
	return all
}

func TestRecordLinesThatAreRefused(t *testing.T) {
	many := `{"headers":[` + strings.Repeat(`{"name":"n"},`, batchfmt.MaxHeaders) + `{"name":"n"}]}`
	for _, row := range []struct{ name, line, want string }{
		{"nothing", " \t", "the line is empty"},
		{"no UTF-8", "{\"value\":\"\xff\"}", "not UTF-8, which JSON must be"},
		{"another value", `"x"`, "it is no JSON object"},
		{"null", `null`, "it is no JSON object"},
		{"a list", `[]`, "it is no JSON object"},
		{"no JSON", `x`, "invalid character 'x' looking for beginning of value"},
		{"it ends too early", `{"value":"x"`, "unexpected end of JSON input"},
		{"it ends in a value", `{"value":`, "unexpected end of JSON input"},
		{"something follows", `{"value":"x"}{}`, "invalid character '{' after top-level value"},
		{"a field that is none", `{"val":"x"}`, `"val": there is no such field`},
		{"the case matters", `{"Value":"x"}`, `"Value": there is no such field`},
		{"a field twice", `{"value":"x","value":"y"}`, `"value" is there twice`},
		{"a number", `{"value":7}`, `"value": it is neither a string nor null nor {"base64": "..."}`},
		{"an empty object", `{"key":{}}`, `"key": an object must be {"base64": "..."}`},
		{"null in an object", `{"key":{"base64":null}}`, `"key": "base64": an object must be {"base64": "..."}`},
		{"another object", `{"key":{"hex":"00"}}`, `"key": "hex": an object must be {"base64": "..."}`},
		{"no base64", `{"key":{"base64":"*"}}`, `"key": "base64": illegal base64 data at input byte 0`},
		{"half a surrogate pair", `{"value":"\ud800"}`, `"value": half a surrogate pair is no character`},
		{"the second half alone", `{"value":"\udc00"}`, `"value": half a surrogate pair is no character`},
		{"two first halves", `{"value":"\ud83d\ud83d"}`, `"value": half a surrogate pair is no character`},
		{"headers that are no list", `{"headers":{"a":"b"}}`, `"headers": it is no list`},
		{"a header without a name", `{"headers":[{"value":"x"}]}`, `"headers": a header must have a name, which may be empty`},
		{"a header that is none", `{"headers":["a"]}`, `"headers": it is no JSON object`},
		{"too many headers", many, `"headers": 1025 are over the limit, 1024`},
		{"a time that is none", `{"timestamp":"yesterday"}`, `"timestamp": "yesterday" is neither RFC 3339 nor milliseconds`},
		{"a time with a fraction", `{"timestamp":1.5}`, `"timestamp": 1.5 is neither RFC 3339 nor milliseconds`},
		{"a time beyond 64 bits", `{"timestamp":9223372036854775808}`, `"timestamp": 9223372036854775808 is neither RFC 3339 nor milliseconds`},
	} {
		if _, err := parseRecord([]byte(row.line)); err == nil || err.Error() != row.want {
			t.Errorf("%s: %v, want %s", row.name, err, row.want)
		}
	}
}

func TestRecordLinesThatAreTaken(t *testing.T) {
	for _, row := range []struct{ name, line, value string }{
		{"a pair of surrogates", `{"value":"\ud83d\ude00"}`, "😀"},
		{"an escaped backslash before what looks like half a pair", `{"value":"\\ud800"}`, `\ud800`},
		{"an object that is plain text", `{"value":{"base64":"cGxhaW4="}}`, "plain"},
		{"the replacement character", `{"value":"\ufffd"}`, "\ufffd"},
	} {
		r, err := parseRecord([]byte(row.line))
		if err != nil || string(r.Value) != row.value {
			t.Errorf("%s: %q, %v", row.name, r.Value, err)
		}
	}
	if r, err := parseRecord([]byte(`{}`)); err != nil || !reflect.DeepEqual(r, sdk.Record{}) {
		t.Errorf("an empty object: %+v, %v", r, err)
	}
}

// FuzzRecordLine parses lines of produce --jsonl: whatever is taken, consume prints, and
// that is taken again as the same.
func FuzzRecordLine(f *testing.F) {
	f.Add([]byte(`{"timestamp":"2001-02-03T04:05:06.789Z","key":null,"value":"v","headers":[{"name":"h","value":{"base64":"/wA="}}]}`))
	f.Add([]byte(`{"timestamp":-62135596800000,"value":"\ud83d\ude00\\ud800"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := parseRecord(line)
		if err != nil {
			return
		}
		if r.Timestamp.IsZero() {
			r.Timestamp = time.UnixMilli(1) // what the client does with it
		}
		once := recordLine(t, &r)
		again, err := parseRecord([]byte(once))
		if err != nil || recordLine(t, &again) != once || again.Timestamp.UnixMilli() != r.Timestamp.UnixMilli() {
			t.Fatalf("%q, then %+v, %v", once, again, err)
		}
		again.Timestamp, r.Timestamp = time.Time{}, time.Time{}
		if len(r.Headers) == 0 {
			again.Headers, r.Headers = nil, nil
		}
		if !reflect.DeepEqual(again, r) {
			t.Fatalf("%+v, then %+v", r, again)
		}
	})
}

// There is room in a line for the largest record, however it is escaped.
func TestLongestLine(t *testing.T) {
	f := inputForm{jsonl: true}
	_, _, limit := f.parser()
	r := sdk.Record{Value: bytes.Repeat([]byte{1}, 1000), Timestamp: time.UnixMilli(math.MinInt64), Topic: strings.Repeat("t", 249)}
	for range batchfmt.MaxHeaders {
		r.Headers = append(r.Headers, sdk.Header{Key: "\xff", Value: []byte("\xff")})
	}
	if frame := len(recordLine(t, &r)) - 6*1000 - 2*len(`/w==`)*batchfmt.MaxHeaders; frame > limit-6*maxText {
		t.Errorf("%d bytes stand around the contents, there is room for %d", frame, limit-6*maxText)
	}
}
