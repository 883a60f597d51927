package main

import (
	"fmt"
	"io"
	"sync"

	"github.com/quoin-io/quoin/sdk"
)

// notes are what a long command says on stderr, from several goroutines.
type notes struct {
	mu        sync.Mutex
	w         io.Writer
	connected bool // the connection was made once
	unsaid    bool // it is lost, and the line about its return is owed
	progress  bool // a line of progress stands on the terminal
}

// printf writes a whole line, in the place of a line of progress.
func (n *notes) printf(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.erase()
	fmt.Fprintf(n.w, format+"\n", args...)
}

// show writes a line of progress in the place of the one before; w must be a terminal.
func (n *notes) show(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.erase()
	fmt.Fprint(n.w, text)
	n.progress = true
}

func (n *notes) erase() {
	if n.progress {
		fmt.Fprint(n.w, "\r\x1b[K")
	}
	n.progress = false
}

// event tells of outages, so that a command that waits for its server is not silent.
func (n *notes) event(e sdk.Event) {
	switch e.Kind {
	case sdk.EventDisconnected:
		n.unsaid = true
		n.printf("the connection is lost, connecting again: %v", e.Err)
	case sdk.EventConnected:
		if n.connected && n.unsaid {
			n.printf("connected again to %s", e.Addr)
		}
		n.connected, n.unsaid = true, false
	}
}
