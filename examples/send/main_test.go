package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quoin-io/quoin/examples/internal/cli"
	"github.com/quoin-io/quoin/examples/internal/lines"
	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// result is what a run left behind.
type result struct {
	code     int
	out, err string
}

func runSend(ctx context.Context, stdin io.Reader, args ...string) result {
	var out, errs bytes.Buffer
	code := run(ctx, args, cli.Streams{In: stdin, Out: &out, Err: &errs})
	return result{code, out.String(), errs.String()}
}

// want checks the exit code and the counts of the summary.
func (r result) want(t *testing.T, code int, counts string) {
	t.Helper()
	summary := regexp.MustCompile(`^` + regexp.QuoteMeta(counts) + ` in [0-9.]+(µs|ms|s)\n$`)
	if r.code != code || !summary.MatchString(r.out) {
		t.Fatalf("code %d, stdout %q, stderr %q; want %d, %q", r.code, r.out, r.err, code, counts)
	}
}

// inDir makes files in a directory and makes it the working directory.
func inDir(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// records reads a topic to its end, and gives each record as partition, file, key, value
// and eol.
func records(t *testing.T, url, topic string) []string {
	t.Helper()
	ctx := t.Context()
	client, err := sdk.Dial(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(context.Background())
	consumer, err := client.Consumer(topic).StopAtEnd().Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for r, err := range consumer.Records(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, text(r))
	}
	return out
}

func text(r *sdk.Record) string {
	s := fmt.Sprintf("%d", r.Partition)
	for _, h := range r.Headers {
		s += fmt.Sprintf(" %s=%s", h.Key, h.Value)
	}
	if r.Key != nil {
		s += fmt.Sprintf(" key=%q", r.Key)
	}
	return s + fmt.Sprintf(" %q", r.Value)
}

func wantRecords(t *testing.T, url, topic string, want ...string) {
	t.Helper()
	got := strings.Join(records(t, url, topic), "\n")
	if want := strings.Join(want, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRecords(t *testing.T) {
	s := servertest.Start(t)
	inDir(t, map[string]string{"a/x.log": "one\r\n\ntwo\rthree", "y.log": "\xff\x00\n", "empty": ""})
	r := runSend(t.Context(), strings.NewReader("in\n"), "--server", s.URL(), "./a/../a/x.log", "y.log", "empty", "-")
	r.want(t, 0, "sent 5, appended 5, duplicates 0, failed 0")
	if r.err != "" {
		t.Errorf("stderr %q", r.err)
	}
	wantRecords(t, s.URL(), "lines",
		`0 file=a/x.log eol=crlf "one"`,
		`0 file=a/x.log ""`,
		`0 file=a/x.log eol=none "two\rthree"`,
		`0 file=y.log "\xff\x00"`,
		`0 file=stdin "in"`)
}

func TestKeys(t *testing.T) {
	s := servertest.Start(t)
	in := strings.NewReader("a b c\n b\nnone\n")
	runSend(t.Context(), in, "--server", s.URL(), "--topic", "k", "--key-delim", " ").
		want(t, 0, "sent 3, appended 3, duplicates 0, failed 0")
	wantRecords(t, s.URL(), "k", `0 file=stdin key="a" "a b c"`, `0 file=stdin key="" " b"`, `0 file=stdin "none"`)
}

func TestFilesStayTogether(t *testing.T) {
	s := servertest.Start(t)
	files := make(map[string]string)
	args := []string{"--server", s.URL(), "--partitions", "3"}
	for i := range 12 {
		name := fmt.Sprintf("f%d", i)
		files[name] = strings.Repeat(name+"\n", 50)
		args = append(args, name)
	}
	inDir(t, files)
	runSend(t.Context(), nil, args...).want(t, 0, "sent 600, appended 600, duplicates 0, failed 0")
	partitions := make(map[string]bool)
	pairs := make(map[string]bool)
	for _, r := range records(t, s.URL(), "lines") {
		partition, rest, _ := strings.Cut(r, " ")
		partitions[partition] = true
		pairs[partition+rest] = true
	}
	if len(partitions) != 3 || len(pairs) != 12 {
		t.Errorf("%d partitions are used, by 12 files in %d places", len(partitions), len(pairs))
	}
}

func TestSecondRunAppendsAgain(t *testing.T) {
	data := t.TempDir()
	inDir(t, map[string]string{"f": "a\nb\n"})
	runSend(t.Context(), nil, "--data", data, "f").want(t, 0, "sent 2, appended 2, duplicates 0, failed 0")
	r := runSend(t.Context(), nil, "--data", data, "--partitions", "2", "f")
	r.want(t, 0, "sent 2, appended 2, duplicates 0, failed 0")
	if !strings.Contains(r.err, "partition count of 1") {
		t.Errorf("nothing says that --partitions has no effect: %q", r.err)
	}
	s := servertest.Start(t, servertest.Configure(configData(data)))
	line := []string{`0 file=f "a"`, `0 file=f "b"`}
	wantRecords(t, s.URL(), "lines", append(line, line...)...)
}

func TestLostAcknowledgement(t *testing.T) {
	s := servertest.Start(t)
	s.DropAck(1)
	r := runSend(t.Context(), strings.NewReader("a\nb\nc\n"), "--server", s.URL(), "--rate", "1000")
	var sent, appended, duplicates, failed int
	if _, err := fmt.Sscanf(r.out, "sent %d, appended %d, duplicates %d, failed %d", &sent, &appended, &duplicates, &failed); err != nil {
		t.Fatal(err, r)
	}
	if r.code != 0 || sent != 3 || duplicates == 0 || appended+duplicates != 3 || failed != 0 {
		t.Errorf("got %+v", r)
	}
	wantRecords(t, s.URL(), "lines", `0 file=stdin "a"`, `0 file=stdin "b"`, `0 file=stdin "c"`)
}

func TestLineTooLong(t *testing.T) {
	s := servertest.Start(t)
	inDir(t, map[string]string{"f": "a\n" + strings.Repeat("x", 2<<20) + "\nb\n" + strings.Repeat("y", maxLine+1) + "\r\nc\n"})
	r := runSend(t.Context(), nil, "--server", s.URL(), "f")
	r.want(t, 6, "sent 5, appended 3, duplicates 0, failed 2")
	for _, want := range []string{
		"send: f:2: failed: a line of 2097152 bytes needs a batch of ", "the topic takes 1048576\n",
		"send: f:4: failed: line of 16777217 bytes, more than 16777216 are never read\n",
	} {
		if !strings.Contains(r.err, want) {
			t.Errorf("stderr lacks %q: %q", want, r.err)
		}
	}
	wantRecords(t, s.URL(), "lines", `0 file=f "a"`, `0 file=f "b"`, `0 file=f "c"`)
}

func TestExitCodes(t *testing.T) {
	s := servertest.Start(t)
	inDir(t, map[string]string{"f": "a\n", "d/f": "a\n"})
	// A socket that nobody serves: what is sent there is lost.
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, tt := range []struct {
		name, args string
		code       int
		says       string
	}{
		{"help is no fault", "--help", 0, ""},
		{"an unknown flag", "--nope", 2, "nope"},
		{"an unknown compression", "--compression lz4 f", 2, "lz4"},
		{"no partitions", "--partitions 0 f", 2, "at least 1"},
		{"a rate that is no number", "--rate NaN f", 2, "--rate"},
		{"a rate below nothing", "--rate -1 f", 2, "--rate"},
		{"an empty delimiter", "--key-delim= f", 2, "--key-delim"},
		{"an empty topic", "--topic= f", 2, "--topic"},
		{"a directory", "d", 2, "directory"},
		{"a file twice", "f ./f", 2, "f and ./f"},
		{"a file that is not there", "f gone", 3, "gone"},
		{"a URL that is none", "--server http://x f", 2, "--server"},
		{"a server that does not answer", "--server quoin://" + silent.LocalAddr().String() + " f", 5, "send: "},
		{"a name for a topic that is not allowed", "--server " + s.URL() + " --topic a/b f", 1, "a/b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := runSend(t.Context(), nil, strings.Fields(tt.args)...)
			if r.code != tt.code || !strings.Contains(r.err, tt.says) {
				t.Errorf("code %d, stderr %q; want %d, %q", r.code, r.err, tt.code, tt.says)
			}
			if strings.Contains(r.out, "sent ") {
				t.Errorf("a summary although nothing was sent: %q", r.out)
			}
		})
	}
}

func TestInterrupt(t *testing.T) {
	s := servertest.Start(t)
	ctx, interrupt := context.WithCancel(t.Context())
	stdin, typed := io.Pipe()
	done := make(chan result, 1)
	go func() { done <- runSend(ctx, stdin, "--server", s.URL()) }()
	if _, err := io.WriteString(typed, "a\nb\nunfinished"); err != nil {
		t.Fatal(err)
	}
	awaitRecords(t, s.URL(), 2)
	interrupt()
	(<-done).want(t, 130, "sent 2, appended 2, duplicates 0, failed 0")
	typed.Close() // ends the read that is still under way
	wantRecords(t, s.URL(), "lines", `0 file=stdin "a"`, `0 file=stdin "b"`)
}

// awaitRecords returns when the topic has so many records.
func awaitRecords(t *testing.T, url string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	client, err := sdk.Dial(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(context.Background())
	if _, err := client.CreateTopic(ctx, "lines", sdk.TopicOptions{}); err != nil && !isTopicExists(err) {
		t.Fatal(err)
	}
	consumer, err := client.Consumer("lines").Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range consumer.Records(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if n--; n == 0 {
			return
		}
	}
}

func TestTopicGoesAway(t *testing.T) {
	s := servertest.Start(t)
	stdin, typed := io.Pipe()
	done := make(chan result, 1)
	go func() { done <- runSend(t.Context(), stdin, "--server", s.URL()) }()
	if _, err := io.WriteString(typed, "a\n"); err != nil {
		t.Fatal(err)
	}
	awaitRecords(t, s.URL(), 1)
	deleteTopic(t, s.URL(), "lines")
	typing := make(chan struct{})
	go func() {
		defer close(typing)
		for {
			if _, err := io.WriteString(typed, "b\n"); err != nil {
				return // nobody reads any more
			}
		}
	}()
	r := <-done
	stdin.Close()
	<-typing
	if r.code != 6 || !strings.Contains(r.err, "send: -:2: failed: ") || !strings.Contains(r.err, "the topic was deleted") {
		t.Errorf("got %+v", r)
	}
}

func TestHeaderName(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	abs, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	fromRoot := func(path string) string { return filepath.ToSlash(strings.TrimLeft(path, "/")) }
	for _, tt := range []struct{ name, in, want string }{
		{"a plain name stays", "x.log", "x.log"},
		{"detours go", "./a//b/../x.log", "a/x.log"},
		{"an absolute path begins at the root", "/var/log/x", "var/log/x"},
		{"what is outside begins at the root", "../x", fromRoot(filepath.Join(filepath.Dir(abs), "x"))},
		{"there and back", "../" + filepath.Base(abs) + "/x", fromRoot(filepath.Join(abs, "x"))},
	} {
		if got, err := headerName(tt.in); err != nil || got != tt.want {
			t.Errorf("%s: got %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
}

func TestRate(t *testing.T) {
	for _, tt := range []struct {
		name      string
		perSecond float64
		within    time.Duration
		want      int
	}{
		{"a slow one lets one pass at a time", 2, 10 * time.Second, 20},
		{"a fast one too keeps its rate", 100_000, time.Second, 100_000},
	} {
		limiter, start, passed := cli.NewLimiter(tt.perSecond), time.Now(), 0
		for at := time.Duration(0); at < tt.within; at += time.Millisecond {
			for limiter.AllowN(start.Add(at), 1) {
				passed++
			}
		}
		if slack := max(1, int(tt.perSecond/20)); passed < tt.want-slack || passed > tt.want+slack {
			t.Errorf("%s: %d passed, want %d", tt.name, passed, tt.want)
		}
	}
}

func TestReportsAreBounded(t *testing.T) {
	var out bytes.Buffer
	tally, src := newTally(&out), &source{label: "f"}
	for i := range 250 {
		tally.tooLong(src, &lines.TooLongError{Number: int64(i)})
	}
	tally.finish()
	if n := strings.Count(out.String(), "\n"); n != maxReports+1 || !strings.HasSuffix(out.String(), "send: 230 more lines failed\n") {
		t.Errorf("%d lines, the last %q", n, out.String()[out.Len()-40:])
	}
}

func TestUnknownIsNotCalledAFailure(t *testing.T) {
	err := &sdk.OutcomeUnknown{Topic: "t", Cause: sdk.ErrDeliveryTimeout}
	if got := describe(err, 1); !strings.HasPrefix(got, "unknown: ") {
		t.Errorf("got %q", got)
	}
}
