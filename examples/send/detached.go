package main

import (
	"context"
	"io"

	"github.com/quoin-io/quoin/examples/internal/cli"
)

// detachedBytes is the most that one read of a detached stream takes.
const detachedBytes = 64 << 10

// A detached reads a stream whose Read may take for ever, such as a terminal, and gives
// up waiting for it when its context ends.
//
// The reading is done by a goroutine, which ends with the stream or with the first read
// that returns after ctx ended or Close was called. Nobody waits for it: a read of a
// terminal cannot be called off.
type detached struct {
	ctx    context.Context
	cancel context.CancelFunc
	full   chan piece
	empty  chan []byte
	have   []byte // the buffer in hand
	rest   []byte // what is not yet given out of it
	err    error  // what the stream ended with
}

// A piece is the result of one read.
type piece struct {
	bytes []byte
	err   error
}

func newDetached(ctx context.Context, r io.Reader) *detached {
	d := &detached{full: make(chan piece), empty: make(chan []byte, 2)}
	d.ctx, d.cancel = context.WithCancel(ctx)
	for range cap(d.empty) {
		d.empty <- make([]byte, detachedBytes)
	}
	go d.pump(r)
	return d
}

func (d *detached) pump(r io.Reader) {
	for {
		var buffer []byte
		select {
		case buffer = <-d.empty:
		case <-d.ctx.Done():
			return
		}
		n, err := r.Read(buffer)
		select {
		case d.full <- piece{buffer[:n], err}:
		case <-d.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (d *detached) Read(p []byte) (int, error) {
	if len(d.rest) == 0 && d.err == nil {
		if err := d.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	if len(d.rest) > 0 {
		return n, nil
	}
	return n, d.err
}

// next waits for a piece.
func (d *detached) next() error {
	if d.have != nil {
		d.empty <- d.have[:cap(d.have)] // there is room for both buffers
	}
	select {
	case piece := <-d.full:
		d.have, d.rest, d.err = piece.bytes, piece.bytes, piece.err
		return nil
	case <-d.ctx.Done():
		d.have = nil
		return cli.ErrInterrupted
	}
}

// Close gives the stream up. It does not close it.
func (d *detached) Close() error {
	d.cancel()
	return nil
}
