package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quoin-io/quoin/examples/internal/cli"
	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t *testing.T, s *servertest.Server) *sdk.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := sdk.Dial(ctx, s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		c.Close(closing)
	})
	return c
}

// stringsOf are the values of the topic "lines"; those of a line in pieces are one.
func stringsOf(t *testing.T, c *sdk.Client) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	consumer, err := c.Consumer("lines").StopAtEnd().Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	var all []string
	for r, err := range consumer.Records(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		text := string(r.Value)
		for _, h := range r.Headers {
			if h.Key == "eol" {
				text += "<" + string(h.Value) + ">"
			}
		}
		all = append(all, text)
	}
	return all
}

// A fixture is a directory, a server, and runs of the program in this process.
type fixture struct {
	t      *testing.T
	dir    string
	server *servertest.Server
	client *sdk.Client
	at     int64 // of the last write, seconds from 2000: two writes never have the same time
}

func newFixture(t *testing.T) *fixture {
	s := servertest.Start(t, servertest.InMemory())
	return &fixture{t: t, dir: t.TempDir(), server: s, client: dial(t, s)}
}

func (f *fixture) path(name string) string { return filepath.Join(f.dir, name) }

// put appends to a file and gives it a time: the order of files depends on it.
func (f *fixture) put(name, text string) {
	f.t.Helper()
	file, err := os.OpenFile(f.path(name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		_, err = file.WriteString(text)
		file.Close()
	}
	if err == nil {
		f.at++
		err = os.Chtimes(f.path(name), time.Time{}, time.Unix(946684800+f.at, 0))
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) do(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// run runs the program to the end of app.log and returns what it said on stderr.
func (f *fixture) run(args ...string) string {
	f.t.Helper()
	code, out, errs := f.runFor(context.Background(), append(args, "--exit-at-end")...)
	if code != 0 {
		f.t.Fatalf("code %d, %s, %s", code, out, errs)
	}
	return errs
}

func (f *fixture) runFor(ctx context.Context, args ...string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	args = append([]string{"--server", f.server.URL(), "--name", "n", "--poll", "1ms"}, args...)
	code = run(ctx, append(args, f.path("app.log")), cli.Streams{Out: &stdout, Err: &stderr})
	return code, stdout.String(), stderr.String()
}

func (f *fixture) stored() []string { return stringsOf(f.t, f.client) }

func (f *fixture) want(lines ...string) {
	f.t.Helper()
	if got := f.stored(); !slices.Equal(got, lines) {
		f.t.Errorf("stored are %.300q, want %.300q", got, lines)
	}
}

func TestGoesOn(t *testing.T) {
	f := newFixture(t)
	f.put("app.log.2", "1\n")
	f.put("app.log-20260102", "0\n")
	f.do(os.Chtimes(f.path("app.log-20260102"), time.Time{}, time.Unix(1, 0)))
	f.put("app.log.1", "2\r\n")
	f.put("app.log.1.gz", "no lines\n")
	f.put("app.logger", "another one\n")
	f.put("app.log", "3\n4\npart")
	if said := f.run(); said != "" {
		t.Errorf("it said %s", said)
	}
	f.want("0", "1", "2<crlf>", "3", "4")
	f.run() // nothing new
	f.put("app.log", "ial\n\n")
	f.run()
	f.want("0", "1", "2<crlf>", "3", "4", "partial", "")
	// Three rotations while nobody reads, and a last line without a line feed.
	f.put("app.log", "5\nlast")
	f.do(os.Rename(f.path("app.log.2"), f.path("app.log.11")))
	f.do(os.Rename(f.path("app.log.1"), f.path("app.log.10")))
	f.do(os.Rename(f.path("app.log"), f.path("app.log.9")))
	f.put("app.log.8", "6\n")
	f.put("app.log.7", "")
	f.put("app.log", "7\n")
	if said := f.run(); said != "" {
		t.Errorf("it said %s", said)
	}
	f.want("0", "1", "2<crlf>", "3", "4", "partial", "", "5", "last<none>", "6", "7")
}

func TestLongLines(t *testing.T) {
	f := newFixture(t)
	k := strings.Repeat("x", 1<<10)
	f.put("app.log", k+"\n"+k+k+"y\n"+k+"\r\n"+k+k)
	f.run("--max-line", "1024")
	f.want(k, k+"<none>", k+"<none>", "y", k+"<none>", "<crlf>", k+"<none>")
	f.put("app.log", "\n")
	f.run("--max-line", "1024")
	f.want(k, k+"<none>", k+"<none>", "y", k+"<none>", "<crlf>", k+"<none>", k)
}

// What happens to a file between two runs, and what is told of it.
func TestBetweenRuns(t *testing.T) {
	long := strings.Repeat("a long line of the first file\n", 100)
	for _, tt := range []struct {
		name    string
		happens func(f *fixture)
		told    string
		more    []string
	}{
		{"nothing", func(*fixture) {}, "", nil},
		{"truncated and written anew", func(f *fixture) {
			f.do(os.Truncate(f.path("app.log"), 0))
			f.put("app.log", "anew\n")
		}, "was truncated, or replaced", []string{"anew"}},
		{"truncated and written past where it was", func(f *fixture) {
			f.do(os.Truncate(f.path("app.log"), 0))
			f.put("app.log", "anew\n"+long)
		}, "was truncated, or replaced", append([]string{"anew"}, strings.Split(strings.TrimSuffix(long, "\n"), "\n")...)},
		{"copytruncate", func(f *fixture) {
			f.put("app.log", "unread\n")
			b, err := os.ReadFile(f.path("app.log"))
			f.do(err)
			f.put("app.log.1", string(b))
			f.do(os.Truncate(f.path("app.log"), 0))
			f.put("app.log", "anew\n")
		}, "goes on where", []string{"unread", "anew"}},
		{"deleted", func(f *fixture) {
			f.do(os.Remove(f.path("app.log")))
			f.put("app.log", "anew\n")
		}, "lost", []string{"anew"}},
		{"rotated and deleted, then others", func(f *fixture) {
			f.do(os.Remove(f.path("app.log")))
			f.put("app.log.2", "second\n")
			f.put("app.log", "third\n")
		}, "lost", []string{"second", "third"}},
		{"all is gone", func(f *fixture) { f.do(os.Remove(f.path("app.log"))) }, "gone", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.put("app.log.5", "old\n")
			f.put("app.log", long)
			f.run()
			before := f.stored()
			tt.happens(f)
			if said := f.run(); (said == "") != (tt.told == "") || !strings.Contains(said, tt.told) {
				t.Errorf("it said %q, want %q", said, tt.told)
			}
			f.want(append(before, tt.more...)...)
		})
	}
}

// A line that stands at the same place of the same file after a truncation is another one.
func TestTruncatedWhileFollowed(t *testing.T) {
	f := newFixture(t)
	f.put("app.log", "same\n")
	ctx, cancel := context.WithCancel(context.Background())
	type result struct {
		code      int
		out, errs string
	}
	done := make(chan result, 1)
	go func() {
		code, out, errs := f.runFor(ctx)
		done <- result{code, out, errs}
	}()
	f.await(1)
	f.do(os.Truncate(f.path("app.log"), 0))
	f.put("app.log", "one\n") // shorter, so that it is seen however late somebody looks
	f.await(2)
	f.do(os.Remove(f.path("app.log"))) // it is open, and followed until there is another one
	f.put("app.log", "three\n")
	f.await(3)
	cancel()
	r := <-done
	if r.code != cli.ExitInterrupted || !strings.HasPrefix(r.out, "sent 3, appended 3, duplicates 0, failed 0 in ") ||
		!strings.Contains(r.errs, "app.log was truncated: what stood behind offset 5 was not read") {
		t.Errorf("%+v", r)
	}
	f.want("same", "one", "three")
}

// await returns when the topic has n lines.
func (f *fixture) await(n int) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		consumer, err := f.client.Consumer("lines").Build(ctx)
		if err == nil {
			defer consumer.Close()
			for _, err := range consumer.Records(ctx) {
				if n--; err != nil {
					f.t.Fatal(err)
				}
				if n == 0 {
					return
				}
			}
		}
		if ctx.Err() != nil {
			f.t.Fatal("the lines do not come")
		}
	}
}

