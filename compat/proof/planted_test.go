//go:build !planted

package proof

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The bugs are those of package planted in the server; its name is not ours to import.
const envBug = "QUOIN_PLANTED_BUG"

// This file is left out of the build that it makes, which must not build itself again.

// TestPlantedBugsAreCaught builds these tests with bugs that can be switched on, and
// expects each bug to be caught by the test that is there for it, and none to be seen
// when none is switched on.
func TestPlantedBugsAreCaught(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "proof.test")
	build := exec.Command("go", "test", "-c", "-tags", "planted", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build with bugs: %v\n%s", err, out)
	}
	rows := []struct{ bug, test string }{
		{"dedup-off", "TestCutAtEveryFrameBoundary"},
		{"dedup-off", "TestEveryAckIsLostOnce"},
		{"early-state", "TestFailedAppendsLoseNothing"},
		{"early-ack", "TestPowerCutLosesNothingAcknowledged"},
		{"dedup-off", "TestKilledServer"},
		{"same-topic-id", "TestKilledServer"},
		{"left-deletes", "TestKilledServer"},
	}
	if runtime.GOOS == "linux" {
		rows = append(rows, struct{ bug, test string }{"early-state", "TestDiskFillsUp"})
	}
	slots := make(chan struct{}, atATime)
	control := start(slots, binary, "TestFailedAppendsLoseNothing|TestPowerCutLosesNothingAcknowledged|TestKilledServer|TestDiskFillsUp", "none")
	var runs []<-chan ended
	for _, row := range rows {
		runs = append(runs, start(slots, binary, row.test, row.bug, "-patience", "5s")) // what never comes is not waited for long
	}
	for i, row := range rows {
		t.Run(row.bug+"/"+row.test, func(t *testing.T) {
			run := <-runs[i]
			if run.err == nil {
				t.Errorf("the bug was not caught:\n%s", run.out)
			}
			if !strings.Contains(run.out, "--- FAIL: "+row.test) {
				t.Errorf("the run failed without the test failing: %v\n%s", run.err, run.out)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		if run := <-control; run.err != nil {
			t.Errorf("without a bug: %v\n%s", run.err, run.out)
		}
	})
}

// atATime is how many runs go on at once: most of their time is waiting.
const atATime = 4

// ended is a run that is over.
type ended struct {
	out string
	err error
}

// start runs the tests with a bug as soon as there is a slot.
func start(slots chan struct{}, binary, test, bug string, flags ...string) <-chan ended {
	done := make(chan ended, 1)
	go func() {
		slots <- struct{}{}
		out, err := runBuilt(binary, test, bug, flags...)
		<-slots
		done <- ended{out, err}
	}()
	return done
}

func runBuilt(binary, test, bug string, flags ...string) (string, error) {
	cmd := exec.Command(binary, append([]string{"-test.run", "^(" + test + ")$", "-test.timeout", "4m"}, flags...)...)
	cmd.Env = append(os.Environ(), envBug+"="+bug)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
