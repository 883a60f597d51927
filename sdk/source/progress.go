package source

import (
	"bytes"
	"context"
	"sync"
	"time"
)

// Progress says how far a run is. Counts are those of the run, from when it was started.
type Progress struct {
	Read       int64     // items that the source gave, those that it gave again included
	Items      int64     // items that are stored
	Records    int64     // records in them
	Duplicates int64     // of Records: those that the server had already when they were sent again
	Position   Position  // that is stored, behind all of that; nil for the beginning
	Stored     time.Time // when the last item was found to be stored; zero for never
	Retries    int64     // how often something failed and the run went on
	Err        error     // the last such failure, or what ended the run; nil for none
	Failed     time.Time // when that was; zero for never
	Done       bool      // the run is over
}

// Stats has the [Progress] of a run, for [WithStats]. The zero Stats is ready. Its methods may
// be called from any goroutine.
type Stats struct {
	mu struct {
		sync.Mutex
		now     Progress
		version uint64 // rises with every change
	}
}

// Progress is how far the run is. It costs about as much as taking a lock.
func (s *Stats) Progress() Progress {
	p, _ := s.read()
	return p
}

func (s *Stats) read() (Progress, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.mu.now
	now.Position = bytes.Clone(now.Position)
	return now, s.mu.version
}

func (s *Stats) change(f func(*Progress)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.mu.now)
	s.mu.version++
}

// report calls fn when s has changed, at most once every so often, until ctx ends.
func report(ctx context.Context, s *Stats, every time.Duration, fn func(Progress)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var told uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if now, version := s.read(); version != told {
			told = version
			fn(now)
		}
	}
}
