package seglog

import (
	"context"
	"errors"
	"time"

	"github.com/quoin-io/quoin/server/internal/vfs"
)

const (
	minScrubStep = 64 << 10
	maxScrubStep = 4 << 20
)

// Scrub reads all that is durable at the call, once, with both checksums verified, at no more
// than bytesPerSecond, and calls report for damage that was not known before. From then on
// reads of it give a *CorruptError that says where to go on; no file is changed. It returns
// when it has come to the end, when ctx ends, with its error, or when the log is closed.
//
// Segments that are not written any more are read past what the system has in memory of
// them, so that it is the disk that is looked at.
func (l *Log) Scrub(ctx context.Context, bytesPerSecond int64, report func(DamagedRange)) error {
	bytesPerSecond = max(bytesPerSecond, 1)
	s := l.NewScrubber()
	for {
		n, done, err := s.Step(min(max(bytesPerSecond/10, minScrubStep), maxScrubStep), report)
		if done || err != nil {
			return err
		}
		pause := time.NewTimer(time.Duration(float64(n) / float64(bytesPerSecond) * float64(time.Second)))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
	}
}

// A Scrubber is a [Log.Scrub] whose caller keeps the pace. One goroutine uses it.
type Scrubber struct {
	l     *Log
	views []view
	at    segEnd // in the first of the views; zero at its start
}

// NewScrubber begins at the start of the log; what is durable now is what it looks at.
func (l *Log) NewScrubber() *Scrubber {
	l.mu.RLock()
	defer l.mu.RUnlock()
	s := &Scrubber{l: l}
	for i := range l.mu.segs {
		s.views = append(s.views, l.view(i))
	}
	last := &s.views[len(s.views)-1]
	last.size, last.next = l.mu.synced, max(last.base, l.mu.durable)
	return s
}

// Step reads about maxBytes, a batch more at most, and says how many it read and whether
// that was all.
func (s *Scrubber) Step(maxBytes int64, report func(DamagedRange)) (n int64, done bool, err error) {
	if len(s.views) == 0 {
		return 0, true, nil
	}
	v := s.views[0]
	s.l.mu.RLock()
	closed := s.l.mu.closed
	v.holes = s.l.mu.segs[s.l.find(v.base)].holes // others may have found more meanwhile
	s.l.mu.RUnlock()
	if closed {
		return 0, false, ErrClosed
	}
	c, release, err := s.l.cursor(v, &window{chunk: int(min(maxBytes, walkBytes))})
	if err != nil {
		return 0, false, err
	}
	defer func() { err = errors.Join(err, release()) }()
	c.bodies = true
	sealed := len(s.views) > 1 && c.f != nil
	if s.at != (segEnd{}) {
		c.at = s.at
	} else if sealed {
		err = vfs.DropCache(c.f)
	}
	begin, more := c.at.size, err == nil
	for more && c.at.size-begin < maxBytes {
		var x step
		if x, more, err = c.next(); x.found {
			report(x.hole.damaged(v.base))
		}
	}
	n, s.at = c.at.size-begin, c.at
	if !more && err == nil {
		s.views, s.at = s.views[1:], segEnd{}
		if sealed {
			err = vfs.DropCache(c.f) // what nobody has asked for
		}
	}
	return n, len(s.views) == 0, err
}
