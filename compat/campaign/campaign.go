package campaign

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

var ledger = flag.String("ledger", "", "append what campaigns did to this file, an absolute path, one JSON object a line")

// A Line is what the ledger says of one run.
type Line struct {
	Time    time.Time      `json:"time"` // of its end
	What    string         `json:"what"` // the name of the test
	Commit  string         `json:"commit"`
	Seeds   []uint64       `json:"seeds,omitempty"`
	Counts  map[string]int `json:"counts"`
	Seconds float64        `json:"seconds"`
	Verdict string         `json:"verdict"` // passed, failed or skipped
}

// A Run is a campaign on its way. It is safe for concurrent use.
type Run struct {
	mu     sync.Mutex
	counts map[string]int
}

// Start begins a run with the seeds that make it happen again. When the test ends, its
// line goes to the ledger.
func Start(t testing.TB, seeds ...uint64) *Run {
	r := &Run{counts: make(map[string]int)}
	begin := time.Now()
	t.Cleanup(func() {
		if *ledger == "" {
			return
		}
		line := Line{Time: time.Now().UTC(), What: t.Name(), Commit: commit(), Seeds: seeds, Counts: r.counts, Seconds: time.Since(begin).Seconds(), Verdict: verdict(t)}
		if err := appendLine(*ledger, line); err != nil {
			t.Errorf("ledger: %v", err)
		}
	})
	return r
}

// Count adds to one of the numbers of the line.
func (r *Run) Count(name string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[name] += n
}

func verdict(t testing.TB) string {
	switch {
	case t.Failed():
		return "failed"
	case t.Skipped():
		return "skipped"
	}
	return "passed"
}

// commit is the one that is checked out, with a mark if files differ from it.
var commit = sync.OnceValue(func() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
})

// appendLine writes the line at once: test binaries of several packages share the file.
func appendLine(name string, l Line) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Close())
}
