package main

import (
	"bufio"
	"io"
)

// printBytes is how much is written at once.
const printBytes = 64 << 10

// A printer writes lines to stdout: many at once, or each at once when somebody waits.
type printer struct {
	out     *bufio.Writer
	waiting bool
}

func newPrinter(w io.Writer, waiting bool) *printer {
	return &printer{out: bufio.NewWriterSize(w, printBytes), waiting: waiting}
}

func (p *printer) write(_, line []byte) error {
	if _, err := p.out.Write(line); err != nil || !p.waiting {
		return err
	}
	return p.out.Flush()
}

func (p *printer) close() error { return p.out.Flush() }
