package examples

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/examples/internal/cli"
)

// An embedded is a run of "embed" that measures until somebody ends it.
type embedded struct {
	cmd  *exec.Cmd
	url  string
	out  *bufio.Reader
	errs *bufio.Reader
}

func startEmbed(t *testing.T, data string) *embedded {
	t.Helper()
	cmd := program(t, "embed", t.TempDir(), "--data", data, "--count", "0", "--every", "1ms")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e := &embedded{cmd: cmd, out: bufio.NewReader(stdout), errs: bufio.NewReader(stderr)}
	said := readTo(t, e.errs, "serving ")
	e.url = strings.TrimSpace(strings.TrimPrefix(said, "serving "))
	return e
}

// rest is what a stream has left.
func rest(t *testing.T, stream *bufio.Reader) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := b.ReadFrom(stream); err != nil {
		t.Error(err)
	}
	return b.String()
}

func TestEmbedDefaults(t *testing.T) {
	dir := t.TempDir()
	for _, earlier := range []int{0, 10} {
		r := mustRun(t, "embed", dir)
		if want := fmt.Sprintf("\nstored 10, read 10, %d from earlier runs\n", earlier); !strings.HasSuffix(r.out, want) || strings.Count(r.out, "\n") != 11 {
			t.Errorf("got %+v, want %q", r, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "quoin-data", "catalog.db")); err != nil {
		t.Error(err)
	}
}

// Others may use the server while the program lives; after an interrupt it is gone in good
// order, and everything is there again at the next start.
func TestEmbedIsJoinedAndInterrupted(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	e := startEmbed(t, data)
	first := readTo(t, e.out, "0 heap ")
	joined := mustRun(t, "tail", t.TempDir(), "--server", e.url, "--topic", "measurements")
	if value := strings.TrimPrefix(first, "0 "); !strings.HasPrefix(joined.out, value) {
		t.Errorf("read from outside: %.100q, want %q", joined.out, value)
	}
	if err := e.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	out, errs := rest(t, e.out), rest(t, e.errs)
	e.cmd.Wait()
	stored := 1 + strings.Count(out, " heap ")
	if want := fmt.Sprintf("\nstored %d, read %d, 0 from earlier runs\n", stored, stored); !strings.HasSuffix("\n"+out, want) {
		t.Errorf("it ended with %q, want %q", out[max(0, len(out)-200):], want)
	}
	if code := e.cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted || errs != "embed: interrupted\n" {
		t.Errorf("code %d, stderr %q", code, errs)
	}
	r := mustRun(t, "embed", t.TempDir(), "--data", data, "--count", "1")
	if want := fmt.Sprintf(", %d from earlier runs\n", stored); !strings.HasSuffix(r.out, want) {
		t.Errorf("got %+v, want %q", r, want)
	}
}

// Killed with the server inside, it loses nothing that it had printed.
func TestEmbedIsKilled(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	e := startEmbed(t, data)
	readTo(t, e.out, "50 heap ")
	kill(e.cmd)
	r := mustRun(t, "embed", t.TempDir(), "--data", data, "--count", "1")
	earlier := 0
	if m := regexp.MustCompile(`, (\d+) from earlier runs\n$`).FindStringSubmatch(r.out); m != nil {
		fmt.Sscan(m[1], &earlier)
	}
	if earlier < 51 {
		t.Errorf("got %+v, want 51 or more from the run that was killed", r)
	}
}
