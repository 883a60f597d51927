package network

import (
	"errors"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// replayRate is how many datagrams of a tape are played a second: a burst would be lost in
// front of the server, and nobody would know.
const replayRate = 3000

// record begins a new tape, or ends the one that runs.
func (r *relay) record(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if on {
		r.mu.tape, r.mu.bytes = nil, 0
	}
	r.mu.record = on
}

func (r *relay) tape() []taped {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.tape
}

// replay sends what is on the tape again, each datagram from the port that its client has
// now.
func (r *relay) replay() (sent int) {
	limiter := rate.NewLimiter(replayRate, 10)
	ctx := waiting(r.tb)
	for _, d := range r.tape() {
		if err := limiter.Wait(ctx); err != nil {
			r.tb.Fatal(err)
		}
		if r.toServer(datagram{path: &path{client: d.client}, bytes: d.bytes}) {
			sent++
		}
	}
	return sent
}

// replayAsStranger sends what is on the tape again, from a port that no client had, and
// says how many answers came there.
func (r *relay) replayAsStranger() (sent, answers int) {
	socket, err := listen()
	if err != nil {
		r.tb.Fatal(err)
	}
	var answered atomic.Int64
	first, done := make(chan struct{}, 1), make(chan struct{})
	go func() { // ends when the socket is closed below, and is waited for
		defer close(done)
		buffer := make([]byte, maxDatagram)
		for {
			if _, _, err := socket.ReadFromUDPAddrPort(buffer); errors.Is(err, net.ErrClosed) {
				return
			} else if err == nil {
				answered.Add(1)
				signal(first)
			}
		}
	}()
	limiter := rate.NewLimiter(replayRate, 10)
	ctx := waiting(r.tb)
	for _, d := range r.tape() {
		if err := limiter.Wait(ctx); err != nil {
			r.tb.Fatal(err)
		}
		if _, err := socket.WriteToUDPAddrPort(d.bytes, r.server); err == nil {
			sent++
		}
	}
	select {
	case <-first:
	case <-time.After(time.Second): // no answer is a result too
	}
	socket.Close()
	<-done
	return sent, int(answered.Load())
}