func TestRefuses(t *testing.T) {
	f := newFixture(t)
	for want, args := range map[string][]string{
		"2 one FILE is followed, not 2": {"x"},
		"2 --topic is empty":            {"--topic="},
		"2 --partition -1":              {"--partition=-1"},
		"2 --name has 0 bytes":          {"--name="},
		"2 --poll 0s":                   {"--poll=0"},
		"2 --max-line 1023":             {"--max-line=1023"},
		"2 unknown flag":                {"--no-such"},
		"3 ":                            {"--exit-at-end"}, // there is no file
	} {
		code, _, errs := f.runFor(context.Background(), args...)
		exit, text, _ := strings.Cut(want, " ")
		if exit != string(rune('0'+code)) || !strings.Contains(errs, "tailfile: "+text) {
			t.Errorf("%q: code %d, %s", args, code, errs)
		}
	}
	code, out, _ := f.runFor(context.Background(), "--help")
	if code != 0 || !strings.Contains(out, "--max-line") {
		t.Errorf("help: %d, %s", code, out)
	}
	// A position of somebody else: whoever uses the name for something else is told.
	ctx := t.Context()
	p, err := f.client.Producer("lines").Named("n").Position(func(*sdk.Record) []byte { return []byte("page 7") }).Build(ctx)
	f.do(err)
	_, err = p.Send(ctx, sdk.Record{Value: []byte("x")})
	f.do(err)
	if code, _, errs := f.runFor(ctx); code != 1 || !strings.Contains(errs, "was not stored by tailfile") {
		t.Errorf("code %d, %s", code, errs)
	}
}
