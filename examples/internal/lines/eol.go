package lines

import "fmt"

// The headers of a record that is a line.
const (
	HeaderEOL  = "eol"  // the EOL by name; a record without it ends in LF
	HeaderFile = "file" // which file the line is from: a relative path with slashes
)

// EOL is what ends a line.
type EOL uint8

const (
	LF   EOL = iota // "\n"
	CRLF            // "\r\n"
	None            // nothing: the end of the file came first
)

var eols = [...]struct{ name, terminator string }{
	LF:   {"lf", "\n"},
	CRLF: {"crlf", "\r\n"},
	None: {"none", ""},
}

// String is the name, as it stands in the header.
func (e EOL) String() string { return eols[e].name }

// Terminator is the bytes.
func (e EOL) Terminator() string { return eols[e].terminator }

// ParseEOL reads a name. The text comes from whoever wrote the record.
func ParseEOL(name []byte) (EOL, error) {
	for e, known := range eols {
		if string(name) == known.name {
			return EOL(e), nil
		}
	}
	return LF, fmt.Errorf("end of line %.20q is not lf, crlf or none", name)
}
