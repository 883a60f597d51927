package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk"
)

// A recordObject is a record in JSON, as consume prints it and produce --jsonl reads it.
// Its keys stay. Topic, partition and offset say where the record was, and are not used
// when it is sent.
type recordObject struct {
	Topic     string         `json:"topic"`
	Partition int            `json:"partition"`
	Offset    int64          `json:"offset"`
	Timestamp stamp          `json:"timestamp"`
	Key       content        `json:"key"`
	Value     content        `json:"value"`
	Headers   []headerObject `json:"headers"`
}

type headerObject struct {
	Name  content `json:"name"`
	Value content `json:"value"`
}

func recordObjectOf(r *sdk.Record) recordObject {
	o := recordObject{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: stamp(r.Timestamp),
		Key: r.Key, Value: r.Value, Headers: []headerObject{}}
	for _, h := range r.Headers {
		o.Headers = append(o.Headers, headerObject{content(h.Key), h.Value})
	}
	return o
}

// content is what a key, a value or a name is made of: null, a string where it is UTF-8,
// else {"base64": "..."}.
type content []byte

func (c content) MarshalJSON() ([]byte, error) {
	var v any = string(c)
	switch {
	case c == nil:
		v = nil
	case !utf8.Valid(c):
		v = map[string][]byte{"base64": c}
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return out.Bytes(), err
}

// stamp is RFC 3339 or, in years that this does not have, Unix milliseconds.
type stamp time.Time

func (s stamp) MarshalJSON() ([]byte, error) {
	t := time.Time(s).UTC()
	if t.Year() < 0 || t.Year() > 9999 {
		return strconv.AppendInt(nil, t.UnixMilli(), 10), nil
	}
	return []byte(strconv.Quote(t.Format(timeLayout))), nil
}

// parseRecord reads a record that stands in JSON. What it cannot keep as it is it refuses,
// but for what a timestamp has beyond milliseconds. A field may be missing: key and value are
// null then, there are no headers, and the timestamp is the time of sending, as with null.
func parseRecord(line []byte) (sdk.Record, error) {
	var r sdk.Record
	switch {
	case len(bytes.TrimSpace(line)) == 0:
		return r, errors.New("the line is empty")
	case !utf8.Valid(line):
		return r, errors.New("not UTF-8, which JSON must be")
	}
	err := eachField(line, func(name string, raw []byte) (err error) {
		switch name {
		case "topic", "partition", "offset":
		case "timestamp":
			r.Timestamp, err = parseStamp(raw)
		case "key":
			r.Key, err = parseContent(raw)
		case "value":
			r.Value, err = parseContent(raw)
		case "headers":
			r.Headers, err = parseHeaders(raw)
		default:
			return errUnknownField
		}
		return err
	})
	return r, err
}

var errUnknownField = errors.New("there is no such field")

func parseContent(raw []byte) ([]byte, error) {
	switch raw[0] {
	case 'n':
		return nil, nil
	case '"':
		if loneSurrogate(raw) {
			return nil, errors.New("half a surrogate pair is no character")
		}
		return unquoted(raw)
	case '{':
		return parseBase64(raw)
	}
	return nil, errors.New(`it is neither a string nor null nor {"base64": "..."}`)
}

func parseBase64(raw []byte) ([]byte, error) {
	var b []byte
	err := eachField(raw, func(name string, raw []byte) error {
		if name != "base64" || raw[0] != '"' {
			return errors.New(`an object must be {"base64": "..."}`)
		}
		return json.Unmarshal(raw, &b)
	})
	if err == nil && b == nil {
		err = errors.New(`an object must be {"base64": "..."}`)
	}
	return b, err
}

// loneSurrogate reports whether a string in JSON has an escape that is half a character.
// Package json makes U+FFFD of it, which is another one.
func loneSurrogate(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++ // what is escaped, which is no backslash that escapes
		first, ok := escapedUnit(raw, i-1)
		if !ok || !utf16.IsSurrogate(first) {
			continue
		}
		second, ok := escapedUnit(raw, i+5)
		if !ok || utf16.DecodeRune(first, second) == utf8.RuneError {
			return true
		}
		i += 10 // both have been looked at
	}
	return false
}

// escapedUnit reads the escaped UTF-16 unit, six bytes that begin with \u, at position at of raw.
func escapedUnit(raw []byte, at int) (rune, bool) {
	if at+6 > len(raw) || raw[at] != '\\' || raw[at+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(raw[at+2:at+6]), 16, 16)
	return rune(n), err == nil
}

func parseHeaders(raw []byte) ([]sdk.Header, error) {
	var objects []json.RawMessage
	if err := json.Unmarshal(raw, &objects); err != nil {
		return nil, errors.New("it is no list")
	}
	if len(objects) > batchfmt.MaxHeaders {
		return nil, fmt.Errorf("%d are over the limit, %d", len(objects), batchfmt.MaxHeaders)
	}
	headers := make([]sdk.Header, len(objects))
	for i, raw := range objects {
		var name []byte
		err := eachField(raw, func(field string, raw []byte) (err error) {
			switch field {
			case "name":
				name, err = parseContent(raw)
			case "value":
				headers[i].Value, err = parseContent(raw)
			default:
				return errUnknownField
			}
			return err
		})
		switch {
		case err != nil:
			return nil, err
		case name == nil:
			return nil, errors.New("a header must have a name, which may be empty")
		}
		headers[i].Key = string(name)
	}
	return headers, nil
}

// parseStamp reads RFC 3339, Unix milliseconds, or null, which is the zero time.
func parseStamp(raw []byte) (t time.Time, err error) {
	switch raw[0] {
	case 'n':
		return t, nil
	case '"':
		err = t.UnmarshalJSON(raw)
	default:
		var n int64
		n, err = strconv.ParseInt(string(raw), 10, 64)
		t = time.UnixMilli(n)
	}
	switch {
	case err != nil:
		return t, fmt.Errorf("%.40s is neither RFC 3339 nor milliseconds", raw)
	case t.IsZero():
		// The client takes the zero time for none; this is the same millisecond and is one.
		t = t.Add(time.Nanosecond)
	}
	return t, nil
}
