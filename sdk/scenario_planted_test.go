//go:build !planted

package sdk_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/sdk/internal/planted"
)

// This file is left out of the build that it makes, which must not build itself again.

// TestPlantedBugsBreakScenarios builds these tests with bugs that can be switched on, and
// expects each scenario to fail under every bug that it names, and none to fail when no
// bug is switched on.
func TestPlantedBugsBreakScenarios(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the tests anew and runs them under every bug: left out with -short")
	}
	binary := filepath.Join(t.TempDir(), "sdk.test")
	build := exec.Command("go", "test", "-c", "-tags", "planted", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build with bugs: %v\n%s", err, out)
	}
	byBug := make(map[string][]scenario)
	for _, s := range scenarios() {
		for _, bug := range s.bugs {
			byBug[bug] = append(byBug[bug], s)
		}
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		if out, err := runWithBug(binary, "none", "30s", scenarios()); err != nil {
			t.Errorf("without a bug: %v\n%s", err, out)
		}
	})
	for _, bug := range slices.Sorted(maps.Keys(byBug)) {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			out, err := runWithBug(binary, bug, "3s", byBug[bug])
			for _, s := range byBug[bug] {
				if !strings.Contains(out, fmt.Sprintf("--- FAIL: TestScenario/%v ", s)) {
					t.Errorf("%v does not fail", s)
				}
			}
			if t.Failed() {
				t.Logf("%v\n%s", err, out)
			}
		})
	}
}

// runWithBug runs scenarios in one process. Most of their time is waiting, and those that
// the bug makes wait for ever do so at the same time.
func runWithBug(binary, bug, patience string, rows []scenario) (string, error) {
	var names []string
	for _, s := range rows {
		names = append(names, s.String())
	}
	cmd := exec.Command(binary, "-test.run", "^TestScenario$/^("+strings.Join(names, "|")+")$",
		"-test.parallel", "8", "-test.timeout", "60s", "-patience", patience)
	cmd.Env = append(os.Environ(), planted.EnvBug+"="+bug)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
