package sdk

import (
	"context"
	"sync"
	"time"
)

// EventKind says what happened.
type EventKind uint8

// The kinds of events.
const (
	EventConnected    EventKind = iota + 1 // a connection was made, the first one too
	EventDisconnected                      // it was lost: Err says why
	EventRetry                             // an attempt to connect failed: Attempt, Wait, Err; or, with Topic, a batch was sent again: Partition, ProducerID, Attempt, Err
	EventThrottled                         // the server asked a producer to wait: Topic, Partition, Err
	EventDrained                           // the server is about to go; work moves elsewhere
	EventDropped                           // events were lost, since OnEvent was too slow: Attempt of them
	EventFenced                            // another instance took a producer over: Topic, Partition, ProducerID, Err; once a producer
	EventSettled                           // what was told to be unknown is not any more: Topic, Partition, Token, Resolution
)

func (k EventKind) String() string {
	switch k {
	case EventConnected:
		return "connected"
	case EventDisconnected:
		return "disconnected"
	case EventRetry:
		return "retry"
	case EventThrottled:
		return "throttled"
	case EventDrained:
		return "drained"
	case EventDropped:
		return "dropped"
	case EventFenced:
		return "fenced"
	case EventSettled:
		return "settled"
	}
	return "unknown"
}

// An Event is something that happened to a client's connection. Fields that have no
// meaning for its kind are zero.
type Event struct {
	Kind EventKind
	Time time.Time
	Addr string // of the server
	// Connection and Live of EventConnected, EventDisconnected, EventRetry and EventDrained,
	// each of which is about one connection of those that the client keeps, see
	// [Connections]: which one, from 1, and how many take new work after what happened. The
	// client is cut off when Live is 0.
	Connection int
	Live       int

	Attempt    int           // of EventRetry, from 1, of a batch from 2; of EventDropped, how many were lost
	Wait       time.Duration // until the next attempt
	Topic      string
	Partition  int
	ProducerID uint64 // of EventFenced and of EventRetry with a Topic
	Err        error
	// Token and Resolution of EventSettled: the batch that an [OutcomeUnknown] was about,
	// and what became of it; [ResolveUnknowable] when nobody will ever know. It comes once
	// for each such batch, unless the client is closed before, or more than 4,096 batches of
	// partitions that are over wait for it. It may overtake the Send that returns the error.
	Token      Token
	Resolution Resolution
}

// maxEvents bounds what waits for a slow OnEvent.
const maxEvents = 256

// events hands events to the application on a goroutine of their own, so that OnEvent
// may call anything. The goroutine is started by newEvents and ends with close.
type events struct {
	fn   func(Event)
	wake chan struct{}
	done chan struct{}
	mu   struct {
		sync.Mutex
		queue   []Event
		dropped int
		closed  bool
	}
}

func newEvents(fn func(Event)) *events {
	e := &events{fn: fn, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if fn == nil {
		close(e.done)
		return e
	}
	go e.run()
	return e
}

func (e *events) emit(ev Event) {
	if e.fn == nil {
		return
	}
	ev.Time = time.Now()
	e.mu.Lock()
	switch {
	case e.mu.closed:
	case len(e.mu.queue) >= maxEvents:
		e.mu.dropped++
	default:
		if n := e.mu.dropped; n > 0 {
			e.mu.queue = append(e.mu.queue, Event{Kind: EventDropped, Time: ev.Time, Attempt: n})
			e.mu.dropped = 0
		}
		e.mu.queue = append(e.mu.queue, ev)
	}
	e.mu.Unlock()
	signal(e.wake)
}

// signal wakes the goroutine that waits on a channel of capacity one.
func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

func (e *events) run() {
	defer close(e.done)
	for range e.wake {
		e.mu.Lock()
		queue, closed := e.mu.queue, e.mu.closed
		e.mu.queue = nil
		e.mu.Unlock()
		for _, ev := range queue {
			deliverEvent(e.fn, ev)
		}
		if closed {
			return
		}
	}
}

// deliverEvent calls OnEvent. Its name is what calledFromOnEvent looks for.
//
//go:noinline
func deliverEvent(fn func(Event), ev Event) { fn(ev) }

// calledFromOnEvent reports whether the caller runs in OnEvent. There waiting for the
// end of the events would be waiting for oneself.
func calledFromOnEvent() bool { return calledFrom("/sdk.deliverEvent") }

// close lets what is queued out, takes nothing more and waits for the goroutine, but not
// when it is OnEvent itself that closes the client, nor longer than ctx lives.
func (e *events) close(ctx context.Context) {
	e.mu.Lock()
	e.mu.closed = true
	e.mu.Unlock()
	signal(e.wake)
	if calledFromOnEvent() {
		return
	}
	select {
	case <-e.done:
	case <-ctx.Done():
	}
}
