package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/quoin-io/quoin/examples/internal/cli"
	"github.com/quoin-io/quoin/examples/internal/lines"
	"github.com/quoin-io/quoin/sdk"
)

// stdinArg stands for stdin on the command line, stdinName in the header.
const (
	stdinArg  = "-"
	stdinName = "stdin"
)

// fileHeader is the index of the header "file" in every record.
const fileHeader = 0

// A source is a file, or stdin.
type source struct {
	label   string    // as it was given
	name    string    // as it stands in the header "file"
	size    int64     // bytes; -1 when nobody knows
	stdin   io.Reader // nil for a file
	headers map[lines.EOL][]sdk.Header
}

// findSources looks at every file before the first line is sent: a name that is wrong
// should cost nothing.
func findSources(args []string, stdin io.Reader) ([]*source, error) {
	if len(args) == 0 {
		args = []string{stdinArg}
	}
	var sources []*source
	labels := make(map[string]string) // by name
	for _, arg := range args {
		src, err := findSource(arg, stdin)
		if err != nil {
			return nil, err
		}
		if other, taken := labels[src.name]; taken {
			return nil, cli.Usagef("%s and %s would both be the file %q of the topic", other, arg, src.name)
		}
		labels[src.name] = arg
		sources = append(sources, src)
	}
	return sources, nil
}

func findSource(arg string, stdin io.Reader) (*source, error) {
	if arg == stdinArg {
		return newSource(arg, stdinName, -1, stdin), nil
	}
	info, err := os.Stat(arg)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, cli.Usagef("%s is a directory", arg)
	}
	name, err := headerName(arg)
	if err != nil {
		return nil, err
	}
	size := int64(-1)
	if info.Mode().IsRegular() {
		size = info.Size()
	}
	return newSource(arg, name, size, nil), nil
}

// headerName is the path without detours, and always within a directory of its reader's
// choice: /var/log/x becomes var/log/x, and ../x what it is from the root.
func headerName(path string) (string, error) {
	clean := filepath.Clean(path)
	if !filepath.IsLocal(clean) {
		abs, err := filepath.Abs(clean)
		if err != nil {
			return "", fmt.Errorf("where is %s: %w", path, err)
		}
		clean = strings.TrimLeft(abs[len(filepath.VolumeName(abs)):], string(filepath.Separator))
	}
	return filepath.ToSlash(clean), nil
}

func newSource(label, name string, size int64, stdin io.Reader) *source {
	src := &source{label: label, name: name, size: size, stdin: stdin}
	file := sdk.Header{Key: lines.HeaderFile, Value: []byte(name)}
	src.headers = make(map[lines.EOL][]sdk.Header)
	for _, eol := range []lines.EOL{lines.LF, lines.CRLF, lines.None} {
		src.headers[eol] = []sdk.Header{fileHeader: file}
		if eol != lines.LF {
			src.headers[eol] = append(src.headers[eol], sdk.Header{Key: lines.HeaderEOL, Value: []byte(eol.String())})
		}
	}
	return src
}

// record is the record for a line. It shares the line's memory.
func (s *source) record(line lines.Line, keyDelim string) sdk.Record {
	r := sdk.Record{Value: line.Value, Headers: s.headers[line.EOL]}
	if keyDelim != "" {
		if key, _, found := bytes.Cut(line.Value, []byte(keyDelim)); found {
			r.Key = key
		}
	}
	return r
}

// open opens the source. Reading from it ends when ctx ends.
func (s *source) open(ctx context.Context) (io.ReadCloser, error) {
	if s.stdin != nil {
		return newDetached(ctx, s.stdin), nil
	}
	f, err := os.Open(s.label)
	if err != nil {
		return nil, err
	}
	if s.size < 0 { // a pipe or a terminal
		return struct {
			io.Reader
			io.Closer
		}{newDetached(ctx, f), f}, nil
	}
	return &interruptible{f, ctx}, nil
}

// interruptible is a file that ends with ctx. It asks between two reads, as a read of a
// file does not take long.
type interruptible struct {
	*os.File
	ctx context.Context
}

func (f *interruptible) Read(p []byte) (int, error) {
	if f.ctx.Err() != nil {
		return 0, cli.ErrInterrupted
	}
	return f.File.Read(p)
}
