package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

func runTail(ctx context.Context, args ...string) result {
	var out, errs bytes.Buffer
	code := run(ctx, args, cli.Streams{Out: &out, Err: &errs})
	return result{code, out.String(), errs.String()}
}

// A writer sends records to the topic "lines" of a server.
type writer struct {
	t        *testing.T
	url      string
	client   *sdk.Client
	producer *sdk.Producer
}

func newWriter(t *testing.T, partitions int) *writer {
	t.Helper()
	s := servertest.Start(t)
	client, err := sdk.Dial(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(context.Background()) })
	if _, err := client.CreateTopic(t.Context(), "lines", sdk.TopicOptions{Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	producer, err := client.Producer("lines").Idempotent().Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &writer{t, s.URL(), client, producer}
}

// send sends a record with headers of the form key=value.
func (w *writer) send(value string, headers ...string) {
	w.t.Helper()
	r := sdk.Record{Value: []byte(value)}
	for _, h := range headers {
		key, value, _ := strings.Cut(h, "=")
		r.Headers = append(r.Headers, sdk.Header{Key: key, Value: []byte(value)})
	}
	if _, err := w.producer.Send(w.t.Context(), r); err != nil {
		w.t.Fatal(err)
	}
}

func TestPrint(t *testing.T) {
	w := newWriter(t, 1)
	w.send("a", "x=y", "eol=crlf", "eol=none")
	w.send("")
	w.send("\xff\x00", "eol=lf")
	w.send("end", "eol=none", "file=../anything")
	for _, tt := range []struct{ name, args, want string }{
		{"from the start", "", "a\r\n\n\xff\x00\nend"},
		{"from an offset", "--from 2", "\xff\x00\nend"},
		{"from the end there is nothing", "--from end", ""},
	} {
		r := runTail(t.Context(), append(strings.Fields(tt.args), "--server", w.url)...)
		if r.code != 0 || r.out != tt.want || r.err != "" {
			t.Errorf("%s: got %+v", tt.name, r)
		}
	}
}

func TestFollow(t *testing.T) {
	w := newWriter(t, 1)
	w.send("old")
	ctx, interrupt := context.WithCancel(t.Context())
	out, stdout := io.Pipe()
	var errs bytes.Buffer // read after the run
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"--server", w.url, "--follow"}, cli.Streams{Out: stdout, Err: &errs})
	}()
	in := bufio.NewReader(out)
	for _, want := range []string{"old\n", "new\n", "newer\n"} {
		if line, err := in.ReadString('\n'); line != want || err != nil {
			t.Fatalf("got %q, %v", line, err)
		}
		switch want {
		case "old\n":
			w.send("new")
		case "new\n":
			w.send("newer")
		}
	}
	interrupt()
	if got := <-code; got != 130 {
		t.Errorf("exit code %d", got)
	}
	if errs.String() != "tail: interrupted\n" {
		t.Errorf("stderr %q", errs.String())
	}
}

func TestClosedPipe(t *testing.T) {
	w := newWriter(t, 1)
	for range 10 {
		w.send(strings.Repeat("x", 50_000))
	}
	out, stdout := io.Pipe()
	out.Close()
	var errs bytes.Buffer
	code := run(t.Context(), []string{"--server", w.url}, cli.Streams{Out: stdout, Err: &errs})
	if code != 0 || errs.Len() > 0 {
		t.Errorf("code %d, stderr %q", code, errs.String())
	}
}

