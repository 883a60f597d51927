//go:build !planted

package sdk_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk/internal/planted"
)

// This file is left out of the build that it makes, which must not build itself again.

// How long a scenario waits for what must come. Under a bug it may wait for ever, so it is short;
// but what a slow machine makes fail is not caught, so it is long enough for the control.
const (
	firstPatience = 3 * time.Second
	lastPatience  = 24 * time.Second
)

// none is the control: the build with bugs, and no bug switched on.
const none = "none"

// TestPlantedBugsBreakScenarios builds these tests with bugs that can be switched on, and
// expects each scenario to fail under every bug that it names, and none to fail when no
// bug is switched on. A round counts only if that holds of the control in the same round, with
// the same patience and beside the others; else there is another one with twice the patience.
func TestPlantedBugsBreakScenarios(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the tests anew and runs them under every bug: left out with -short")
	}
	binary := filepath.Join(t.TempDir(), "sdk.test")
	build := exec.Command("go", "test", "-c", "-tags", "planted", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build with bugs: %v\n%s", err, out)
	}
	byBug := map[string][]scenario{none: scenarios()}
	for _, s := range scenarios() {
		for _, bug := range s.bugs {
			byBug[bug] = append(byBug[bug], s)
		}
	}
	var round map[string]run
	for patience := firstPatience; ; patience *= 2 {
		round = runAll(binary, patience, byBug)
		if round[none].err == nil || patience >= lastPatience {
			break
		}
		t.Logf("without a bug, a patience of %v is too short: %v", patience, round[none].err)
	}
	for _, bug := range slices.Sorted(maps.Keys(byBug)) {
		t.Run(bug, func(t *testing.T) {
			r := round[bug]
			if bug == none && r.err != nil {
				t.Error("the control fails")
			}
			for _, s := range byBug[bug] {
				if bug != none && !strings.Contains(r.out, fmt.Sprintf("--- FAIL: TestScenario/%v ", s)) {
					t.Errorf("%v does not fail", s)
				}
			}
			if t.Failed() {
				t.Logf("%v\n%s", r.err, r.out)
			}
		})
	}
}

// A run is what came of the scenarios under one bug.
type run struct {
	out string
	err error
}

// runAll runs the scenarios under every bug, as many at a time as there are processors. The
// control comes second, so that others run beside it; when it fails they are ended, unless this is
// the last round.
func runAll(binary string, patience time.Duration, byBug map[string][]scenario) map[string]run {
	bugs := slices.Sorted(maps.Keys(byBug))
	bugs = slices.DeleteFunc(bugs, func(bug string) bool { return bug == none })
	bugs = slices.Insert(bugs, 1, none)
	all := make(map[string]run)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	turn := make(chan struct{}, max(runtime.GOMAXPROCS(0), 2))
	for _, bug := range bugs {
		turn <- struct{}{}
		wg.Go(func() {
			r := runWithBug(ctx, binary, bug, patience, byBug[bug])
			if bug == none && r.err != nil && patience < lastPatience {
				cancel()
			}
			<-turn
			mu.Lock()
			defer mu.Unlock()
			all[bug] = r
		})
	}
	wg.Wait()
	return all
}

// runWithBug runs scenarios in one process. Most of their time is waiting, and those that
// the bug makes wait for ever do so at the same time.
func runWithBug(ctx context.Context, binary, bug string, patience time.Duration, rows []scenario) run {
	var names []string
	for _, s := range rows {
		names = append(names, s.String())
	}
	cmd := exec.CommandContext(ctx, binary, "-test.run", "^TestScenario$/^("+strings.Join(names, "|")+")$",
		"-test.parallel", "8", "-test.timeout", "120s", "-patience", patience.String())
	cmd.Env = append(os.Environ(), planted.EnvBug+"="+bug)
	out, err := cmd.CombinedOutput()
	return run{string(out), err}
}
