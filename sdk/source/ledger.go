package source

import (
	"bytes"
	"sync"
)

// An entry is an item that was sent.
type entry struct {
	position Position // never written to
	records  int64
}

// A ledger is what a run sent and what is certain of it. Items are stored in the order in
// which they were sent, so one position says what became of all of them.
type ledger struct {
	mu struct {
		sync.Mutex
		items int64    // that are certainly stored
		last  Position // of the last one of them, or where the run began
		sent  []entry  // behind that
	}
}

// begin sets where the run begins.
func (l *ledger) begin(at Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.last = at
}

// stored is how many items are certainly stored.
func (l *ledger) stored() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.items
}

// position is behind the last item that is certainly stored.
func (l *ledger) position() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.last
}

// next is the number of the item that is sent next, from 1, and the position in front of it.
func (l *ledger) next() (number int64, before Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	number, before = l.mu.items+int64(len(l.mu.sent))+1, l.mu.last
	if n := len(l.mu.sent); n > 0 {
		before = l.mu.sent[n-1].position
	}
	return number, before
}

// add notes an item that is about to be sent, takeBack that it was not.
func (l *ledger) add(e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.sent = append(l.mu.sent, e)
}

func (l *ledger) takeBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.sent = l.mu.sent[:len(l.mu.sent)-1]
}

// oldest is the first item that was sent and is not certain, and its number.
func (l *ledger) oldest() (int64, entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.items + 1, l.mu.sent[0]
}

// confirm notes that the oldest one is stored.
func (l *ledger) confirm() entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.mu.sent[0]
	l.mu.sent[0] = entry{} // the array lives on
	l.mu.items, l.mu.last, l.mu.sent = l.mu.items+1, e.position, l.mu.sent[1:]
	return e
}

// knows reports whether a server that stored nothing but what was sent can have this position.
func (l *ledger) knows(at Position) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := place(l.mu.last, l.mu.sent, at)
	return ok
}

// settle makes certain what was sent, by the position that the server has: it returns what is
// stored, and forgets the rest, which is not and never will be. It is not ok, and changes
// nothing, when the position is not one of them.
func (l *ledger) settle(at Position) (stored []entry, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, ok := place(l.mu.last, l.mu.sent, at)
	if !ok {
		return nil, false
	}
	stored = l.mu.sent[:n]
	if n > 0 {
		l.mu.items, l.mu.last = l.mu.items+int64(n), stored[n-1].position
	}
	l.mu.sent = nil
	return stored, true
}

// place is how many of the items that were sent are stored when the server has this position.
// It must be that of one of them, or the last that is certain.
func place(last Position, sent []entry, at Position) (n int, ok bool) {
	if bytes.Equal(at, last) {
		return 0, true
	}
	for i := range sent {
		if bytes.Equal(at, sent[i].position) {
			return i + 1, true
		}
	}
	return 0, false
}
