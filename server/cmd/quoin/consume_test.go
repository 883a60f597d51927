package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
)

var now = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestFrom(t *testing.T) {
	for _, row := range []struct {
		text string
		want beginning
	}{
		{"start", beginning{}},
		{"end", beginning{end: true}},
		{"0", beginning{}},
		{"42", beginning{offset: 42}},
		{"9223372036854775807", beginning{offset: math.MaxInt64}},
		{"-1", beginning{last: 1}},
		{"-9223372036854775807", beginning{last: math.MaxInt64}},
		{"@1h", beginning{since: now.Add(-time.Hour)}},
		{"@1h30m", beginning{since: now.Add(-90 * time.Minute)}},
		{"@2026-01-02T03:04Z", beginning{since: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)}},
		{"@2026-01-02T03:04+01:00", beginning{since: time.Date(2026, 1, 2, 2, 4, 0, 0, time.UTC)}},
		{"@2026-01-02T03:04:05.678Z", beginning{since: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)}},
	} {
		got, err := parseFrom(row.text, now)
		if err != nil || got.end != row.want.end || got.offset != row.want.offset || got.last != row.want.last || !got.since.Equal(row.want.since) {
			t.Errorf("%s: %+v, %v", row.text, got, err)
		}
	}
	for _, text := range []string{"", "earliest", "+1", "-0", "1.5", "9223372036854775808", "-9223372036854775808", " 1", "0x10", "@", "@0s",
		"@-1h", "@1", "@now", "@2026-01-02", "@2026-01-02T03:04", "@0001-01-01T00:00Z"} {
		if got, err := parseFrom(text, now); err == nil || exitCode(err) != exitUsage {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestStartOfAPartition(t *testing.T) {
	p := sdk.Partition{LogStart: 10, HighWatermark: 30}
	for _, row := range []struct {
		name string
		from beginning
		want sdk.Start
	}{
		{"the start", beginning{}, sdk.Earliest},
		{"the end", beginning{end: true}, sdk.Latest},
		{"an offset, even if it is not there", beginning{offset: 5}, sdk.At(5)},
		{"the last ones", beginning{last: 19}, sdk.At(11)},
		{"all there are", beginning{last: 20}, sdk.Earliest},
		{"more than there are", beginning{last: math.MaxInt64}, sdk.Earliest},
		{"a time", beginning{since: now}, sdk.Earliest},
	} {
		if got := row.from.start(p); got != row.want {
			t.Errorf("%s: %+v, want %+v", row.name, got, row.want)
		}
	}
}

// A time begins each partition at its own first record, and nothing behind that is skipped.
func TestSkippedBeforeATime(t *testing.T) {
	from, begun := beginning{since: now}, make(map[int]bool)
	for i, row := range []struct {
		partition int
		at        time.Time
		want      bool
	}{
		{0, now.Add(-time.Millisecond), true},
		{1, now.Add(time.Hour), false},
		{0, now.Add(-time.Hour), true},
		{0, now, false},
		{0, now.Add(-time.Hour), false},
		{1, now.Add(-time.Hour), false},
	} {
		if got := from.skipped(&sdk.Record{Partition: row.partition, Timestamp: row.at}, begun); got != row.want {
			t.Errorf("record %d: %v", i, got)
		}
	}
}

// FuzzFrom parses what --from says: nothing panics, and what is taken is one place.
func FuzzFrom(f *testing.F) {
	for _, text := range []string{"start", "end", "42", "-100", "@1h", "@2026-01-02T03:04Z"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := parseFrom(text, now)
		if err != nil {
			if exitCode(err) != exitUsage {
				t.Fatal(err)
			}
			return
		}
		set := 0
		for _, is := range []bool{b.end, b.offset != 0, b.last != 0, !b.since.IsZero()} {
			if is {
				set++
			}
		}
		if set > 1 || b.offset < 0 || b.last < 0 {
			t.Fatalf("%q: %+v", text, b)
		}
		b.start(sdk.Partition{LogStart: 3, HighWatermark: 8})
	})
}

var printedRecord = sdk.Record{Topic: "t", Partition: 2, Offset: 7, Key: []byte("k\xff"), Value: []byte{},
	Headers:   []sdk.Header{{Key: "a", Value: []byte("1")}, {Key: "a"}},
	Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.FixedZone("", 3600))}

