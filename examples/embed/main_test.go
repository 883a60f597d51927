package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quoin-io/quoin/examples/internal/cli"
)

// Nothing is left running by a clean shutdown, or this fails.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// result is what a run left behind.
type result struct {
	code     int
	out, err string
}

func runEmbed(ctx context.Context, args ...string) result {
	var out, errs bytes.Buffer
	code := run(ctx, args, cli.Streams{Out: &out, Err: &errs})
	return result{code, out.String(), errs.String()}
}

// wantRun checks the lines of a run that stored n measurements behind those of earlier ones.
func (r result) wantRun(t *testing.T, n, earlier int) {
	t.Helper()
	line := regexp.MustCompile(`^(\d+) heap \d+ KiB, \d+ goroutines$`)
	lines := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
	if want := fmt.Sprintf("stored %d, read %d, %d from earlier runs", n, n, earlier); lines[len(lines)-1] != want {
		t.Errorf("the summary is %q, want %q", lines[len(lines)-1], want)
	}
	if len(lines) != n+1 {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), n+1, r.out)
	}
	for i, text := range lines[:n] {
		if m := line.FindStringSubmatch(text); m == nil || m[1] != fmt.Sprint(earlier+i) {
			t.Errorf("line %d is %q", i, text)
		}
	}
}

func TestRunsOnTheDataOfEarlierOnes(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	for i := range 3 {
		r := runEmbed(t.Context(), "--data", data, "--every", "1ms", "--count", "7")
		if r.code != 0 || !strings.HasPrefix(r.err, "serving quoin://127.0.0.1:") || strings.Count(r.err, "\n") != 1 {
			t.Errorf("run %d: code %d, stderr %q", i, r.code, r.err)
		}
		r.wantRun(t, 7, 7*i)
	}
}

// All that could go wrong at the start ends the program, with nothing left behind.
func TestExitCodes(t *testing.T) {
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	data := " --data " + filepath.Join(t.TempDir(), "data")
	for _, tt := range []struct {
		name, args string
		code       int
		says       string
	}{
		{"help is no fault", "--help", 0, ""},
		{"an unknown flag", "--nope", 2, "nope"},
		{"an argument", "x" + data, 2, `"x"`},
		{"no directory", "--data=", 2, "--data"},
		{"no address", "--listen=" + data, 2, "--listen"},
		{"fewer than nothing", "--count -1" + data, 2, "--count"},
		{"too often", "--every 1us" + data, 2, "--every"},
		{"an address that is taken", "--listen " + taken.LocalAddr().String() + data, 1, "address already in use"},
		{"a directory that is a file", "--data " + file, 1, "file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if r := runEmbed(t.Context(), strings.Fields(tt.args)...); r.code != tt.code || !strings.Contains(r.err, tt.says) {
				t.Errorf("got %+v, want %d, %q", r, tt.code, tt.says)
			}
		})
	}
}

// An interrupt stops it in order: what was stored was read, and the next run finds it.
func TestInterrupt(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	ctx, interrupt := context.WithTimeout(t.Context(), time.Minute)
	defer interrupt()
	var errs bytes.Buffer
	out := &counted{enough: 20, then: interrupt}
	code := run(ctx, []string{"--data", data, "--every", "1ms", "--count", "0"}, cli.Streams{Out: out, Err: &errs})
	if code != cli.ExitInterrupted || !strings.HasSuffix(errs.String(), "\nembed: interrupted\n") {
		t.Errorf("code %d, stderr %q", code, errs.String())
	}
	stored := strings.Count(out.String(), "\n") - 1
	result{out: out.String()}.wantRun(t, stored, 0)
	r := runEmbed(t.Context(), "--data", data, "--every", "1ms", "--count", "1")
	r.wantRun(t, 1, stored)
}

// A counted calls then when enough lines were written.
type counted struct {
	bytes.Buffer
	enough int
	then   func()
}

func (c *counted) Write(b []byte) (int, error) {
	if c.enough--; c.enough == 0 {
		c.then()
	}
	return c.Buffer.Write(b)
}
