package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// eachField gives the fields of one JSON object to fn; raw is a part of b. Package json alone
// would take names in any case and the last of several that are the same, and its decoder of
// tokens takes several times as long.
func eachField(b []byte, fn func(name string, raw []byte) error) error {
	if !json.Valid(b) {
		return json.Unmarshal(b, new(json.RawMessage)) // which says what is wrong
	}
	b = bytes.TrimLeft(b, jsonSpace)
	if b[0] != '{' {
		return errors.New("it is no JSON object")
	}
	seen := make([]string, 0, 8)
	for rest := bytes.TrimLeft(b[1:], jsonSpace); rest[0] != '}'; {
		quoted, behind := firstValue(rest)
		name, err := unquoted(quoted)
		if err != nil {
			return err
		}
		raw, behind := firstValue(bytes.TrimLeft(behind, jsonSpace+":"))
		rest = bytes.TrimLeft(behind, jsonSpace+",")
		if slices.Contains(seen, string(name)) {
			return fmt.Errorf("%q is there twice", name)
		}
		seen = append(seen, string(name))
		if err := fn(string(name), raw); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	return nil
}

const jsonSpace = " \t\r\n"

// firstValue cuts valid JSON behind the value that it begins with.
func firstValue(b []byte) (value, rest []byte) {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = endOfString(b, i)
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default:
			if next := i + 1; depth > 0 || next < len(b) && bytes.IndexByte([]byte(jsonSpace+",:]}"), b[next]) < 0 {
				continue // within the value
			}
		}
		if depth <= 0 {
			return b[:i+1], b[i+1:]
		}
	}
	return b, nil
}

// endOfString is where the string ends that begins at i.
func endOfString(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i
}

// unquoted is what a string in valid JSON says; where it needs no change, a part of raw.
func unquoted(raw []byte) ([]byte, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], nil
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return []byte(s), err
}
