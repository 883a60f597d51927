package network

import (
	"errors"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"sync"
	"testing"
)

const (
	socketBuffer = 4 << 20
	maxDatagram  = 64 << 10
	maxPaths     = 1024
	maxTape      = 64 << 20 // bytes
)

// A relay stands between clients and a server: clients dial it, and each has a socket of
// its own towards the server. It is closed when the test ends.
type relay struct {
	tb       testing.TB
	server   netip.AddrPort
	front    *net.UDPConn
	up, down *line // towards the server, and back
	running  sync.WaitGroup
	handled  chan struct{} // capacity 1: a client's datagram was dealt with

	mu struct {
		sync.Mutex
		paths  map[netip.AddrPort]*path // by the client's address
		closed bool
		hole   bool
		tape   []taped
		bytes  int // on the tape
		record bool
		counts events
	}
}

// events counts what was done to paths.
type events struct {
	opened    int // paths, those after a rebind included
	rebound   int
	lostPaths int
	hole      int // datagrams that a black hole took
	deadPath  int // datagrams for a path that is lost
}

// A path is how a client reaches the server: a socket, whose port is what the server sees.
type path struct {
	client netip.AddrPort
	socket *net.UDPConn
	dead   bool // guarded by the relay's mu
}

// taped is a datagram that a client sent.
type taped struct {
	client netip.AddrPort
	bytes  []byte
}

// startRelay stands a relay before the server of this address.
func startRelay(tb testing.TB, server string, seed uint64) *relay {
	tb.Helper()
	addr, err := netip.ParseAddrPort(server)
	if err != nil {
		tb.Fatal(err)
	}
	r := &relay{tb: tb, server: addr, handled: make(chan struct{}, 1)}
	r.mu.paths = make(map[netip.AddrPort]*path)
	r.up = newLine(newLink(seed, 1), r.toServer)
	r.down = newLine(newLink(seed, 2), r.toClient)
	if r.front, err = listen(); err != nil {
		tb.Fatal(err)
	}
	r.running.Go(r.readClients)
	r.running.Go(r.up.run)
	r.running.Go(r.down.run)
	tb.Cleanup(r.close)
	return r
}

func listen() (*net.UDPConn, error) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	return c, errors.Join(c.SetReadBuffer(socketBuffer), c.SetWriteBuffer(socketBuffer))
}

func (r *relay) close() {
	r.mu.Lock()
	r.mu.closed = true
	for _, p := range r.mu.paths {
		p.socket.Close()
	}
	r.mu.Unlock()
	r.front.Close()
	close(r.up.stop)
	close(r.down.stop)
	r.running.Wait()
}

// addr is what clients dial.
func (r *relay) addr() string { return r.front.LocalAddr().String() }

// throughURL is the URL of the server with the address of the relay.
func (r *relay) throughURL(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		r.tb.Fatal(err)
	}
	u.Host = r.addr()
	return u.String()
}

// set makes both directions so.
func (r *relay) set(c conditions) {
	r.up.set(c)
	r.down.set(c)
}

// rebind gives every client another port towards the server, as a NAT does that forgot what
// it had. What the server sends to the old one from now on is lost.
func (r *relay) rebind() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range maps.Clone(r.mu.paths) {
		p.socket.Close()
		if r.open(p.client) != nil {
			r.mu.counts.rebound++
		}
	}
}

// losePaths ends the way of every connection that there is, for good: nothing of it gets
// through in either direction any more. A client that begins another connection has a new
// path for it, with another port.
func (r *relay) losePaths() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.mu.paths {
		p.dead = true
		p.socket.Close()
		r.mu.counts.lostPaths++
	}
}

// blackHole lets nothing through in either direction, or ends that.
func (r *relay) blackHole(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.hole = on
}

// counts is what happened to paths so far.
func (r *relay) counts() events {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.counts
}

// open makes the path of a client, nil when that fails. The caller holds mu.
func (r *relay) open(client netip.AddrPort) *path {
	if r.mu.closed || len(r.mu.paths) >= maxPaths {
		return nil
	}
	socket, err := listen()
	if err != nil {
		r.tb.Errorf("relay: %v", err)
		return nil
	}
	p := &path{client: client, socket: socket}
	r.mu.paths[client] = p
	r.mu.counts.opened++
	r.running.Go(func() { r.readServer(p) })
	return p
}

func (r *relay) readClients() {
	buffer := make([]byte, maxDatagram)
	for {
		n, from, err := r.front.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // of a datagram sent before, says the kernel
		}
		b := append([]byte(nil), buffer[:n]...)
		if p := r.pathOf(from, b); p != nil {
			r.up.take(p, b)
		}
		signal(r.handled)
	}
}

// pathOf finds or makes the path for a datagram of a client, and keeps the datagram on the
// tape; nil if it is not to pass.
func (r *relay) pathOf(client netip.AddrPort, b []byte) *path {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.record && r.mu.bytes+len(b) <= maxTape {
		r.mu.tape = append(r.mu.tape, taped{client, b})
		r.mu.bytes += len(b)
	}
	p := r.mu.paths[client]
	switch {
	case r.mu.hole:
		r.mu.counts.hole++
		return nil
	case p == nil || p.dead && beginsConnection(b):
		return r.open(client)
	case p.dead:
		r.mu.counts.deadPath++
		return nil
	}
	return p
}

// beginsConnection reports whether a datagram begins with an Initial packet (RFC 9000,
// section 17.2.2).
func beginsConnection(b []byte) bool {
	const longHeader, fixed, packetType = 0x80, 0x40, 0x30
	return len(b) > 0 && b[0]&(longHeader|fixed|packetType) == longHeader|fixed
}

// toServer sends a datagram from the port that its client has now.
func (r *relay) toServer(d datagram) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.mu.paths[d.path.client]
	if p == nil || p.dead || d.path.dead || r.mu.hole {
		return false
	}
	_, err := p.socket.WriteToUDPAddrPort(d.bytes, r.server)
	return err == nil
}

func (r *relay) readServer(p *path) {
	buffer := make([]byte, maxDatagram)
	for {
		n, from, err := p.socket.ReadFromUDPAddrPort(buffer)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil || from != r.server || !r.answersPass():
			continue
		}
		r.down.take(p, append([]byte(nil), buffer[:n]...))
	}
}

func (r *relay) answersPass() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.hole {
		r.mu.counts.hole++
	}
	return !r.mu.hole
}

// toClient hands over an answer. One that passed the NAT before a rebind still arrives.
func (r *relay) toClient(d datagram) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.path.dead || r.mu.hole {
		return false
	}
	_, err := r.front.WriteToUDPAddrPort(d.bytes, d.path.client)
	return err == nil
}
