package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExitCodes(t *testing.T) {
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "00000000000000000000.seg"), []byte(strings.Repeat("garbage ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		args []string
		want int
	}{
		{[]string{"version"}, 0},
		{[]string{"nonsense"}, 2},
		{[]string{"serve", "--bogus"}, 2},
		{[]string{"log", "verify"}, 2},
		{[]string{"log", "verify", filepath.Join(broken, "nowhere")}, 3},
		{[]string{"batch", "dump", filepath.Join(broken, "nowhere")}, 3},
		{[]string{"batch", "dump", "t/0@1", "--data", filepath.Join(broken, "nowhere")}, 3},
		{[]string{"batch", "dump", "t/0@x"}, 2},
		{[]string{"batch", "dump", filepath.Join(broken, "00000000000000000000.seg")}, 7},
		{[]string{"log", "verify", broken}, 7},
		{[]string{"log", "verify", t.TempDir()}, 0},
		{[]string{"serve", "--data", filepath.Join(broken, "00000000000000000000.seg")}, 1},
	} {
		var out, stderr bytes.Buffer
		if got := run(row.args, &out, &stderr); got != row.want {
			t.Errorf("quoin %v: exit code %d, want %d\n%s%s", row.args, got, row.want, out.String(), stderr.String())
		}
	}
}
