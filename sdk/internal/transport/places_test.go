package transport

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestHome(t *testing.T) {
	var conns [4]*Conn
	for i := range conns {
		conns[i] = new(Conn)
	}
	// A letter a place: c has a connection, e expects one, - has none.
	tests := []struct {
		name, places string
		want         [8]int // the place for each key; -1 for none yet
	}{
		{"a single connection has everything", "c", [8]int{0, 0, 0, 0, 0, 0, 0, 0}},
		{"a single one that is awaited", "e", [8]int{-1, -1, -1, -1, -1, -1, -1, -1}},
		{"keys in a row are on connections in a row", "cccc", [8]int{0, 1, 2, 3, 0, 1, 2, 3}},
		{"one that is expected is waited for", "cecc", [8]int{0, -1, 2, 3, 0, -1, 2, 3}},
		{"the work of one that is away spreads", "c-cc", [8]int{0, 0, 2, 3, 0, 2, 2, 3}},
		{"the first one back does not get all", "ecee", [8]int{-1, 1, -1, -1, -1, 1, -1, -1}},
		{"the only one left gets all", "--c-", [8]int{2, 2, 2, 2, 2, 2, 2, 2}},
		{"none", "----", [8]int{-1, -1, -1, -1, -1, -1, -1, -1}},
		{"none, and some are expected", "-e-e", [8]int{-1, -1, -1, -1, -1, -1, -1, -1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			places := make([]place, len(tt.places))
			for i, letter := range tt.places {
				switch letter {
				case 'c':
					places[i].conn = conns[i]
				case 'e':
					places[i].expected = true
				}
			}
			for key, want := range tt.want {
				var conn *Conn
				if want >= 0 {
					conn = conns[want]
				}
				if got := home(places, uint64(key)); got != conn {
					t.Errorf("key %d is elsewhere", key)
				}
			}
		})
	}
}

func TestTurnsGoThroughAllConnections(t *testing.T) {
	places := make([]place, 5)
	for _, i := range []int{0, 2, 4} {
		places[i].conn = new(Conn)
	}
	for turn, want := range []int{0, 2, 4, 0, 2, 4} {
		if next(places, uint64(turn)) != places[want].conn {
			t.Errorf("turn %d is not that of place %d", turn, want)
		}
	}
}

// TestFirstOneBackHurriesTheOthers: only after a time without any connection.
func TestFirstOneBackHurriesTheOthers(t *testing.T) {
	m := newManager(Config{Connections: 3})
	defer m.Close()
	pauses := make([]context.Context, 3)
	for i := range pauses {
		ctx, cancel := context.WithCancelCause(m.ctx)
		defer cancel(nil)
		pauses[i] = ctx
		if m.begin(i, cancel) {
			t.Fatal("hurried before there was a connection")
		}
	}
	m.end(2) // between two attempts
	state := func() (s string) {
		for _, p := range m.mu.places {
			s += fmt.Sprintf("%v,%v ", p.expected, p.hurried)
		}
		return s
	}
	m.put(0, new(Conn), false)
	if got, want := state(), "false,false true,true true,true "; got != want {
		t.Errorf("expected, hurried: %s, want %s", got, want)
	}
	if pauses[0].Err() != nil || !errors.Is(context.Cause(pauses[1]), errHurry) || pauses[2].Err() != nil {
		t.Error("not the pause of the second one was ended, and it alone")
	}
	m.unexpected(2) // what failed was begun before the server was back
	if got, want := state(), "false,false true,true true,true "; got != want {
		t.Errorf("after a failure: expected, hurried: %s, want %s", got, want)
	}
	if !m.end(1) || m.end(1) {
		t.Error("the attempt of the second one was not hurried, once")
	}
	if _, cancel := context.WithCancelCause(m.ctx); !m.begin(2, cancel) || m.begin(2, cancel) {
		t.Error("the next attempt of the third one is not hurried, once")
	}
	m.unexpected(1)
	m.put(2, new(Conn), false)
	if got, want := state(), "false,false false,false false,false "; got != want {
		t.Errorf("at the end: expected, hurried: %s, want %s", got, want)
	}
}

// TestFreshAttemptIsNotHurried: it reaches the server by itself, and begun anew it would
// only take longer.
func TestFreshAttemptIsNotHurried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(Config{Connections: 3})
		defer m.Close()
		_, cancel := context.WithCancelCause(m.ctx)
		m.begin(1, cancel)
		m.dials(1)
		time.Sleep(freshAttempt / 2)
		m.begin(2, cancel)
		m.dials(2)
		time.Sleep(freshAttempt / 2)
		m.put(0, new(Conn), false)
		if !m.end(1) || m.end(2) {
			t.Error("not the old attempt was hurried, and it alone")
		}
		if !m.mu.places[1].expected || !m.mu.places[2].expected {
			t.Error("both are expected")
		}
	})
}

// TestWaitForAPlaceEnds: work goes elsewhere when an attempt takes long.
func TestWaitForAPlaceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(Config{Connections: 2})
		defer m.Close()
		only := new(Conn)
		m.put(0, only, false) // the other one is expected from here on
		m.begin(1, func(error) {})
		defer m.expectFor(1, time.Minute).Stop()
		begin := time.Now()
		conn, err := m.WaitHome(t.Context(), 1)
		if conn != only || err != nil || time.Since(begin) != time.Minute {
			t.Errorf("another connection %v, %v, after %v", conn != only, err, time.Since(begin))
		}
	})
}
