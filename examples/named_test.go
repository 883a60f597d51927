package examples

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

var kills = flag.Int("kills", 5, "how often TestNamedIsKilled kills the program")

const (
	numbersASecond = 20_000
	numbersPerKill = 4000 // more than are sent from a start to its kill
	longestLife    = 150 * time.Millisecond
)

// TestNamedIsKilled: kill -9 at random moments, five times or as -kills says, with the
// server elsewhere or in the process that is killed. The topic has each number once and in
// order, whatever the moments were.
func TestNamedIsKilled(t *testing.T) {
	for name, serverFlags := range map[string]func(t *testing.T) []string{
		"the server is elsewhere": func(t *testing.T) []string {
			return []string{"--server", servertest.Start(t).URL()}
		},
		"the server dies with it": func(t *testing.T) []string {
			return []string{"--data", filepath.Join(t.TempDir(), "data")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, to := serverFlags(t), fmt.Sprint(numbersPerKill*(*kills+1))
			args := append([]string{"--outbox", filepath.Join(t.TempDir(), "box"), "--to", to, "--rate", fmt.Sprint(numbersASecond)}, server...)
			for i := range *kills {
				killNamed(t, i%2 == 0, args)
			}
			r := mustRun(t, "named", t.TempDir(), append(args, "--rate", "0")...)
			if !strings.Contains(r.out, fmt.Sprintf("read back %s records: the numbers 1 to %[1]s, each once and in order", to)) || r.err != "" {
				t.Errorf("the last run: %+v", r)
			}
			wantNumbers(t, numbersPerKill*(*kills+1), server...)
		})
	}
}

// killNamed starts the program and kills it at a random moment: of its start, or of its
// counting.
func killNamed(t *testing.T, counting bool, args []string) {
	t.Helper()
	cmd := program(t, "named", t.TempDir(), args...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(stdout)
	said := ""
	if counting {
		said = readTo(t, out, "going on with ", "nothing is missing")
	}
	life := rand.N(longestLife)
	<-time.After(life) // the moment is what the test varies; it waits for nothing
	kill(cmd)
	t.Logf("killed %v later; it had said\n%s", life, said)
}

// kill is kill -9.
func kill(cmd *exec.Cmd) {
	cmd.Process.Kill()
	cmd.Wait()
}

// readTo reads up to a line that begins in one of these ways, and returns all lines.
func readTo(t *testing.T, out *bufio.Reader, prefixes ...string) string {
	t.Helper()
	said := ""
	for {
		line, err := out.ReadString('\n')
		said += line
		for _, prefix := range prefixes {
			if strings.HasPrefix(line, prefix) {
				return said
			}
		}
		if err != nil {
			t.Fatalf("no line %q: %v, in\n%s", prefixes, err, said)
		}
	}
}

// wantNumbers reads the topic with another program, and trusts nothing that named says.
func wantNumbers(t *testing.T, to int, server ...string) {
	t.Helper()
	var want bytes.Buffer
	for n := 1; n <= to; n++ {
		fmt.Fprintln(&want, n)
	}
	r := mustRun(t, "tail", t.TempDir(), append([]string{"--topic", "numbers"}, server...)...)
	if r.out == want.String() {
		return
	}
	got, wanted := strings.Split(r.out, "\n"), strings.Split(want.String(), "\n")
	for i := range min(len(got), len(wanted)) {
		if got[i] != wanted[i] {
			t.Fatalf("offset %d has %q, want %q; %d records, want %d", i, got[i], wanted[i], len(got)-1, to)
		}
	}
	t.Fatalf("%d records, want %d", len(got)-1, to)
}

// killWithBatchUnderWay kills the program while a batch of it is under way, which arrives
// or does not. Of the numbers from 11 on there is at least one in its outbox then.
func killWithBatchUnderWay(t *testing.T, s *servertest.Server, arrives bool, args []string) {
	t.Helper()
	release := func() {}
	if arrives {
		_, release = s.HoldSync() // it is appended and not acknowledged
	}
	over := make(chan struct{})
	var once sync.Once
	s.HookFrames(servertest.FrameHooks{
		Start: func(in bool, kind wire.Kind, _ int) int {
			if !in || kind != wire.KindProduce || arrives {
				return -1
			}
			once.Do(func() { close(over) })
			return 0 // the connection breaks before the first byte
		},
		End: func(in bool, m wire.Message) bool {
			if _, ok := m.(*wire.Produce); ok && in && arrives {
				once.Do(func() { close(over) })
			}
			return false
		},
	})
	cmd := program(t, "named", t.TempDir(), args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-over
	kill(cmd)
	release()
	s.HookFrames(servertest.FrameHooks{})
}

// TestNamedSendsItsOutbox: what a killed run had under way is found, sent again as it was,
// and stored once, whether it had arrived or not.
func TestNamedSendsItsOutbox(t *testing.T) {
	found := regexp.MustCompile(`\noutbox: [1-9]\d* batches with [1-9]\d* records are sent again, 0 unknown batches are settled\n` +
		`settled: sequences 10 to \d+ are stored at offset 10\n`)
	for name, arrives := range map[string]bool{"it had arrived": true, "it had not arrived": false} {
		t.Run(name, func(t *testing.T) {
			s := servertest.Start(t)
			args := []string{"--server", s.URL(), "--rate", "0", "--outbox", filepath.Join(t.TempDir(), "box"), "--to"}
			mustRun(t, "named", t.TempDir(), append(args, "10")...)
			killWithBatchUnderWay(t, s, arrives, append(args, "30"))
			r := mustRun(t, "named", t.TempDir(), append(args, "40")...)
			if !found.MatchString(r.out) || !strings.HasSuffix(r.out, " from 3 runs\n") || r.err != "" {
				t.Errorf("got %+v", r)
			}
			wantNumbers(t, 40, "--server", s.URL())
		})
	}
}

// TestNamedWithAStaleOutbox: another outbox was used since the kill, and its numbers took
// the sequences of the batch that was under way. That batch is not stored any more: its
// numbers are.
func TestNamedWithAStaleOutbox(t *testing.T) {
	s := servertest.Start(t)
	boxes := t.TempDir()
	args := func(box, to string) []string {
		return []string{"--server", s.URL(), "--rate", "0", "--outbox", filepath.Join(boxes, box), "--to", to}
	}
	mustRun(t, "named", boxes, args("first", "10")...)
	killWithBatchUnderWay(t, s, false, args("first", "30"))
	mustRun(t, "named", boxes, args("second", "50")...)
	r := finish(t, program(t, "named", boxes, args("first", "60")...))
	if !regexp.MustCompile(`\nsettled: sequences 10 to \d+ are not stored\n`).MatchString(r.out) || !strings.Contains(r.out, "\ngoing on with 51\n") {
		t.Errorf("with the stale outbox: %+v", r)
	}
	mustRun(t, "named", boxes, args("second", "60")...)
	wantNumbers(t, 60, "--server", s.URL())
}
