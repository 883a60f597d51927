package examples

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
)

// programs is where TestMain put the programs.
var programs string

func TestMain(m *testing.M) {
	var err error
	programs, err = os.MkdirTemp("", "quoin-examples-")
	if err == nil {
		build := exec.Command("go", "build", "-o", programs, "./send", "./tail", "./named", "./embed")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the examples:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(programs)
		os.Exit(code)
	}))
}

// program prepares a run of one of the programs. It is killed if it takes longer than a
// minute.
func program(t *testing.T, name, dir string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(programs, name), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "QUOIN_URL=")
	return cmd
}

// result is what a run left behind.
type result struct {
	code     int
	out, err string
}

func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, errs bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	cmd.Stderr = &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// mustRun runs a program that has nothing to complain about.
func mustRun(t *testing.T, name, dir string, args ...string) result {
	t.Helper()
	r := finish(t, program(t, name, dir, args...))
	if r.code != 0 {
		t.Fatalf("%s %.200q: %+v", name, args, r)
	}
	return r
}

func TestThereAndBack(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string][]byte
		args  []string
	}{
		{"without compression", nastyFiles(), nil},
		{"with snappy", nastyFiles(), []string{"--compression", "snappy"}},
		{"with zstd", nastyFiles(), []string{"--compression", "zstd"}},
		{"many files over three partitions", manyFiles(150), []string{"--partitions", "3"}},
		{"with keys in one partition", manyFiles(20), []string{"--key-delim", " "}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			from, data, to := t.TempDir(), filepath.Join(t.TempDir(), "data"), t.TempDir()
			names := write(t, from, tt.files)
			args := append([]string{"--data", data}, tt.args...)
			r := mustRun(t, "send", from, append(args, names...)...)
			lines := 0
			for _, content := range tt.files {
				lines += bytes.Count(content, []byte("\n"))
				if !bytes.HasSuffix(content, []byte("\n")) {
					lines++
				}
			}
			want := fmt.Sprintf("sent %d, appended %d, duplicates 0, failed 0 in ", lines, lines)
			if !strings.HasPrefix(r.out, want) || r.err != "" {
				t.Errorf("send said %q, %q, want %q", r.out, r.err, want)
			}
			r = mustRun(t, "tail", from, "--data", data, "--into", to)
			if want := fmt.Sprintf("%d lines in %d files under %s\n", lines, len(tt.files), to); r.err != want {
				t.Errorf("tail said %q, want %q", r.err, want)
			}
			wantFiles(t, to, tt.files)
		})
	}
}

func TestOneFileThroughStdinAndStdout(t *testing.T) {
	s := servertest.Start(t)
	for name, content := range nastyFiles() {
		topic := "t-" + fmt.Sprint(len(name)) + "-" + fmt.Sprint(len(content))
		send := program(t, "send", t.TempDir(), "--server", s.URL(), "--topic", topic)
		send.Stdin = bytes.NewReader(content)
		if r := finish(t, send); r.code != 0 {
			t.Fatalf("%s: send: %+v", name, r)
		}
		r := mustRun(t, "tail", t.TempDir(), "--server", s.URL(), "--topic", topic)
		if r.out != string(content) || r.err != "" {
			t.Errorf("%s: got %.80q, want %.80q; stderr %q", name, r.out, content, r.err)
		}
	}
}

func TestDefaults(t *testing.T) {
	dir := t.TempDir()
	files := map[string][]byte{"a.log": []byte("x\ny")}
	write(t, dir, files)
	mustRun(t, "send", dir, "a.log")
	mustRun(t, "tail", dir, "--into", "back")
	wantFiles(t, filepath.Join(dir, "back"), files)
	if _, err := os.Stat(filepath.Join(dir, "quoin-data", "catalog.db")); err != nil {
		t.Error(err)
	}
}

func TestServerIsNamedByTheEnvironment(t *testing.T) {
	s := servertest.Start(t)
	dir := t.TempDir()
	write(t, dir, map[string][]byte{"a.log": []byte("x\n")})
	for _, cmd := range []*exec.Cmd{program(t, "send", dir, "a.log"), program(t, "tail", dir)} {
		cmd.Env = append(cmd.Env, "QUOIN_URL="+s.URL())
		if r := finish(t, cmd); r.code != 0 {
			t.Fatalf("got %+v", r)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "quoin-data")); !os.IsNotExist(err) {
		t.Errorf("a data directory was made: %v", err)
	}
}

func TestPipeIsClosedByItsReader(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string][]byte{"a.log": bytes.Repeat([]byte("a line\n"), 100_000)})
	mustRun(t, "send", dir, "a.log")
	cmd := program(t, "tail", dir)
	read, written, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	defer written.Close()
	cmd.Stdout = written
	if r := finish(t, cmd); r.code != 0 || r.err != "" {
		t.Errorf("got %+v", r)
	}
}

func TestInterruptFlushes(t *testing.T) {
	s := servertest.Start(t)
	cmd := program(t, "send", t.TempDir(), "--server", s.URL())
	typed, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(typed, "a\nb\nhalf"); err != nil {
		t.Fatal(err)
	}
	awaitRecords(t, s.URL(), 2)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.HasPrefix(out.String(), "sent 2, appended 2, duplicates 0, failed 0 in ") {
		t.Errorf("code %d, %q", code, out.String())
	}
}

// awaitRecords returns when the topic "lines" has so many records.
func awaitRecords(t *testing.T, url string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := sdk.Dial(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(context.Background())
	if _, err := client.CreateTopic(ctx, "lines", sdk.TopicOptions{}); err != nil && !errors.Is(err, sdk.ErrTopicExists) {
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
