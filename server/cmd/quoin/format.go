package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-io/quoin/sdk"
)

// formatHelp is the language of --format, as the help shows it.
const formatHelp = `  %t  topic                      %k  key             %K  its length in bytes, -1 for null
  %p  partition                  %v  value           %V  its length in bytes, -1 for null
  %o  offset                     %h  headers         %H  how many headers
  %d  timestamp, RFC 3339 UTC    %D  timestamp, milliseconds since 1970
  %%  a percent sign

Key and value are printed as they are, null as nothing; headers are NAME=VALUE with commas
between them. A backslash escapes: \n \t \r \0 \\ and \xHH, a byte in hexadecimal. Nothing is
printed between records but what the format says. Every other verb or escape is refused.`

const formatVerbs = "tpokvKVhHdD%"

// A piece of a format is bytes, or a verb if verb is not 0.
type piece struct {
	text []byte
	verb byte
}

// A recordFormat is what --format says.
type recordFormat []piece

// parseFormat reads a format.
func parseFormat(text string) (recordFormat, error) {
	var f recordFormat
	var plain []byte
	for rest := text; rest != ""; {
		switch {
		case rest[0] == '%' && len(rest) == 1:
			return nil, fmt.Errorf("a verb is missing behind the last %%: write %%%% for a percent sign")
		case rest[0] == '%':
			if strings.IndexByte(formatVerbs, rest[1]) < 0 {
				return nil, fmt.Errorf("there is no verb %.2q: there are %%%s", rest, strings.Join(strings.Split(formatVerbs, ""), " %"))
			}
			f = append(f, piece{text: plain}, piece{verb: rest[1]})
			plain, rest = nil, rest[2:]
		case rest[0] == '\\':
			b, n := escaped(rest)
			if n == 0 {
				return nil, fmt.Errorf(`there is no escape %.4q: there are \n \t \r \0 \\ \xHH`, rest)
			}
			plain, rest = append(plain, b), rest[n:]
		default:
			plain, rest = append(plain, rest[0]), rest[1:]
		}
	}
	f = append(f, piece{text: plain})
	return slices.DeleteFunc(f, func(p piece) bool { return p.verb == 0 && len(p.text) == 0 }), nil
}

// escaped reads the escape at the start of text: the byte, and how many it took of text; 0
// when it is none.
func escaped(text string) (b byte, n int) {
	if len(text) < 2 {
		return 0, 0
	}
	if i := strings.IndexByte(`ntr0\`, text[1]); i >= 0 {
		return "\n\t\r\x00\\"[i], 2
	}
	if text[1] != 'x' || len(text) < 4 {
		return 0, 0
	}
	v, err := strconv.ParseUint(text[2:4], 16, 8)
	if err != nil {
		return 0, 0
	}
	return byte(v), 4
}

// write prints a record.
func (f recordFormat) write(w io.Writer, r *sdk.Record) error {
	var out bytes.Buffer
	for _, p := range f {
		if p.verb == 0 {
			out.Write(p.text)
			continue
		}
		expand(&out, p.verb, r)
	}
	_, err := w.Write(out.Bytes())
	return err
}

func expand(out *bytes.Buffer, verb byte, r *sdk.Record) {
	switch verb {
	case '%':
		out.WriteByte('%')
	case 't':
		out.WriteString(r.Topic)
	case 'p':
		out.WriteString(strconv.Itoa(r.Partition))
	case 'o':
		out.WriteString(strconv.FormatInt(r.Offset, 10))
	case 'k':
		out.Write(r.Key)
	case 'v':
		out.Write(r.Value)
	case 'K':
		out.WriteString(strconv.Itoa(lengthOf(r.Key)))
	case 'V':
		out.WriteString(strconv.Itoa(lengthOf(r.Value)))
	case 'h':
		out.WriteString(joinHeaders(r.Headers))
	case 'H':
		out.WriteString(strconv.Itoa(len(r.Headers)))
	case 'd':
		out.WriteString(r.Timestamp.UTC().Format(timeLayout))
	case 'D':
		out.WriteString(strconv.FormatInt(r.Timestamp.UnixMilli(), 10))
	}
}

func lengthOf(b []byte) int {
	if b == nil {
		return -1
	}
	return len(b)
}

// joinHeaders is for people: names and values may hold what is between them.
func joinHeaders(headers []sdk.Header) string {
	texts := make([]string, len(headers))
	for i, h := range headers {
		texts[i] = h.Key + "=" + string(h.Value)
	}
	return strings.Join(texts, ",")
}
