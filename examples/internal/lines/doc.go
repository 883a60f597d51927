// Package lines takes bytes apart into lines and remembers enough of each to put exactly
// the same bytes together again. It is what the sender and the reader of the examples
// agree on.
//
// The nouns of the package:
//
//   - a [Line] is a value and a terminator. The value never holds a line feed; it may hold
//     anything else: a lone carriage return, bytes that are not UTF-8, zeros.
//   - an [EOL] is the terminator: "\n", "\r\n", or nothing, which only the last line of a
//     file can have. In a record it is the header "eol", left out for "\n".
//   - a [Reader] finds the lines of a stream within bounded memory. A line over its limit
//     is skipped and reported; the lines behind it are read as if nothing had happened.
//
// The package never interprets a value. A file without any bytes has no lines, so nothing
// stands for it.
package lines
