package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quoin-io/quoin/examples/internal/cli"
	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// result is what a run left behind.
type result struct {
	code     int
	out, err string
}

func runNamed(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	code := run(ctx, args, cli.Streams{Out: &out, Err: &errs})
	return result{code, out.String(), errs.String()}
}

// took is how long something took, which differs each time.
var took = regexp.MustCompile(` in [0-9.]+(µs|ms|s)\n`)

// want checks that a run ended well, and what it said.
func (r result) want(t *testing.T, lines ...string) {
	t.Helper()
	want := strings.Join(lines, "\n") + "\n"
	if got := took.ReplaceAllString(r.out, "\n"); r.code != 0 || got != want || r.err != "" {
		t.Fatalf("code %d, stdout\n%s\nwant\n%s\nstderr %q", r.code, got, want, r.err)
	}
}

func TestGoesOnWhereItStopped(t *testing.T) {
	s := servertest.Start(t)
	args := []string{"--server", s.URL(), "--outbox", filepath.Join(t.TempDir(), "box"), "--rate", "0"}
	runNamed(t, append(args, "--to", "50")...).want(t,
		`producer "counter" in epoch 0`,
		`outbox: nothing was left`,
		`going on with 1`,
		`sent 50, appended 50, duplicates 0, failed 0`,
		`read back 50 records: the numbers 1 to 50, each once and in order, from 1 runs`)
	s.Restart()
	runNamed(t, append(args, "--to", "80")...).want(t,
		`producer "counter" in epoch 1`,
		`outbox: nothing was left`,
		`going on with 51`,
		`sent 30, appended 30, duplicates 0, failed 0`,
		`read back 80 records: the numbers 1 to 80, each once and in order, from 2 runs`)
	runNamed(t, append(args, "--to", "70")...).want(t,
		`producer "counter" in epoch 2`,
		`outbox: nothing was left`,
		`nothing is missing, 80 is the last number`,
		`sent 0, appended 0, duplicates 0, failed 0`,
		`read back 80 records: the numbers 1 to 80, each once and in order, from 2 runs`)
}

