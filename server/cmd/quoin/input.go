package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk"
)

// An inputForm is where records come from, and how they stand there.
type inputForm struct {
	names              []string // of files; none is the standard input
	stdin              io.Reader
	lines, null, jsonl bool
	separator          string // between key and value, with escapes
	headers            []string
}

func (f *inputForm) flags(set *pflag.FlagSet) {
	set.BoolVar(&f.lines, "lines", false, "a line feed ends each record; the default")
	set.BoolVar(&f.null, "null", false, "a zero byte ends each record")
	set.BoolVar(&f.jsonl, "jsonl", false, "each line is a record as quoin consume -o json prints it; topic, partition and offset are not used")
	set.StringVar(&f.separator, "key-separator", "", `the key is what stands before the first of these, such as ":" or "\t"; without one the key is null`)
	set.StringArrayVar(&f.headers, "header", nil, "NAME=VALUE to add to each record, may be repeated")
}

func (f *inputForm) check() error {
	forms := 0
	for _, set := range []bool{f.lines, f.null, f.jsonl} {
		if set {
			forms++
		}
	}
	switch {
	case forms > 1:
		return usageError{errors.New("--lines, --null and --jsonl exclude each other")}
	case f.jsonl && f.separator != "":
		return usageError{errors.New("--key-separator is not for --jsonl, which has keys")}
	}
	if _, err := unescape(f.separator); err != nil {
		return usageError{fmt.Errorf("--key-separator %q: %w", f.separator, err)}
	}
	for _, h := range f.headers {
		if !strings.Contains(h, "=") {
			return usageError{fmt.Errorf("--header %q is not NAME=VALUE", h)}
		}
	}
	if len(f.headers) > batchfmt.MaxHeaders {
		return usageError{fmt.Errorf("--header: %d are over the limit, %d", len(f.headers), batchfmt.MaxHeaders)}
	}
	for _, name := range f.names {
		if name == "-" {
			continue
		}
		if _, err := os.Stat(name); err != nil {
			return missing(err)
		}
	}
	return nil
}