func TestFormat(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"", ""},
		{"plain ü", "plain ü"},
		{"%t/%p@%o", "t/2@7"},
		{"%k %K", "k\xff 2"},
		{"[%v] %V", "[] 0"},
		{"%h %H", "a=1,a= 2"},
		{"%d %D", "2026-01-02T02:04:05.678Z 1767319445678"},
		{"100%%", "100%"},
		{`\n\t\r\0\\\x41\xfF`, "\n\t\r\x00\\A\xff"},
		{"%%t", "%t"},
	} {
		f, err := parseFormat(row.text)
		var out strings.Builder
		if err == nil {
			err = f.write(&out, &printedRecord)
		}
		if err != nil || out.String() != row.want {
			t.Errorf("%s: %q, %v", row.text, out.String(), err)
		}
	}
	var out strings.Builder
	f, _ := parseFormat("%k%v%K%V%h%H")
	if f.write(&out, &sdk.Record{}); out.String() != "-1-10" {
		t.Errorf("of null: %q", out.String())
	}
}

func TestFormatsThatAreRefused(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"%", "a verb is missing behind the last %: write %% for a percent sign"},
		{"%k%", "a verb is missing behind the last %: write %% for a percent sign"},
		{"%s", `there is no verb "%s": there are %t %p %o %k %v %K %V %h %H %d %D %%`},
		{"%ü", `there is no verb "%ü": there are %t %p %o %k %v %K %V %h %H %d %D %%`},
		{"%5k", `there is no verb "%5": there are %t %p %o %k %v %K %V %h %H %d %D %%`},
		{`\q`, `there is no escape "\\q": there are \n \t \r \0 \\ \xHH`},
		{`\x4`, `there is no escape "\\x4": there are \n \t \r \0 \\ \xHH`},
		{`\x+1`, `there is no escape "\\x+1": there are \n \t \r \0 \\ \xHH`},
		{`a\`, `there is no escape "\\": there are \n \t \r \0 \\ \xHH`},
	} {
		if _, err := parseFormat(row.text); err == nil || err.Error() != row.want {
			t.Errorf("%s: %v, want %s", row.text, err, row.want)
		}
	}
}

// FuzzFormat parses what --format says and prints with it. Whatever bytes there are, they can
// be written as escapes, and print as themselves.
func FuzzFormat(f *testing.F) {
	f.Add(`%t/%p@%o %k=%v\n`)
	f.Add(`\x00%%%d%D%K%V%h%H`)
	f.Fuzz(func(t *testing.T, text string) {
		if parsed, err := parseFormat(text); err == nil {
			parsed.write(&strings.Builder{}, &printedRecord)
		}
		const digits = "0123456789abcdef"
		var escapes, out strings.Builder
		for i := range len(text) {
			escapes.WriteString(`\x` + digits[text[i]>>4:][:1] + digits[text[i]&15:][:1])
		}
		parsed, err := parseFormat(escapes.String())
		if err == nil {
			err = parsed.write(&out, &printedRecord)
		}
		if err != nil || out.String() != text {
			t.Fatalf("%q, %v", out.String(), err)
		}
	})
}

func TestNearest(t *testing.T) {
	names := []string{"orders", "order-lines", "payments", "t"}
	for _, row := range []struct{ name, given, want string }{
		{"a letter is missing", "ordes", "orders"},
		{"two are swapped", "oredrs", "orders"},
		{"one is wrong", "paymentz", "payments"},
		{"nothing is like it", "inventory", ""},
		{"one letter is too short to be like anything", "x", ""},
		{"nothing was given", "", ""},
		{"the first of several", "order", "orders"},
	} {
		if got := nearest(row.given, names); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}
