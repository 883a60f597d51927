package sdk

import (
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/quoin-io/quoin/sdk/internal/planted"
)

// callbacks calls the callbacks of one partition in order, on a goroutine of its own. The
// goroutine starts with the first callback and ends when its sender ended and the queue
// is empty; the producer waits for it in Close.
type callbacks struct {
	after <-chan struct{} // closed when those of the partition's sender before have been called; nil for none
	wake  chan struct{}
	done  chan struct{} // closed when the goroutine ended
	mu    struct {
		sync.Mutex
		queue   []*outcome
		running bool // the goroutine was started
		busy    bool // it has outcomes in hand
		last    bool // nothing more comes
	}
}

// outcome is what became of a batch, on its way to the application.
type outcome struct {
	records *records
	first   Ack             // of the first record, when it was stored
	err     error           // when it was not
	unknown *OutcomeUnknown // of the first record, when that is what it is
}

func (o *outcome) of(i int) (Ack, error) {
	switch {
	case o.unknown != nil:
		unknown := *o.unknown
		if unknown.Sequence >= 0 {
			unknown.Sequence += int64(i)
		}
		unknown.Record += i
		return Ack{}, &unknown
	case o.err != nil:
		return Ack{}, o.err
	}
	ack := o.first
	if ack.Sequence >= 0 {
		ack.Sequence += int64(i)
	}
	if ack.Offset >= 0 {
		ack.Offset += int64(i)
	}
	return ack, nil
}

func newCallbacks(after <-chan struct{}) *callbacks {
	return &callbacks{after: after, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// put queues an outcome behind the others. It reports false, and takes nothing, when the
// batch has no callbacks and none are waiting: then the sender may go on by itself.
func (c *callbacks) put(o *outcome, hasCallbacks bool, s *sender) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !hasCallbacks && len(c.mu.queue) == 0 && !c.mu.busy {
		return false
	}
	c.mu.queue = append(c.mu.queue, o)
	if !c.mu.running {
		c.mu.running = true
		go c.run(s)
	}
	signal(c.wake)
	return true
}

// finish says that nothing more comes.
func (c *callbacks) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.last = true
	if !c.mu.running && c.after == nil {
		close(c.done)
		return
	}
	if !c.mu.running { // whoever comes after this one waits for those before it too
		c.mu.running = true
		go func() {
			<-c.after
			close(c.done)
		}()
		return
	}
	signal(c.wake)
}

func (c *callbacks) run(s *sender) {
	defer close(c.done)
	if c.after != nil {
		<-c.after
	}
	for range c.wake {
		c.mu.Lock()
		queue, last := c.mu.queue, c.mu.last
		c.mu.queue, c.mu.busy = nil, true
		c.mu.Unlock()
		if planted.CallbacksSwapped {
			slices.Reverse(queue)
		}
		for _, o := range queue {
			callBack(o)
			s.called(o)
		}
		c.mu.Lock()
		c.mu.busy = false
		c.mu.Unlock()
		if last {
			return
		}
	}
}

// callBack calls the callbacks of a batch. Its name is what calledFromCallback looks for.
//
//go:noinline
func callBack(o *outcome) {
	for i, tag := range o.records.Tags {
		if tag.fn != nil {
			tag.fn(o.of(i))
		}
	}
}

// calledFromCallback reports whether the caller runs in a callback of a producer. There
// waiting for callbacks would be waiting for oneself.
func calledFromCallback() bool { return calledFrom("/sdk.callBack") }

// calledFrom reports whether a function whose name ends like this is on the caller's
// stack. Flush and Close are rare, and nothing else can know.
func calledFrom(function string) bool {
	pcs := make([]uintptr, 64)
	n := runtime.Callers(2, pcs)
	for n == len(pcs) {
		pcs = make([]uintptr, 2*len(pcs))
		n = runtime.Callers(2, pcs)
	}
	frames := runtime.CallersFrames(pcs[:n])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, function) {
			return true
		}
		if !more {
			return false
		}
	}
}
