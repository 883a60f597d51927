package ceiling

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/quic-go/quic-go"
	"golang.org/x/sync/errgroup"

	"github.com/quoin-io/quoin/wire/udp"
)

const storeName = "frames"

// serveCeiling is the bare server: one connection, one stream. Its file is full of zeros
// before the first frame comes, as a sync is cheaper when it need not allocate.
func serveCeiling(ctx context.Context, s settings, ready func(greeting) error) error {
	file, err := zeroFilled(filepath.Join(s.Dir, storeName), s.StoreBytes)
	if err != nil {
		return err
	}
	defer file.Close()
	socket, err := udp.Listen("udp4", "127.0.0.1:0", udp.Options{PlainReceive: s.Plain})
	if err != nil {
		return err
	}
	defer socket.Close()
	tlsConfig, cert, err := selfSigned()
	if err != nil {
		return err
	}
	tr := &quic.Transport{Conn: socket}
	defer tr.Close()
	ln, err := tr.Listen(tlsConfig, quicConfig(0))
	if err != nil {
		return err
	}
	if err := ready(greeting{Addr: socket.LocalAddr().String(), Cert: cert}); err != nil {
		return err
	}
	if err := serveOne(ctx, ln, &ring{file: file, size: s.StoreBytes}); err != nil && ctx.Err() == nil {
		return err
	}
	<-ctx.Done() // the parent may still ask how much CPU this took
	return nil
}

func serveOne(ctx context.Context, ln *quic.Listener, to *ring) error {
	conn, err := ln.Accept(ctx)
	if err != nil {
		return err
	}
	stream, err := conn.AcceptStream(ctx)
	if err != nil {
		return err
	}
	unhook := context.AfterFunc(ctx, func() { conn.CloseWithError(0, "stopped") })
	defer unhook()
	stopReading := func() { stream.CancelRead(1) }
	if err := storeFrames(stream, to, stopReading); err != nil {
		conn.CloseWithError(1, err.Error())
		return err
	}
	if err := stream.Close(); err != nil {
		return err
	}
	<-conn.Context().Done() // the client closes, as it knows when it has the last ack
	return nil
}

// storeFrames reads frames from rw until its end, writes them to the ring, and writes the
// number of the last frame on disk to rw whenever that moves on. It ends at the first
// failure, and at the first frame that is not as it was sent; stopReading must end a Read
// that waits.
func storeFrames(rw io.ReadWriter, to *ring, stopReading func()) error {
	written, synced := newLatest(), newLatest()
	group, ctx := errgroup.WithContext(context.Background())
	unhook := context.AfterFunc(ctx, stopReading)
	defer unhook()
	group.Go(func() error {
		defer written.close()
		return writeFrames(ctx, rw, to, written)
	})
	group.Go(func() error {
		defer synced.close()
		return written.each(func(number uint64) error {
			if err := datasync(to.file); err != nil {
				return err
			}
			synced.set(number)
			return nil
		})
	})
	group.Go(func() error {
		var b [8]byte
		return synced.each(func(number uint64) error {
			binary.LittleEndian.PutUint64(b[:], number)
			_, err := rw.Write(b[:])
			return err
		})
	})
	return group.Wait()
}

var buffers = sync.Pool{New: func() any { return new([frameBytesMax]byte) }}

func writeFrames(ctx context.Context, from io.Reader, to *ring, written *latest) error {
	r := bufio.NewReaderSize(from, 64<<10)
	for last := uint64(0); ctx.Err() == nil; last++ {
		if _, err := r.Peek(1); err == io.EOF {
			return nil
		}
		buf := buffers.Get().(*[frameBytesMax]byte)
		err := writeFrame(r, buf, last, to)
		buffers.Put(buf)
		if err != nil {
			return err
		}
		written.set(last + 1)
	}
	return nil // whoever ended the group has the error
}

func writeFrame(r io.Reader, buf *[frameBytesMax]byte, last uint64, to *ring) error {
	if _, err := io.ReadFull(r, buf[:headerBytes]); err != nil {
		return err
	}
	h, err := parseHeader(buf[:headerBytes])
	if err != nil {
		return err
	}
	end := headerBytes + h.records*recordBytes
	if _, err := io.ReadFull(r, buf[headerBytes:end]); err != nil {
		return err
	}
	if err := h.check(last, buf[headerBytes:end]); err != nil {
		return err
	}
	return to.write(buf[:end])
}

// ring writes one piece after the other and starts over where the next would not fit.
type ring struct {
	file *os.File
	size int64
	at   int64
}

func (r *ring) write(b []byte) error {
	if r.at+int64(len(b)) > r.size {
		r.at = 0
	}
	n, err := r.file.WriteAt(b, r.at)
	r.at += int64(n)
	return err
}

func zeroFilled(path string, size int64) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < size && err == nil; at += int64(len(zeros)) {
		_, err = f.WriteAt(zeros[:min(size-at, int64(len(zeros)))], at)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// latest passes a growing number from one goroutine to one other. The taker sees the
// newest number only: what it missed is contained in it.
type latest struct {
	number  atomic.Uint64
	changed chan struct{}
}

func newLatest() *latest { return &latest{changed: make(chan struct{}, 1)} }

func (l *latest) set(number uint64) {
	l.number.Store(number)
	select {
	case l.changed <- struct{}{}:
	default: // the taker has not looked since the last change
	}
}

// close is for the setter; the taker still sees the last number.
func (l *latest) close() { close(l.changed) }

// each calls take until close, or until take fails.
func (l *latest) each(take func(uint64) error) error {
	for range l.changed {
		if err := take(l.number.Load()); err != nil {
			return err
		}
	}
	return nil
}
