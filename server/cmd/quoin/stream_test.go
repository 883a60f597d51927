package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
)

// withTopic starts a server with topic t.
func withTopic(t *testing.T, partitions int) (*servertest.Server, context.Context, *sdk.Client) {
	t.Helper()
	s := servertest.Start(t)
	ctx, c := connect(t, s)
	if _, err := c.CreateTopic(ctx, "t", sdk.TopicOptions{Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	return s, ctx, c
}

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A child is the command in a process of its own, which can be sent signals.
type child struct {
	*exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer // may be read after exit
}

func start(t *testing.T, args ...string) *child {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	c := &child{Cmd: exec.CommandContext(ctx, os.Args[0])}
	c.Args = append([]string{"quoin"}, args...) // testscript.Main goes by the name
	c.Stderr = &c.stderr
	in, err := c.StdinPipe()
	out, outErr := c.StdoutPipe()
	if err := errors.Join(err, outErr, c.Start()); err != nil {
		t.Fatal(err)
	}
	c.in, c.out = in, bufio.NewReader(out)
	return c
}

// end interrupts the command, and returns the rest of its output and its exit code.
func (c *child) end(t *testing.T) (string, int) {
	t.Helper()
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(c.out)
	if err != nil {
		t.Error(err)
	}
	c.Wait() // its error is the exit code
	return string(rest), c.ProcessState.ExitCode()
}

// A record is printed before the next one comes, and an interrupt ends it in order.
func TestConsumeFollowsAndIsInterrupted(t *testing.T) {
	s, ctx, c := withTopic(t, 1)
	p := send(t, ctx, c, "t")
	cmd := start(t, "consume", "t", "-f", `%v\n`, "--url", s.URL())
	for _, want := range []string{"hello\n", "again\n"} {
		if got, err := cmd.out.ReadString('\n'); err != nil || got != want {
			t.Fatalf("%q, %v, want %q; %s", got, err, want, &cmd.stderr)
		}
		if _, err := p.Send(ctx, sdk.Record{Value: []byte("again")}); err != nil {
			t.Fatal(err)
		}
	}
	rest, code := cmd.end(t)
	if code != exitInterrupted || rest != "again\n" && rest != "" || cmd.stderr.String() != "quoin: interrupted\n" {
		t.Errorf("exit code %d, rest %q, stderr %q", code, rest, &cmd.stderr)
	}
}

// What was read before an interrupt is delivered, although the input goes on.
func TestProduceIsInterrupted(t *testing.T) {
	s, ctx, c := withTopic(t, 1)
	consumer, err := c.Consumer("t").Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	cmd := start(t, "produce", "t", "--url", s.URL())
	if _, err := io.WriteString(cmd.in, "one\ntwo\nthr"); err != nil {
		t.Fatal(err)
	}
	for r, err := range consumer.Records(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Offset == 1 {
			break // so both have come through, and the third line has no end
		}
	}
	_, code := cmd.end(t)
	want := "sent 2, appended 2, duplicates 0, failed 0\nquoin: interrupted\n"
	if code != exitInterrupted || cmd.stderr.String() != want {
		t.Errorf("exit code %d, stderr %q, want %q", code, &cmd.stderr, want)
	}
}

// A lost acknowledgement makes a duplicate of the retry, and the outage is told.
func TestProduceCountsDuplicates(t *testing.T) {
	s, _, _ := withTopic(t, 1)
	s.DropAck(1)
	stdout, stderr := ask(t, s, 0, "produce", "t", write(t, "one\n"))
	if stdout != "" || !strings.HasPrefix(stderr, "the connection is lost, connecting again: ") ||
		!strings.HasSuffix(stderr, "sent 1, appended 0, duplicates 1, failed 0\n") || !strings.Contains(stderr, "connected again to 127.0.0.1:") {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
}

// While the disk holds the sync nobody can say what becomes of a record: the exit code is
// 6, and the token that was kept tells it later.
func TestProduceWithAnUnknownOutcome(t *testing.T) {
	s, _, _ := withTopic(t, 1)
	input, tokens := write(t, "one\n"), filepath.Join(t.TempDir(), "tokens")
	_, release := s.HoldSync()
	_, stderr := ask(t, s, exitPartial, "produce", "t", input, "--timeout", "300ms", "--tokens", tokens)
	for _, want := range []string{
		", line 1: sdk: produce \"t\" partition 0: outcome unknown (", "reading stops here",
		"the tokens of 1 batches with an unknown outcome are in ",
		"sent 1, appended 0, duplicates 0, failed 0, unknown 1\nquoin: of 1 records it is unknown whether they are stored\n",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr %q, want %q", stderr, want)
		}
	}
	text, err := os.ReadFile(tokens)
	if err != nil || strings.Contains(stderr, strings.TrimSpace(string(text))) {
		t.Fatalf("%v, or the secret is on stderr: %q", err, stderr)
	}
	if info, err := os.Stat(tokens); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	stdout, stderr := ask(t, s, exitPartial, "produce", "t", input, "--timeout", "300ms", "-o", "json")
	shown := regexp.MustCompile(`\nunknown: t/0, sequences 0-0, token (qt1\.\S+)\nsent 1, `).FindStringSubmatch(stderr)
	if shown == nil || stdout != `{"sent":1,"appended":0,"duplicates":0,"failed":0,"unknown":1,"tokens":["`+shown[1]+`"]}`+"\n" {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
	release()
	stdout, _ = ask(t, s, 0, "producer", "resolve", "--settle", "--yes", strings.TrimSpace(string(text)))
	if !strings.Contains(stdout, "outcome\tstored\noffset\t0\n") {
		t.Errorf("stdout %q", stdout)
	}
}

// Damage is not passed over: what stands before it is printed, and the exit code is 7.
func TestConsumeOfDamage(t *testing.T) {
	for _, err := range []error{
		&sdk.CorruptBatchError{Topic: "t", Err: errors.New("checksum")},
		&sdk.GapError{Topic: "t", Expected: 1, Got: 2},
	} {
		if code := exitCode(answer(damaged(err))); code != exitVerification {
			t.Errorf("%v: exit code %d", err, code)
		}
	}
}

func TestVerdictOfAProduce(t *testing.T) {
	first := notFoundError{errors.New("gone")}
	broken := errors.New("broken")
	for _, row := range []struct {
		name        string
		t           tally
		interrupted bool
		input       error
		want        int
	}{
		{"nothing came", tally{}, false, nil, 0},
		{"all are stored", tally{Sent: 2, Appended: 1, Duplicates: 1}, false, nil, 0},
		{"interrupted", tally{Sent: 1, Unknown: 1}, true, nil, exitInterrupted},
		{"one is unknown", tally{Sent: 2, Appended: 1, Unknown: 1}, false, nil, exitPartial},
		{"unknown beside failed", tally{Sent: 2, Failed: 1, Unknown: 1}, false, nil, exitPartial},
		{"some failed beside a duplicate", tally{Sent: 2, Duplicates: 1, Failed: 1}, false, nil, exitPartial},
		{"all failed", tally{Sent: 2, Failed: 2}, false, broken, exitNotFound},
		{"the input broke off", tally{Sent: 1, Appended: 1}, false, broken, exitPartial},
		{"the input could not be read", tally{}, false, broken, exitOther},
	} {
		got := 0
		if err := row.t.verdict(row.interrupted, first, row.input); err != nil {
			got = exitCode(err)
		}
		if got != row.want {
			t.Errorf("%s: exit code %d, want %d", row.name, got, row.want)
		}
	}
}

// A failure that is not of the record itself ends the reading, so that an endless input
// does not fail endlessly.
func TestProduceStopsWhenTheTopicIsGone(t *testing.T) {
	var note strings.Builder
	d := newDeliveries(t.Context(), &notes{w: &note})
	defer d.stop(nil)
	at := inputPlace{"stdin", "line", 1}
	d.settle(at, sdk.Ack{}, &sdk.RecordTooLargeError{Bytes: 2, Limit: 1})
	d.settle(at, sdk.Ack{}, fmt.Errorf("record: %w", &batchfmt.FormatError{Field: "record timestamp"}))
	if d.reading.Err() != nil {
		t.Error("a record that is wrong in itself has stopped it")
	}
	d.settle(at, sdk.Ack{}, &sdk.NotStored{Topic: "t", Cause: sdk.ErrUnknownTopic})
	if d.reading.Err() == nil || !strings.HasSuffix(note.String(), "reading stops here: what follows is not sent\n") {
		t.Errorf("it goes on: %q", note.String())
	}
}

func TestProgressGivesWayToNotes(t *testing.T) {
	var out strings.Builder
	n := &notes{w: &out}
	n.show("sent 1")
	n.show("sent 2")
	n.printf("done")
	n.printf("really")
	if want := "sent 1\r\x1b[Ksent 2\r\x1b[Kdone\nreally\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestSplitter(t *testing.T) {
	long := strings.Repeat("x", 20)
	for _, row := range []struct {
		name, in, want string
	}{
		{"nothing", "", ""},
		{"the last has an end", "a\nb\n", "a|b|"},
		{"the last has no end", "a\nb", "a|b|"},
		{"empty ones", "\n\na", "||a|"},
		{"as long as it may be", long[:18] + "\n" + long[:18], long[:18] + "|" + long[:18] + "|"},
		{"too long, and what follows", long[:19] + "\na\n" + long + long, "!|a|!|"},
	} {
		s := splitter{in: bufio.NewReaderSize(strings.NewReader(row.in), 16), delimiter: '\n', limit: 18}
		var got strings.Builder
		for {
			text, err := s.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if errors.As(err, new(inputError)) {
				text = []byte("!")
			}
			got.WriteString(string(text) + "|")
		}
		if got.String() != row.want {
			t.Errorf("%s: %q, want %q", row.name, got.String(), row.want)
		}
	}
}
