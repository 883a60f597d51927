package batchfmt

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// Compressors and decompressors are pooled: their tables cost far more than the work on
// one batch. Each works on the goroutine that asks, never on one of its own.
var (
	zstdEncoders = sync.Pool{New: func() any {
		e, err := zstd.NewWriter(nil,
			zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(false), // the batch has a checksum
			zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(zstdWindowBytes))
		if err != nil {
			panic("batchfmt: zstd encoder: " + err.Error()) // the options are constants
		}
		return e
	}}
	zstdDecoders = sync.Pool{New: func() any {
		d, err := zstd.NewReader(nil,
			zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxMemory(MaxRecordsBytes+decodeSlack),
			zstd.WithDecodeAllCapLimit(true)) // never grow the buffer that we give
		if err != nil {
			panic("batchfmt: zstd decoder: " + err.Error())
		}
		return d
	}}
	gzipWriters = sync.Pool{New: func() any { return &gzipWriter{z: gzip.NewWriter(nil)} }}
	gzipReaders = sync.Pool{New: func() any { return new(gzipReader) }}
)

const (
	// zstdWindowBytes bounds how far back our compressor looks. Batches are small; a
	// larger window would only cost memory in each encoder.
	zstdWindowBytes = 1 << 20
	// decodeSlack is room behind the records that lets the zstd decoder copy in steps
	// of 32 bytes; no byte of it is ever read as a record.
	decodeSlack = 32
)

type gzipWriter struct {
	z   *gzip.Writer
	out []byte
}

func (w *gzipWriter) Write(p []byte) (int, error) {
	w.out = append(w.out, p...)
	return len(p), nil
}

type gzipReader struct {
	z   gzip.Reader
	src bytes.Reader
	one [1]byte
}

// sealedBytes is how much room to make for a section of n bytes. Only snappy needs a
// bound; for the others it is a first guess.
func sealedBytes(c Codec, n int) int {
	switch c {
	case CodecSnappy:
		return max(0, s2.MaxEncodedLen(n))
	case CodecNone:
		return n
	}
	return n/2 + 64
}

// appendCompressed appends section, compressed by c.
func appendCompressed(dst []byte, c Codec, section []byte) ([]byte, error) {
	switch c {
	case CodecNone:
		return append(dst, section...), nil
	case CodecGzip:
		return appendGzip(dst, section)
	case CodecSnappy:
		// One raw block, which every reader of snappy takes. The destination has the
		// room: see sealedBytes.
		block := s2.EncodeSnappy(dst[len(dst):cap(dst)], section)
		return dst[:len(dst)+len(block)], nil
	case CodecZstd:
		e := zstdEncoders.Get().(*zstd.Encoder)
		dst = e.EncodeAll(section, dst)
		zstdEncoders.Put(e)
		return dst, nil
	}
	return dst, fieldError("attributes", offAttributes, "codec %d is not known", c)
}

func appendGzip(dst, section []byte) ([]byte, error) {
	w := gzipWriters.Get().(*gzipWriter)
	w.out = dst
	w.z.Reset(w)
	_, err := w.z.Write(section)
	if err == nil {
		err = w.z.Close()
	}
	out := w.out
	w.out = nil
	gzipWriters.Put(w)
	if err != nil {
		return dst, fieldError("records", 0, "gzip: %v", err)
	}
	return out, nil
}

var (
	errTooLong  = errors.New("decompresses to more than the records length")
	errTooShort = errors.New("decompresses to less than the records length")
)

// maxExpansion is the most that n compressed bytes can become. It is looked at before
// memory is taken for a records length that somebody claims.
func maxExpansion(c Codec, n int) int64 {
	const (
		gzipRatio   = 1032      // 258 bytes for two bits
		snappyRatio = 22        // 64 bytes for three
		zstdBlock   = 128 << 10 // for a block of four bytes
	)
	switch c {
	case CodecGzip:
		return int64(n) * gzipRatio
	case CodecSnappy:
		return int64(n) * snappyRatio
	case CodecZstd:
		return int64(n/4) * zstdBlock
	}
	return int64(n)
}

// decompress fills dst exactly with what section decompresses to, or says why it cannot.
// dst has decodeSlack bytes of capacity behind its length. Besides dst it takes no
// memory that grows with the input, but for what the header of a gzip stream holds and
// for what [unzstd] says.
func decompress(dst []byte, c Codec, section []byte) error {
	switch c {
	case CodecGzip:
		return gunzip(dst, section)
	case CodecSnappy:
		return unsnappy(dst, section)
	case CodecZstd:
		return unzstd(dst, section)
	}
	return errors.New("codec " + c.String() + " is not known")
}

func gunzip(dst, section []byte) error {
	r := gzipReaders.Get().(*gzipReader)
	defer func() {
		r.src.Reset(nil)
		gzipReaders.Put(r)
	}()
	r.src.Reset(section)
	if err := r.z.Reset(&r.src); err != nil {
		return err
	}
	for len(dst) > 0 {
		n, err := r.z.Read(dst)
		dst = dst[n:]
		switch {
		case err == io.EOF && len(dst) > 0:
			return errTooShort
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
	// Only the end of the stream checks its checksum.
	switch _, err := io.ReadFull(&r.z, r.one[:]); err {
	case io.EOF:
		return nil
	case nil:
		return errTooLong
	default:
		return err
	}
}

// unzstd has a wart. The decoder looks at its limit behind each block, and a block that
// repeats one byte is appended before that look. A frame that is longer than it claims
// can so make the decoder copy what it has into a buffer a quarter larger, once, before
// the frame is refused: at worst a lie costs two and a quarter times the claim for a
// moment. Frames of the right length never do.
func unzstd(dst, section []byte) error {
	d := zstdDecoders.Get().(*zstd.Decoder)
	defer zstdDecoders.Put(d)
	out, err := d.DecodeAll(section, dst[:0])
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded) || len(out) > len(dst):
		return errTooLong
	case err != nil:
		return err
	case len(out) < len(dst):
		return errTooShort
	case len(dst) > 0 && &out[0] != &dst[0]:
		return errors.New("the decoder left its buffer") // would be a fault of ours: the cap limit forbids it
	}
	return nil
}
