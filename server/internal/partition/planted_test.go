package partition

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/server/internal/planted"
)

// TestPlantedBugsAreCaught builds these tests with bugs that can be switched on, and expects
// each to be caught by the tests that are there for it, and none to be seen when none is
// switched on.
func TestPlantedBugsAreCaught(t *testing.T) {
	if os.Getenv(planted.EnvBug) != "" {
		return // this is the build with the bug: it must not build itself again
	}
	binary := filepath.Join(t.TempDir(), "partition.test")
	build := exec.Command("go", "test", "-c", "-tags", "planted", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build with bugs: %v\n%s", err, out)
	}
	rows := []struct{ bug, test string }{
		{planted.NameDedupOff, "TestCrashAtEveryCall"},
		{planted.NameEarlyAck, "TestCrashAtEveryCall"},
		{planted.NameEarlyDuplicate, "TestCrashAtEveryCall"},
		{planted.NameEarlyConflict, "TestCrashAtEveryCall"},
		{planted.NameEarlySnapshot, "TestCrashAtEveryCall"},
		{planted.NameLostWindow, "TestCrashAtEveryCall"},
		{planted.NameNoReplay, "TestCrashAtEveryCall"},
		{planted.NameConflictTaken, "TestCrashAtEveryCall"},
		{planted.NameGapAccepted, "TestCrashAtEveryCall"},
		{planted.NameWindowOnly, "TestCrashAtEveryCall"},
		{planted.NameNoDirSync, "TestCrashAtEveryCall"},
		{planted.NameTruncateFirst, "TestCrashWithinRecovery"},
		{planted.NameUncheckedSnapshot, "TestEveryBitOfASnapshotFlips"},
		{planted.NameUncheckedSnapshot, "TestSnapshotIsTorn"},
		{planted.NameNoReplay, "TestSnapshotsThatCannotBeUsed"},
		{planted.NameCheckpointIgnored, "TestLogEndsBeforeItsSnapshot"},
		{planted.NameLostIsStored, "TestLogEndsBeforeItsSnapshot"},
		{planted.NameEarlyState, "TestEveryCallFailsWithEIO"},
		{planted.NameEarlyState, "TestEveryCallFailsWithENOSPC"},
		{planted.NameEarlyState, "TestDiskFillsUpAndIsFreed"},
		{planted.NameLostUndo, "TestDiskFillsUpAndIsFreed"},
		{planted.NameRetryFailedSync, "TestEverySyncFails"},
		{planted.NameRetryFailedSync, "TestFailedSyncStopsThePartition"},
		{planted.NameTrustUnsyncedTail, "TestFailedSyncStopsThePartition"},
	}
	for _, row := range rows {
		t.Run(row.bug+"/"+row.test, func(t *testing.T) {
			out, err := runBuilt(binary, row.test, row.bug)
			if err == nil {
				t.Errorf("the bug was not caught:\n%s", out)
			}
			if !strings.Contains(out, "--- FAIL: "+row.test) {
				t.Errorf("the run failed without the test failing: %v\n%s", err, out)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		tests := "TestCrash.*|TestEvery.*|TestSnapshotIsTorn|TestSnapshotsThatCannotBeUsed|TestLogEndsBeforeItsSnapshot|TestFailedSync.*|TestDiskFillsUp.*"
		if out, err := runBuilt(binary, tests, "none"); err != nil {
			t.Errorf("without a bug: %v\n%s", err, out)
		}
	})
}

func runBuilt(binary, test, bug string) (string, error) {
	cmd := exec.Command(binary, "-test.run", "^("+test+")$", "-test.timeout", "1m", "-test.failfast")
	if bug == "none" {
		cmd.Args = append(cmd.Args, "-test.short")
	}
	cmd.Env = append(os.Environ(), planted.EnvBug+"="+bug)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