func TestExitCodes(t *testing.T) {
	w := newWriter(t, 1)
	w.send("x", "eol=cr")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	here := " --server " + w.url
	for _, tt := range []struct {
		name, args string
		code       int
		says       string
	}{
		{"help is no fault", "--help", 0, ""},
		{"an unknown flag", "--nope", 2, "nope"},
		{"an argument", "x" + here, 2, `"x"`},
		{"an offset that is none", "--from middle" + here, 2, "middle"},
		{"an offset below nothing", "--from -1" + here, 2, "-1"},
		{"an empty topic", "--topic=" + here, 2, "--topic"},
		{"an empty directory", "--into=" + here, 2, "--into"},
		{"nobody to wait for", "--follow --data " + t.TempDir(), 2, "--server"},
		{"a topic that is not there", "--topic gone" + here, 3, "gone"},
		{"an offset that is not there", "--from 99" + here, 1, "tail: "},
		{"a directory that is a file", "--into " + file + here, 1, "file"},
		{"an end of line that nobody knows", here, 1, `"cr"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if r := runTail(t.Context(), strings.Fields(tt.args)...); r.code != tt.code || !strings.Contains(r.err, tt.says) {
				t.Errorf("got %+v, want %d, %q", r, tt.code, tt.says)
			}
		})
	}
}

func TestInto(t *testing.T) {
	w := newWriter(t, 1)
	w.send("one", "file=a/b/x", "eol=crlf")
	w.send("1", "file=y")
	w.send("two", "file=a/b/x", "eol=none")
	dir := filepath.Join(t.TempDir(), "made", "here")
	for _, run := range []string{"first", "what is there is replaced"} {
		r := runTail(t.Context(), "--server", w.url, "--into", dir)
		if want := fmt.Sprintf("3 lines in 2 files under %s\n", dir); r.code != 0 || r.out != "" || r.err != want {
			t.Fatalf("%s: got %+v", run, r)
		}
		wantFile(t, filepath.Join(dir, "a/b/x"), "one\r\ntwo")
		wantFile(t, filepath.Join(dir, "y"), "1\n")
	}
}

func wantFile(t *testing.T, name, want string) {
	t.Helper()
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
	}
}

func TestMoreFilesThanMayBeOpen(t *testing.T) {
	dir := t.TempDir()
	d, err := newInto(dir, false, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	const files, rounds = 3*maxOpen + 1, 3
	for round := range rounds {
		for i := range files {
			line := lines.Line{Value: fmt.Appendf(nil, "%d", round)}.AppendTo(nil)
			if err := d.write(fmt.Appendf(nil, "f%d", i), line); err != nil {
				t.Fatal(err)
			}
			if len(d.open) > maxOpen {
				t.Fatalf("%d files are open", len(d.open))
			}
		}
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	for i := range files {
		wantFile(t, filepath.Join(dir, fmt.Sprintf("f%d", i)), "0\n1\n2\n")
	}
}

func TestNamesStayInside(t *testing.T) {
	for _, tt := range []struct{ name, file string }{
		{"one up", "../evil"},
		{"up behind a way down", "a/../../evil"},
		{"an absolute path", "/tmp/evil"},
		{"over a link to a directory", "link/evil"},
		{"over a link to a file", "filelink"},
		{"the directory itself", "."},
		{"the directory above", ".."},
		{"no name", ""},
		{"a directory", "a/"},
		{"a detour", "a/./evil"},
		{"a zero byte", "evil\x00.log"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWriter(t, 1)
			w.send("good", "file=good")
			w.send("evil", "file="+tt.file)
			parent := t.TempDir()
			dir, outside := filepath.Join(parent, "dir"), filepath.Join(parent, "outside")
			plant(t, dir, outside)
			r := runTail(t.Context(), "--server", w.url, "--into", dir)
			if r.code != 1 || !strings.Contains(r.err, "tail: record 1 of partition 0: ") {
				t.Errorf("got %+v", r)
			}
			wantFile(t, filepath.Join(dir, "good"), "good\n")
			wantFile(t, filepath.Join(outside, "file"), "untouched")
			for _, place := range []string{parent, outside} {
				if _, err := os.Lstat(filepath.Join(place, "evil")); !os.IsNotExist(err) {
					t.Errorf("it got out to %s: %v", place, err)
				}
			}
		})
	}
}

// plant makes dir with links that lead to outside.
func plant(t *testing.T, dir, outside string) {
	t.Helper()
	for _, err := range []error{
		os.Mkdir(dir, 0o700), os.Mkdir(outside, 0o700),
		os.WriteFile(filepath.Join(outside, "file"), []byte("untouched"), 0o600),
		os.Symlink(outside, filepath.Join(dir, "link")),
		os.Symlink("../outside/file", filepath.Join(dir, "filelink")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}
