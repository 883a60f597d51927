package wire

import "fmt"

// Secret is what proves a right by being known, such as a producer key. It behaves as
// the 16 bytes that it is, but no way of printing shows them, so that a message can be
// logged as it is.
type Secret [16]byte

// Format implements fmt.Formatter, for every verb.
func (s Secret) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "(%d bytes, hidden)", len(s))
}

// MarshalText keeps the bytes out of JSON and of structured logs too.
func (s Secret) MarshalText() ([]byte, error) { return fmt.Append(nil, s), nil }
