package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Pauses between attempts to reconnect, and how long an attempt may take at each address.
// Most attempts are short, so that a server which comes back is found soon: packets that
// went to nobody are repeated ever more slowly by the protocol. Every third is long, for a
// server that is far away.
const (
	firstPause   = 50 * time.Millisecond
	youngPause   = 10 * time.Millisecond // the first one when a server was there and left us
	maxPause     = 2 * time.Second
	maxSpare     = 30 * time.Second // maxPause while other connections live: nobody waits for this one
	shortAttempt = time.Second
	longAttempt  = 2 * handshakeTimeout
)

// errHurry ends a pause or an attempt, since the server was reached meanwhile.
var errHurry = errors.New("the server is back")

// A link keeps one of the manager's connections. Its goroutine alone dials for it.
type link struct {
	m       *Manager
	index   int      // of its place
	conn    *Conn    // nil before the first one
	session [16]byte // what the server called the last one
	// failures in a row: attempts, and connections on which nothing worked.
	failures int
}

// change is what the observer is told of. The caller holds telling.
func (l *link) change(addr string, live int) Change {
	return Change{Addr: addr, Connection: l.index + 1, Live: live}
}

func (l *link) connected(conn *Conn) {
	l.conn, l.session = conn, conn.hello.Session
	l.m.telling.Lock()
	defer l.m.telling.Unlock()
	l.m.config.Observer.Connected(l.change(conn.Addr(), l.m.put(l.index, conn, false)))
}

// run makes the connection, waits for its end and makes the next one.
func (l *link) run() {
	for {
		var pause time.Duration
		if l.conn != nil {
			var over bool
			if pause, over = l.awaitEnd(); over {
				return
			}
		}
		conn := l.reconnect(pause)
		if conn == nil {
			return
		}
		l.m.config.Logger.Info("connected", "server", conn.Addr(), "connection", l.index+1)
		l.connected(conn)
	}
}

// awaitEnd waits until the connection takes no new work any more and returns how long to
// wait before the next attempt. over says that the manager closes.
func (l *link) awaitEnd() (pause time.Duration, over bool) {
	select {
	case <-l.m.ctx.Done():
		return 0, true
	case <-l.conn.Done():
		if l.m.ctx.Err() != nil {
			return 0, true
		}
		return l.lost(), false
	case <-l.conn.Draining():
		return l.drained(), false
	}
}

func (l *link) lost() (pause time.Duration) {
	if l.conn.wentSilent() {
		l.m.avoid(l.conn) // another address may be heard
	}
	pause = l.afterwards()
	l.m.config.Logger.Warn("connection lost", "server", l.conn.Addr(), "connection", l.index+1, "error", l.conn.Err())
	l.m.telling.Lock()
	defer l.m.telling.Unlock()
	l.m.config.Observer.Disconnected(l.change(l.conn.Addr(), l.vacate(pause)), l.conn.Err())
	return pause
}

func (l *link) drained() (pause time.Duration) {
	d := l.conn.drain()
	pause = l.afterwards()
	// Another host is asked at once; the same one when it said so.
	if len(l.m.config.Targets) > 1 {
		l.m.avoid(l.conn)
	} else {
		pause = max(pause, rand.N(min(d.RetryAfter, maxPause)+1))
	}
	l.m.config.Logger.Info("server drains", "server", l.conn.Addr(), "connection", l.index+1, "reason", d.Reason)
	l.m.telling.Lock()
	defer l.m.telling.Unlock()
	l.m.config.Observer.Drained(l.change(l.conn.Addr(), l.vacate(pause)), d.Reason)
	return pause
}

// afterwards is how long to wait after the end of a connection: not at all after one that
// worked, else for a time that grows, so that a server which accepts and then drops its
// clients is not stormed.
func (l *link) afterwards() time.Duration {
	if l.conn.worked() {
		l.failures = 0
		return 0
	}
	l.failures++
	return pauseAfter(l.failures, youngPause, maxPause)
}

// vacate takes the connection off its place. Another one is expected there unless the pause
// before the next attempt is a long one.
func (l *link) vacate(pause time.Duration) (live int) {
	return l.m.put(l.index, nil, pause <= firstPause)
}

// reconnect dials until there is a connection, or returns nil when the manager closes.
func (l *link) reconnect(pause time.Duration) *Conn {
	for attempt := 1; ; attempt++ {
		conn, err := l.attempt(pause, attempt)
		switch {
		case err == nil:
			return conn
		case l.m.ctx.Err() != nil:
			return nil
		case errors.Is(err, errHurry):
			l.failures, attempt, pause = 0, 0, rand.N(youngPause) // not all of them in one moment
			continue
		}
		l.failures++
		pause = l.pause()
		l.m.unexpected(l.index)
		l.m.config.Logger.Warn("cannot reconnect", "connection", l.index+1, "attempt", attempt, "next try in", pause, "error", err)
		l.retrying(attempt, pause, err)
	}
}

func (l *link) pause() time.Duration {
	if l.m.alive() > 0 {
		return pauseAfter(l.failures, firstPause, maxSpare)
	}
	return pauseAfter(l.failures, firstPause, maxPause)
}

func (l *link) retrying(attempt int, wait time.Duration, err error) {
	l.m.telling.Lock()
	defer l.m.telling.Unlock()
	l.m.config.Observer.Retrying(l.change("", l.m.alive()), attempt, wait, err)
}

// pauseAfter is how long to wait after so many failures in a row, with full jitter: first
// is the most that it is after the first of them, limit the most that it ever is.
func pauseAfter(failures int, first, limit time.Duration) time.Duration {
	return rand.N(min(first<<min(failures-1, 12), limit) + 1)
}

// attempt dials once, after a pause. The error is errHurry when the server was reached by
// another link before this one had an answer.
func (l *link) attempt(pause time.Duration, number int) (*Conn, error) {
	ctx, cancel := context.WithCancelCause(l.m.ctx)
	defer cancel(nil)
	if l.m.begin(l.index, cancel) {
		l.m.end(l.index)
		return nil, errHurry
	}
	defer l.m.expectFor(l.index, pause+shortAttempt).Stop()
	var conn *Conn
	var err error
	if sleep(ctx, pause) {
		l.m.dials(l.index)
		conn, err = l.m.dialAny(ctx, approach{l.session, patience(number)})
	}
	if hurried := l.m.end(l.index); hurried && conn == nil {
		return nil, errHurry
	}
	if conn == nil && err == nil {
		err = ErrClosed // it ended in the pause
	}
	return conn, err
}

// patience is how long the attempt of this number, from 1, may take.
func patience(number int) time.Duration {
	if number%3 == 0 {
		return longAttempt
	}
	return shortAttempt
}