// unescape resolves what Go writes with a backslash.
func unescape(s string) ([]byte, error) {
	if !strings.Contains(s, `\`) {
		return []byte(s), nil
	}
	text, err := strconv.Unquote(`"` + strings.ReplaceAll(s, `"`, `\"`) + `"`)
	return []byte(text), err
}

// An inputPlace is where a record stood.
type inputPlace struct {
	file   string
	unit   string // what number counts: "line" or "record"
	number int64  // from 1
}

func (p inputPlace) String() string { return fmt.Sprintf("%s, %s %d", p.file, p.unit, p.number) }

// An inputError says that a record cannot be read. It is nothing to those that follow.
type inputError struct{ error }

func (e inputError) Unwrap() error { return e.error }

// each gives every record, or why it is none, to fn, until ctx ends. The record may be
// used until fn returns.
func (f *inputForm) each(ctx context.Context, fn func(inputPlace, sdk.Record, error)) error {
	names := f.names
	if len(names) == 0 {
		names = []string{"-"}
	}
	for _, name := range names {
		if err := f.eachOf(ctx, name, fn); err != nil {
			return err
		}
	}
	return nil
}

func (f *inputForm) eachOf(ctx context.Context, name string, fn func(inputPlace, sdk.Record, error)) error {
	in, at := f.stdin, inputPlace{file: name, unit: "line"}
	if name == "-" {
		at.file = "stdin"
	} else {
		file, err := os.Open(name)
		if err != nil {
			return missing(err)
		}
		defer file.Close()
		in = file
	}
	if f.null {
		at.unit = "record"
	}
	parse, delimiter, limit := f.parser()
	// A file may be a pipe as well, in which nothing comes.
	s := splitter{in: bufio.NewReaderSize(interruptible(ctx, in), 64<<10), delimiter: delimiter, limit: limit}
	for at.number = 1; ctx.Err() == nil; at.number++ {
		text, err := s.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.As(err, new(inputError)):
			return fmt.Errorf("read %s: %w", at.file, err)
		}
		var r sdk.Record
		if err == nil {
			r, err = parse(text)
		}
		fn(at, r, err)
	}
	return context.Cause(ctx)
}

// maxText bounds a record in the input; no larger one fits in a batch.
const maxText = batchfmt.MaxBatchBytes

// maxFrame bounds what stands around the contents of a record in JSON.
const maxFrame = 1<<10 + batchfmt.MaxHeaders*len(`{"name":{"base64":""},"value":{"base64":""}},`)

// parser says how a record is parsed, what ends it, and how long it may be.
func (f *inputForm) parser() (parse func([]byte) (sdk.Record, error), delimiter byte, limit int) {
	separator, _ := unescape(f.separator) // which check has done
	var headers []sdk.Header
	for _, h := range f.headers {
		name, value, _ := strings.Cut(h, "=")
		headers = append(headers, sdk.Header{Key: name, Value: []byte(value)})
	}
	if f.jsonl {
		return func(text []byte) (sdk.Record, error) {
			r, err := parseRecord(text)
			if err != nil {
				return r, inputError{err}
			}
			if r.Headers = append(r.Headers, headers...); len(r.Headers) > batchfmt.MaxHeaders {
				return r, inputError{fmt.Errorf("%d headers are over the limit, %d", len(r.Headers), batchfmt.MaxHeaders)}
			}
			return r, nil
		}, '\n', 6*maxText + maxFrame // a byte in JSON takes up to six
	}
	if f.null {
		delimiter = 0
	} else {
		delimiter = '\n'
	}
	return func(text []byte) (sdk.Record, error) {
		r := sdk.Record{Value: text, Headers: headers}
		if len(separator) > 0 {
			if key, value, found := bytes.Cut(text, separator); found {
				r.Key, r.Value = key, value
			}
		}
		return r, nil
	}, delimiter, maxText
}

// A splitter cuts what it reads into texts, each ended by a delimiter or the end.
type splitter struct {
	in        *bufio.Reader
	delimiter byte
	limit     int
	text      []byte // never nil: an empty text is not null
}

// next gives a text, valid until the next call, io.EOF behind the last, or an inputError
// for one that is longer than the limit, which it skips.
func (s *splitter) next() ([]byte, error) {
	if s.text == nil {
		s.text = make([]byte, 0, 1024)
	}
	s.text = s.text[:0]
	total := 0
	for {
		part, err := s.in.ReadSlice(s.delimiter)
		total += len(part)
		ended := err == nil
		if ended {
			part = part[:len(part)-1]
		}
		if total <= s.limit+1 {
			s.text = append(s.text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (total == 0 || !errors.Is(err, io.EOF)):
			return nil, err
		case total > s.limit+1 || !ended && total > s.limit:
			return nil, inputError{fmt.Errorf("it is longer than %d bytes", s.limit)}
		}
		return s.text, nil
	}
}

// An interruptibleReader is a reader whose Read ends with ctx.
type interruptibleReader struct {
	ctx    context.Context
	blocks chan block
	rest   []byte
	err    error
}

type block struct {
	bytes []byte
	err   error
}

// interruptible reads ahead of in, in a goroutine that ends with in or with the first
// thing that comes from it after ctx: a terminal or a pipe where nothing comes cannot be
// made to return, and then the goroutine ends with the process.
func interruptible(ctx context.Context, in io.Reader) io.Reader {
	r := &interruptibleReader{ctx: ctx, blocks: make(chan block)}
	go func() {
		for {
			b := make([]byte, 64<<10)
			n, err := in.Read(b)
			select {
			case r.blocks <- block{b[:n], err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return r
}

func (r *interruptibleReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		select {
		case b := <-r.blocks:
			r.rest, r.err = b.bytes, b.err
		case <-r.ctx.Done():
			return 0, context.Cause(r.ctx)
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	if n == 0 {
		return 0, r.err
	}
	return n, nil
}