// Two names count in one topic and do not see each other.
func TestTwoNamesInOneTopic(t *testing.T) {
	s := servertest.Start(t)
	for _, to := range []string{"10", "20"} {
		for _, name := range []string{"a", "b"} {
			r := runNamed(t, "--server", s.URL(), "--outbox", filepath.Join(t.TempDir(), name), "--name", name, "--rate", "0", "--to", to)
			if r.code != 0 || !strings.Contains(r.out, "read back "+to+" records: the numbers 1 to "+to+", ") {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
}

// A lost acknowledgement costs a duplicate and nothing else.
func TestAcknowledgementIsLost(t *testing.T) {
	s := servertest.Start(t)
	s.DropAck(1)
	r := runNamed(t, "--server", s.URL(), "--outbox", filepath.Join(t.TempDir(), "box"), "--rate", "0", "--to", "20")
	if r.code != 0 || r.err != "" || strings.Contains(r.out, "duplicates 0") ||
		!strings.Contains(r.out, "sent 20, ") || !strings.Contains(r.out, "the numbers 1 to 20, each once and in order") {
		t.Errorf("got %+v", r)
	}
}

// A background run counts until somebody ends it.
type background struct {
	t    *testing.T
	out  *bufio.Reader
	errs bytes.Buffer // to be read after wait
	code chan int
	stop context.CancelFunc
}

func startNamed(t *testing.T, args ...string) *background {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(stop)
	out, stdout := io.Pipe()
	b := &background{t: t, out: bufio.NewReader(out), code: make(chan int, 1), stop: stop}
	go func() {
		b.code <- run(ctx, args, cli.Streams{Out: stdout, Err: &b.errs})
		stdout.Close()
	}()
	return b
}

// awaitLine reads up to the line that begins so.
func (b *background) awaitLine(prefix string) string {
	b.t.Helper()
	for {
		line, err := b.out.ReadString('\n')
		if err != nil {
			b.t.Fatalf("no line %q: %v", prefix, err)
		}
		if strings.HasPrefix(line, prefix) {
			return line
		}
	}
}

// wait reads the rest and gives the exit code and what stderr has.
func (b *background) wait() (int, string) {
	b.t.Helper()
	if _, err := io.Copy(io.Discard, b.out); err != nil {
		b.t.Error(err)
	}
	return <-b.code, b.errs.String()
}

// The holder before is told who took the name over, and the numbers go on as if it had been
// one program.
func TestNameIsTakenOver(t *testing.T) {
	s := servertest.Start(t)
	boxes := t.TempDir()
	args := func(box, to, rate string) []string {
		return []string{"--server", s.URL(), "--outbox", filepath.Join(boxes, box), "--to", to, "--rate", rate}
	}
	first := startNamed(t, args("first", "1000000000", "500")...)
	first.awaitLine("going on with 1\n")
	awaitNumbers(t, s.URL(), 20)
	second := runNamed(t, args("second", "1000", "0")...)
	if second.code != 0 || !strings.Contains(second.out, "\nread back ") {
		t.Errorf("the second holder: %+v", second)
	}
	sent := first.awaitLine("sent ")
	code, said := first.wait()
	if code != cli.ExitOther || !strings.Contains(said, "named: the name has another holder") || !strings.Contains(said, "since 20") {
		t.Errorf("the first holder: code %d, %q, %s", code, said, sent)
	}
	for _, box := range []string{"first", "second", "third"} {
		r := runNamed(t, args(box, "1500", "0")...)
		if r.code != 0 || !strings.Contains(r.out, "the numbers 1 to 1500, each once and in order, from ") {
			t.Errorf("with the outbox %s: %+v", box, r)
		}
	}
}

// Who finds the outbox taken disturbs nobody.
func TestOutboxIsTaken(t *testing.T) {
	s := servertest.Start(t)
	args := []string{"--server", s.URL(), "--outbox", filepath.Join(t.TempDir(), "box"), "--to", "1000000000", "--rate", "500"}
	first := startNamed(t, args...)
	first.awaitLine("going on with 1\n")
	second := runNamed(t, args...)
	if second.code != cli.ExitOther || !strings.Contains(second.err, "outbox") || second.out != "" {
		t.Errorf("the second one: %+v", second)
	}
	awaitNumbers(t, s.URL(), 100)
	first.stop()
	if sent := first.awaitLine("sent "); !strings.Contains(sent, "failed 0") {
		t.Error(sent)
	}
	if code, said := first.wait(); code != cli.ExitInterrupted || said != "named: interrupted\n" {
		t.Errorf("the first one: code %d, %q", code, said)
	}
}

// After an interrupt nobody answers in time: what is in flight is left to the next run, which
// has its outcome before it goes on. Mostly it was told to be unknown; on a machine that is
// too busy for that within the time of Close, it is sent again.
func TestInterruptLeavesSomethingOpen(t *testing.T) {
	s := servertest.Start(t)
	args := []string{"--server", s.URL(), "--outbox", filepath.Join(t.TempDir(), "box"), "--rate", "1000", "--last-words", "50ms", "--to"}
	if r := runNamed(t, append(args, "10")...); r.code != 0 {
		t.Fatalf("got %+v", r)
	}
	_, release := s.HoldSync()
	arrived := make(chan struct{})
	arrive := sync.OnceFunc(func() { close(arrived) })
	s.HookFrames(servertest.FrameHooks{End: func(in bool, m wire.Message) bool {
		if _, ok := m.(*wire.Produce); ok && in {
			arrive()
		}
		return false
	}})
	first := startNamed(t, append(args, "1000000000")...)
	first.awaitLine("going on with 11\n")
	<-arrived
	first.stop()
	if code, said := first.wait(); code != cli.ExitInterrupted || !strings.HasPrefix(said, "named: interrupted\n") {
		t.Errorf("code %d, %q", code, said)
	}
	release()
	r := runNamed(t, append(args, "20")...)
	settled := strings.Index(r.out, "\nsettled: sequences 10 to ")
	if r.code != 0 || settled < 0 || !strings.Contains(r.out[settled:], ", each once and in order, ") {
		t.Errorf("the next run: %+v", r)
	}
}

func connect(t *testing.T, url string) *sdk.Client {
	t.Helper()
	client, err := sdk.Dial(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(context.Background()) })
	return client
}

// awaitNumbers returns when so many more numbers are stored.
func awaitNumbers(t *testing.T, url string, n int) {
	t.Helper()
	consumer, err := connect(t, url).Consumer("numbers").From(sdk.Latest).Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	for _, err := range consumer.Records(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if n--; n == 0 {
			return
		}
	}
}

// What is stored is looked at, and not taken for granted.
func TestReadsBack(t *testing.T) {
	for _, tt := range []struct {
		name   string
		stored []string
		code   int
		says   string
	}{
		{"a number is missing", []string{"1", "3"}, cli.ExitWrong, "offset 1 has 3 behind 1"},
		{"a number is there twice", []string{"1", "2", "2"}, cli.ExitWrong, "offset 2 has 2 behind 2"},
		{"it does not begin with 1", []string{"2"}, cli.ExitWrong, "offset 0 has 2 behind 0"},
		{"the last one is not a number", []string{"1", "x"}, cli.ExitOther, `offset 1 is not a number: "x"`},
		{"the first one is not a number", []string{"x", "2"}, cli.ExitOther, `offset 0 is not a number: "x"`},
		{"all is well", []string{"1", "2"}, cli.ExitOK, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := servertest.Start(t)
			store(t, s.URL(), tt.stored)
			r := runNamed(t, "--server", s.URL(), "--outbox", filepath.Join(t.TempDir(), "box"), "--rate", "0", "--to", "5")
			if r.code != tt.code || !strings.Contains(r.err, tt.says) {
				t.Errorf("got %+v, want %d, %q", r, tt.code, tt.says)
			}
		})
	}
}

// store writes under the name of the example.
func store(t *testing.T, url string, values []string) {
	t.Helper()
	client := connect(t, url)
	if _, err := client.CreateTopic(t.Context(), "numbers", sdk.TopicOptions{}); err != nil {
		t.Fatal(err)
	}
	producer, err := client.Producer("numbers").Named("counter").Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		if _, err := producer.Send(t.Context(), sdk.Record{Value: []byte(v)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := producer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestExitCodes(t *testing.T) {
	for _, tt := range []struct {
		name, args string
		code       int
		says       string
	}{
		{"help is no fault", "--help", 0, ""},
		{"an unknown flag", "--nope", 2, "nope"},
		{"an argument", "x", 2, `"x"`},
		{"an empty topic", "--topic=", 2, "--topic"},
		{"an empty name", "--name=", 2, "--name"},
		{"an empty outbox", "--outbox=", 2, "--outbox"},
		{"nothing to count to", "--to 0", 2, "--to"},
		{"a rate that is none", "--rate NaN", 2, "--rate"},
		{"less than no time", "--last-words -1s", 2, "--last-words"},
		{"a URL that is none", "--server http://x", 2, "--server"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if r := runNamed(t, strings.Fields(tt.args)...); r.code != tt.code || !strings.Contains(r.err, tt.says) {
				t.Errorf("got %+v, want %d, %q", r, tt.code, tt.says)
			}
		})
	}
}

func TestReason(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name  string
		cause error
		want  error
	}{
		{"an interrupt", nil, cli.ErrInterrupted},
		{"a number failed", broken, broken},
		{"the name is gone", sdk.ErrFenced, sdk.ErrFenced},
		{"the outbox lags behind", sdk.ErrProducerCloned, sdk.ErrProducerCloned},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		newWatch(io.Discard, cancel).stop(tt.cause)
		if got := reason(ctx); !errors.Is(got, tt.want) {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}
