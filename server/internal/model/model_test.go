package model

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/wire"
)

var (
	seconds = flag.Int("seconds", 15, "how long TestModel goes on with new seeds; a third of it with -short")
	firstOf = flag.Uint64("seed", 0, "the seed of the first world, and without -worlds of the only one; 0 for new ones")
	worlds  = flag.Int("worlds", 0, "how many worlds to make, whatever the time; 0 for as many as there is time for")
	shown   = flag.Int("trace", 150, "how many of the last lines of what happened are shown with a finding")
	length  = flag.Int("steps", 80, "how many steps a world lasts")
)

func init() {
	flag.DurationVar(&rawclient.Patience, "patience", rawclient.Patience, "how long to wait for what must come")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestModel makes one world after the other until the time is over or one is broken.
func TestModel(t *testing.T) {
	first, number := uint64(time.Now().UnixMicro()), *worlds
	if *firstOf != 0 {
		first, number = *firstOf, max(1, number)
	}
	run := campaign.Start(t, first)
	seen := newCoverage()
	patience := time.Duration(*seconds) * time.Second
	if testing.Short() {
		patience /= 3
	}
	end := time.Now().Add(patience)
	for n := 0; !t.Failed() && (n < number || number == 0 && time.Now().Before(end)); n++ {
		run.Count("worlds", 1)
		seed := first + uint64(n)
		t.Run(fmt.Sprint(seed), func(t *testing.T) { run.Count("steps", live(t, seed, seen)) })
	}
	t.Logf("\n%v", seen)
}

// live makes one world. It returns how many steps it lasted.
func live(t *testing.T, seed uint64, seen *coverage) int {
	w := newWorld(t, seed, seen)
	defer w.end()
	defer func() {
		if t.Failed() || !w.sound() {
			w.report(seed)
		}
	}()
	if w.rng.IntN(2) == 0 {
		w.crowd = startCrowd(w, crowdSize)
		defer func() { w.crowd.end() }()
	}
	for w.step < *length && w.sound() {
		w.next()
	}
	w.s.FreeDisk()
	w.crowd.end()
	w.crowd = nil
	w.last()
	if !w.mem && w.sound() {
		w.damage()
	}
	return w.step
}

// last reads everything again, before and after a restart, and settles what is left open.
func (w *world) last() {
	w.step++
	w.log("the end")
	for _, h := range w.holders {
		for p, l := range h.lanes {
			if w.sound() && len(l.batches) > 0 && !w.gone(p) {
				b := l.batches[w.rng.IntN(len(l.batches))]
				w.answerOfResolve(h, p, b, w.ask(w.resolveRequest(h, p, b, true)))
			}
		}
	}
	w.roomAgain()
	if w.sound() {
		w.stepRestart()
	}
	for _, p := range w.places() {
		w.read(p, 0)
	}
}

// roomAgain checks that newcomers find room when everybody has left, more than there is room
// for at a time: they write nothing. Until the server has noticed that the one before has
// left, they are refused, and ask again.
func (w *world) roomAgain() {
	w.collect()
	for _, s := range w.streams {
		s.end()
	}
	w.streams = nil
	w.leave()
	late := time.Now().Add(rawclient.Patience)
	for _, p := range w.places() {
		w.stepNewcomer()
		for came := 0; came <= maxProducers && w.sound(); {
			s := w.openLane(w.holders[len(w.holders)-1], p, 0, nil)
			if s == nil {
				return
			}
			s.settle()
			full := s.refusal != nil && s.refusal.Code == wire.CodeProducerLimitReached
			s.end()
			switch {
			case !full:
				came++
				w.stepNewcomer()
			case time.Now().After(late):
				w.t.Errorf("nobody has a lane in part %d, and there is no room: %v", p.part, s.refusal)
				return
			}
		}
	}
	w.streams = nil
}

func (w *world) gone(p place) bool {
	w.ref.mu.Lock()
	defer w.ref.mu.Unlock()
	return w.ref.at(p).gone
}

func (w *world) sound() bool {
	w.ref.mu.Lock()
	defer w.ref.mu.Unlock()
	return len(w.ref.broken) == 0
}

// report says what is wrong and how it came to be.
func (w *world) report(seed uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	trace := w.trace[max(0, len(w.trace)-*shown):]
	w.t.Errorf("the last of %d lines of what happened (in memory %v):\n%s\n\nfound:\n  %s\n\nagain: go test ./server/internal/model -run TestModel -seed %d\n",
		len(w.trace), w.mem, strings.Join(trace, "\n"), strings.Join(w.ref.broken, "\n  "), seed)
}

// TestReferenceIsSmall keeps the reference small enough to be checked by eye.
func TestReferenceIsSmall(t *testing.T) {
	b, err := os.ReadFile("reference_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), "\n"); n > 300 {
		t.Errorf("the reference has %d lines, more than 300", n)
	}
}
