package transport

import (
	"context"
	"net/netip"
	"time"
)

// A place is what a link has to offer.
type place struct {
	conn *Conn // takes new work; nil for none
	// expected: there is none, but an attempt is made that will probably end well and soon.
	// Work that belongs here waits for it, until it fails or has taken a shortAttempt.
	expected bool
	hurried  bool                    // the next attempt is to be made at once
	hurry    context.CancelCauseFunc // ends the attempt that goes on, and its pause; nil for none
	dialing  time.Time               // since when the attempt dials; zero in its pause
}

// freshAttempt is how long an attempt is one that reaches a server which is back: its first
// packets are repeated within that time.
const freshAttempt = 200 * time.Millisecond

// home says which connection work with a key belongs on. First match wins.
//
//	its own place has one           that one      the same key, the same connection
//	its own place expects one       none yet      else all work would end up on whichever
//	                                              connection is back first after a loss
//	others have one                 one of them   by the key, so that the work spreads
//	otherwise                       none yet
func home(places []place, key uint64) *Conn {
	n := uint64(len(places))
	own := &places[key%n]
	if own.conn != nil || own.expected {
		return own.conn
	}
	return next(places, key/n)
}

// next counts turn through the connections that there are.
func next(places []place, turn uint64) *Conn {
	n := count(places)
	if n == 0 {
		return nil
	}
	skip := int(turn % uint64(n))
	for i := range places {
		if places[i].conn == nil {
			continue
		}
		if skip == 0 {
			return places[i].conn
		}
		skip--
	}
	return nil
}

func count(places []place) int {
	n := 0
	for i := range places {
		if places[i].conn != nil {
			n++
		}
	}
	return n
}

// put gives a place a connection, or takes it away, says whether another one is expected
// there, and returns how many live then. The first one after a time without any proves that
// the server is back: the other links then try at once, instead of sitting out pauses and
// attempts that are for a server that is not.
func (m *Manager) put(index int, conn *Conn, expected bool) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	back := conn != nil && count(m.mu.places) == 0
	p := &m.mu.places[index]
	p.conn, p.expected = conn, expected
	if conn != nil {
		p.hurried = false
	}
	for i := range m.mu.places {
		if back && i != index {
			m.mu.places[i].comeBack()
		}
	}
	m.signal()
	return count(m.mu.places)
}

func (p *place) comeBack() {
	p.expected = true
	if p.hurry != nil && !p.dialing.IsZero() && time.Since(p.dialing) < freshAttempt {
		return
	}
	p.hurried = true
	if p.hurry != nil {
		p.hurry(errHurry)
	}
}

// signal wakes whoever waits for a change. The caller holds mu.
func (m *Manager) signal() {
	close(m.mu.changed)
	m.mu.changed = make(chan struct{})
}

// unexpected ends the wait for a place, unless it was told to hurry since its last attempt.
func (m *Manager) unexpected(index int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := &m.mu.places[index]; !p.hurried {
		p.expected = false
		m.signal()
	}
}

// expectFor ends the wait for a place after d, though the attempt may go on: a host can have
// many addresses.
func (m *Manager) expectFor(index int, d time.Duration) *time.Timer {
	return time.AfterFunc(d, func() { m.unexpected(index) })
}

// begin notes how the attempt of a place can be hurried, and reports whether it is to be
// left for one that is made at once.
func (m *Manager) begin(index int, hurry context.CancelCauseFunc) (hurried bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &m.mu.places[index]
	hurried = p.hurried
	p.hurry, p.hurried, p.dialing = hurry, false, time.Time{}
	return hurried
}

// dials notes that the pause of an attempt is over.
func (m *Manager) dials(index int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.places[index].dialing = time.Now()
}

// end says that no attempt goes on, and reports whether it was hurried.
func (m *Manager) end(index int) (hurried bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &m.mu.places[index]
	hurried = p.hurried
	p.hurry, p.hurried = nil, false
	return hurried
}

// alive is how many connections take new work.
func (m *Manager) alive() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return count(m.mu.places)
}

func (m *Manager) firstTarget() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.first
}

func (m *Manager) lastAddress() netip.Addr {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.last
}

// prefer has whoever answered asked first the next time.
func (m *Manager) prefer(target int, at netip.AddrPort) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.first, m.mu.last = target, at.Addr()
}

// avoid has somebody else asked first, if there is another host or address, unless that is
// so already: every connection to a server that goes says so.
func (m *Manager) avoid(conn *Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.first == conn.target {
		m.mu.first = (conn.target + 1) % len(m.config.Targets)
	}
	if m.mu.last == conn.at.Addr() {
		m.mu.last = netip.Addr{}
	}
}
