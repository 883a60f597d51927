package transport

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A runner is an entrant of a test: it wins, fails or finds others after a time; with a
// time of zero it does not until ctx ends.
type runner struct {
	name     string
	after    time.Duration
	fails    bool
	stubborn bool // it goes on though ctx ended
	finds    []runner
}

// A course notes what happens on it, with the time since its begin.
type course struct {
	begin time.Time
	note  chan string
}

func (c *course) say(what, name string) {
	c.note <- fmt.Sprintf("%s %s at %d", what, name, time.Since(c.begin).Milliseconds())
}

func (c *course) entrants(runners []runner) []entrant[string] {
	var all []entrant[string]
	for _, r := range runners {
		all = append(all, c.entrant(r))
	}
	return all
}

func (c *course) entrant(r runner) entrant[string] {
	return func(ctx context.Context) (string, []entrant[string], error) {
		c.say("start", r.name)
		timeout := r.after
		if timeout == 0 {
			timeout = time.Hour
		}
		if r.stubborn {
			ctx = context.WithoutCancel(ctx)
		}
		switch ended := !sleep(ctx, timeout); {
		case ended:
			c.say("stop", r.name)
			return "", nil, errors.New(r.name + " was stopped")
		case r.fails:
			return "", nil, errors.New(r.name + " failed")
		}
		return r.name, c.entrants(r.finds), nil
	}
}

func TestRace(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name    string
		runners []runner
		patient time.Duration // of the caller; 0 for ever
		want    string        // events, in their order
		won     string        // or the error
	}{
		{"one that answers soon is alone", []runner{{name: "a", after: 100 * ms}, {name: "b", after: ms}}, 0,
			"start a at 0", "a at 100"},
		{"a silent one does not hold up the next", []runner{{name: "a"}, {name: "b", after: 30 * ms}}, 0,
			"start a at 0, start b at 250, stop a at 280", "b at 280"},
		{"each waits for the one before it", []runner{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d", after: ms}}, 0,
			"start a at 0, start b at 250, start c at 500, start d at 750, stop * at 751, stop * at 751, stop * at 751", "d at 751"},
		{"a failure makes room at once", []runner{{name: "a", after: 10 * ms, fails: true}, {name: "b", after: 10 * ms, fails: true},
			{name: "c", after: 5 * ms}}, 0, "start a at 0, start b at 10, start c at 20", "c at 25"},
		{"a slow first one still wins", []runner{{name: "a", after: 300 * ms}, {name: "b", after: 100 * ms}}, 0,
			"start a at 0, start b at 250, stop b at 300", "a at 300"},
		{"the second to win is given back", []runner{{name: "a", after: 300 * ms, stubborn: true}, {name: "b", after: 20 * ms}}, 0,
			"start a at 0, start b at 250, lose a at 300", "b at 300"},
		{"what a host has found takes its turn", []runner{{name: "h", after: ms, finds: []runner{{name: "h1"}, {name: "h2", after: ms}}},
			{name: "i"}}, 0, "start h at 0, start h1 at 1, start i at 251, start h2 at 501, stop * at 502, stop * at 502", "h2 at 502"},
		{"a host that is not found in time", []runner{{name: "h"}, {name: "i", after: ms, finds: []runner{{name: "i1", after: ms}}}}, 0,
			"start h at 0, start i at 250, start i1 at 251, stop h at 252", "i1 at 252"},
		{"errors have the order of the start", []runner{{name: "a", after: 400 * ms, fails: true}, {name: "b", after: ms, fails: true}}, 0,
			"start a at 0, start b at 250", "a failed; b failed at 400"},
		{"a single error stands alone", []runner{{name: "a", after: ms, fails: true}}, 0, "start a at 0", "a failed at 1"},
		{"nobody starts when the time is over", []runner{{name: "a"}, {name: "b"}, {name: "c"}}, 300 * ms,
			"start a at 0, start b at 250, stop * at 300, stop * at 300", "a was stopped; b was stopped at 300"},
		{"what was found too late is tried for its error", []runner{{name: "h", after: 20 * ms, stubborn: true, finds: []runner{{name: "h1"},
			{name: "h2"}}}, {name: "i"}}, 10 * ms, "start h at 0, start h1 at 20, stop h1 at 20", "h1 was stopped at 20"},
		{"without any time there is an error", []runner{{name: "a"}, {name: "b"}}, -1, "start a at 0, stop a at 0", "a was stopped at 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &course{begin: time.Now(), note: make(chan string, 100)}
				ctx := context.Background()
				if tt.patient != 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.patient)
					defer cancel()
				}
				won, err := race(ctx, c.entrants(tt.runners), func(s string) { c.say("lose", s) })
				if err != nil {
					won = strings.ReplaceAll(err.Error(), "\n", "; ")
				}
				won += fmt.Sprintf(" at %d", time.Since(c.begin).Milliseconds())
				if won != tt.won {
					t.Errorf("won: %s, want %s", won, tt.won)
				}
				c.compare(t, strings.Split(tt.want, ", "))
			})
		})
	}
}

// compare compares the notes; a star in what is wanted stands for any name.
func (c *course) compare(t *testing.T, want []string) {
	t.Helper()
	close(c.note)
	var got []string
	for s := range c.note {
		got = append(got, s)
	}
	same := func(want, got string) bool {
		w, g := strings.Fields(want), strings.Fields(got)
		return w[0] == g[0] && (w[1] == "*" || w[1] == g[1]) && w[3] == g[3]
	}
	if !slices.EqualFunc(want, got, same) {
		t.Errorf("happened: %v, want %v", got, want)
	}
}

func TestOrderOfAddresses(t *testing.T) {
	tests := []struct{ name, last, given, want string }{
		{"the versions take turns", "", "2001:db8::1 2001:db8::2 192.0.2.1 192.0.2.2", "2001:db8::1 192.0.2.1 2001:db8::2 192.0.2.2"},
		{"the version of the first goes first", "", "192.0.2.1 192.0.2.2 2001:db8::1", "192.0.2.1 2001:db8::1 192.0.2.2"},
		{"loopback of version 4 before all", "", "::1 127.0.0.1", "127.0.0.1 ::1"},
		{"the last one that answered before all", "::1", "127.0.0.1 ::1", "::1 127.0.0.1"},
		{"the last one is not there any more", "192.0.2.9", "192.0.2.1 192.0.2.2", "192.0.2.1 192.0.2.2"},
		{"each once, however it is written", "", "192.0.2.1 ::ffff:192.0.2.1 192.0.2.1", "192.0.2.1"},
		{"one version only", "", "2001:db8::2 2001:db8::1", "2001:db8::2 2001:db8::1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var given []netip.Addr
			for _, s := range strings.Fields(tt.given) {
				given = append(given, netip.MustParseAddr(s))
			}
			var last netip.Addr
			if tt.last != "" {
				last = netip.MustParseAddr(tt.last)
			}
			var got []string
			for _, ip := range inOrder(given, last) {
				got = append(got, ip.String())
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("got %s, want %s", s, tt.want)
			}
		})
	}
}

func TestFarTooManyAddressesAreCutOff(t *testing.T) {
	var given []netip.Addr
	for i := range 1000 {
		given = append(given, netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}))
	}
	if got := inOrder(given, given[999]); len(got) != maxAddresses || got[0] != given[999] {
		t.Errorf("%d addresses, first %v", len(got), got[0])
	}
}
