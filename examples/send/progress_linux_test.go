package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quoin-io/quoin/examples/internal/cli"
)

// terminal opens a new pseudo terminal: what is written to tty comes out of screen.
func terminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close() })
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	size := &unix.Winsize{Row: 24, Col: 100}
	if err := unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, size); err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return screen, tty
}

func TestProgressOnATerminal(t *testing.T) {
	inDir(t, map[string]string{"f": strings.Repeat("x", 2<<20) + "\nb\n"})
	for _, tt := range []struct {
		name, term string
		stdin      io.Reader
		file       string
		want       []string
		without    string
	}{
		{"a file has a bar", "xterm", nil, "f", []string{"2.1 MB / 2.1 MB", "100 %"}, "\x1b[3"},
		{"a pipe has a count", "xterm", strings.NewReader(strings.Repeat("x", 2<<20) + "\nb\n"), "-", []string{"2.1 MB", "/s"}, "%"},
		{"a terminal that cannot move its cursor has none", "dumb", nil, "f", nil, "MB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("TERM", tt.term)
			t.Setenv("NO_COLOR", "1")
			screen, tty := terminal(t)
			shown := make(chan string, 1)
			go func() {
				b, _ := io.ReadAll(screen) // ends with EIO when the tty is closed
				shown <- string(b)
			}()
			code := run(t.Context(), []string{"--data", t.TempDir(), tt.file}, cli.Streams{In: tt.stdin, Out: io.Discard, Err: tty})
			tty.Close()
			got := <-shown
			for _, want := range append(tt.want, "send: "+tt.file+":1: failed: a line of 2097152 bytes", "send: some lines failed") {
				if !strings.Contains(got, want) {
					t.Errorf("the screen lacks %q: %q", want, got)
				}
			}
			if code != 6 || strings.Contains(got, tt.without) {
				t.Errorf("code %d, %q is on the screen: %q", code, tt.without, got)
			}
		})
	}
}
