package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
)

var kills = flag.Int("kills", 20, "how often TestKilled kills the program")

const (
	linesPerKill = 200
	ahead        = 50  // lines that the writer may be ahead of the topic, and a burst
	maxBurst     = 50  // lines
	rotateEvery  = 150 // lines, about
)

// A writer appends lines with numbers and rotates the file, as a program with a logger does.
type writer struct {
	t       *testing.T
	path    string
	file    *os.File
	n       int // lines that were written
	rotated int
}

func (w *writer) open() {
	w.t.Helper()
	f, err := os.OpenFile(w.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	w.file = f
}

func (w *writer) write(text string) {
	w.t.Helper()
	if _, err := w.file.WriteString(text); err != nil {
		w.t.Fatal(err)
	}
}

// burst appends some lines, some of them in two pieces, and rotates now and then.
func (w *writer) burst(lines int) {
	for range lines {
		w.n++
		text := strconv.Itoa(w.n) + "\n"
		if cut := rand.IntN(2 * len(text)); cut < len(text) {
			w.write(text[:cut])
			text = text[cut:]
		}
		w.write(text)
		if rand.IntN(rotateEvery) == 0 {
			w.rotate()
		}
	}
}

// rotate renames path.1 to path.2 and so on, the oldest first, and begins a new file. The next
// line goes into the old one yet, every other time: loggers hear of a rotation later.
func (w *writer) rotate() {
	w.t.Helper()
	for i := w.rotated; i >= 0; i-- {
		from := w.path
		if i > 0 {
			from += "." + strconv.Itoa(i)
		}
		if err := os.Rename(from, w.path+"."+strconv.Itoa(i+1)); err != nil {
			w.t.Fatal(err)
		}
	}
	w.rotated++
	if rand.IntN(2) == 0 {
		w.n++
		w.write(strconv.Itoa(w.n) + "\n")
	}
	if err := w.file.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.open()
}

// build builds the command.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tailfile")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// TestKilled kills the program in the middle of its work, again and again, while the file
// grows and is rotated. In the end the topic holds each line once and in order.
func TestKilled(t *testing.T) {
	total := *kills * linesPerKill
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute+time.Duration(*kills)*3*time.Second)
	defer cancel()
	s := servertest.Start(t)
	c := dial(t, s)
	if _, err := c.CreateTopic(ctx, "lines", sdk.TopicOptions{}); err != nil {
		t.Fatal(err)
	}
	consumer, err := c.Consumer("lines").Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	w := &writer{t: t, path: filepath.Join(t.TempDir(), "app.log")}
	w.open()
	defer func() { w.file.Close() }()
	binary := build(t)
	args := []string{"--server", s.URL(), "--name", "n", "--poll", "1ms"}
	start := func() (*exec.Cmd, *bytes.Buffer) {
		cmd, said := exec.CommandContext(ctx, binary, append(args, w.path)...), new(bytes.Buffer)
		cmd.Stdout, cmd.Stderr = said, said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, said
	}
	cmd, said := start()
	begin, killed, stored, due := time.Now(), 0, 0, 1+rand.IntN(linesPerKill)
	w.burst(maxBurst)
	for r, err := range consumer.Records(ctx) {
		if err != nil {
			t.Fatalf("%v, after %d lines and %d kills; the program said %s", err, stored, killed, said)
		}
		if stored++; string(r.Value) != strconv.Itoa(stored) {
			t.Errorf("%s is stored where %d should be, after %d kills", r.Value, stored, killed)
			break
		}
		if w.n < stored+ahead && (w.n < total || killed < *kills) {
			w.burst(1 + rand.IntN(maxBurst))
		}
		// What was sent and not seen here is less than ahead and two bursts: some kills strike a
		// program that has hardly begun, and most strike one that has sent something.
		if stored >= due && killed < *kills {
			cmd.Process.Kill()
			cmd.Wait()
			if said.Len() > 0 {
				t.Errorf("it said %s", said)
			}
			killed++
			due = stored + 1 + rand.IntN(2*linesPerKill)
			cmd, said = start()
		}
		if killed == *kills && w.n >= total && stored >= w.n {
			break
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	// Whatever is left: there must be nothing more, and nothing twice.
	out, err := exec.CommandContext(ctx, binary, append(args, "--exit-at-end", w.path)...).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "sent 0, appended 0, ") {
		t.Errorf("the last run: %v, %s", err, out)
	}
	if err := eachOnce(stringsOf(t, c), w.n); err != nil {
		t.Error(err)
	}
	t.Logf("%d lines, %d kills, %d rotations, %v", w.n, killed, w.rotated, time.Since(begin).Round(time.Millisecond))
}

// eachOnce says what is wrong with a topic that has to hold the numbers 1 to last.
func eachOnce(all []string, last int) error {
	for i, text := range all {
		if text != strconv.Itoa(i+1) {
			return fmt.Errorf("%d lines: %q stands where %d should", len(all), text, i+1)
		}
	}
	if len(all) != last {
		return fmt.Errorf("%d lines are stored, %d were written", len(all), last)
	}
	return nil
}

// TestCheckerIsNotBlind: a line that is doubled in the file, and one that is missing there,
// come to be so in the topic, and the checker sees it.
func TestCheckerIsNotBlind(t *testing.T) {
	for name, content := range map[string]string{"doubled": "1\n2\n2\n3\n", "missing": "1\n3\n", "at the end": "1\n2\n", "out of order": "1\n3\n2\n"} {
		f := newFixture(t)
		f.put("app.log", content)
		f.run()
		if eachOnce(f.stored(), 3) == nil {
			t.Errorf("%s: nobody sees it", name)
		}
	}
}
