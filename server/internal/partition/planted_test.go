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
	rows := []struct{ bug, test, seed string }{ // the seed is one that does not take long
		{planted.NameDedupOff, "TestCrashAtEveryCall", "0"},
		{planted.NameEarlyAck, "TestCrashAtEveryCall", "0"},
		{planted.NameEarlyDuplicate, "TestCrashAtEveryCall", "3"},
		{planted.NameEarlyConflict, "TestCrashAtEveryCall", "21"},
		{planted.NameEarlySnapshot, "TestCrashAtEveryCall", "30"},
		{planted.NameLostWindow, "TestCrashAtEveryCall", "0"},
		{planted.NameNoReplay, "TestCrashAtEveryCall", "0"},
		{planted.NameConflictTaken, "TestCrashAtEveryCall", "0"},
		{planted.NameGapAccepted, "TestCrashAtEveryCall", "0"},
		{planted.NameWindowOnly, "TestCrashAtEveryCall", "19"},
		{planted.NameNoDirSync, "TestCrashAtEveryCall", "0"},
		{planted.NameFenceNotAwaited, "TestCrashAtEveryCall", "0"},
		{planted.NameFenceIgnored, "TestCrashAtEveryCall", "0"},
		{planted.NameResolveGuesses, "TestCrashAtEveryCall", "4"},
		{planted.NameEvictWithoutRow, "TestCrashAtEveryCall", "0"},
		{planted.NameForgottenIsNew, "TestCrashAtEveryCall", "4"},
		{planted.NameForgottenNotRemembered, "TestCrashAtEveryCall", "4"},
		{planted.NameMergeRemovesFirst, "TestCrashAtEveryCall", "1"},
		{planted.NameIndexLaneAccepts, "TestForgottenBehindAFence", "0"},
		{planted.NameIndexLaneAccepts, "TestForgottenAndRemoved", "0"},
		{planted.NameIndexLaneAccepts, "TestCrashAtEveryCall", "4"},
		{planted.NameIndexesUnasked, "TestForgottenButStored", "0"},
		{planted.NameIndexesUnasked, "TestCrashAtEveryCall", "4"},
		{planted.NameTruncateFirst, "TestCrashWithinRecovery", "0"},
		{planted.NameForgottenIsNew, "TestEveryBitOfTheRetiredTableFlips", "0"},
		{planted.NameForgottenIsNew, "TestFilesOfTheRetiredTableAreGone", "0"},
		{planted.NameUncheckedSnapshot, "TestEveryBitOfASnapshotFlips", "0"},
		{planted.NameUncheckedSnapshot, "TestSnapshotIsTorn", "0"},
		{planted.NameNoReplay, "TestSnapshotsThatCannotBeUsed", "0"},
		{planted.NameCheckpointIgnored, "TestLogEndsBeforeItsSnapshot", "0"},
		{planted.NameLostIsStored, "TestLogEndsBeforeItsSnapshot", "0"},
		{planted.NameEarlyState, "TestEveryCallFailsWithEIO", "0"},
		{planted.NameEarlyState, "TestEveryCallFailsWithENOSPC", "0"},
		{planted.NameEarlyState, "TestDiskFillsUpAndIsFreed", "0"},
		{planted.NameLostUndo, "TestDiskFillsUpAndIsFreed", "36"},
		{planted.NameUnreadAsNew, "TestEveryReadOfARowFails", "20"},
		{planted.NameRetryFailedSync, "TestEverySyncFails", "0"},
		{planted.NameRetryFailedSync, "TestFailedSyncStopsThePartition", "0"},
		{planted.NameTrustUnsyncedTail, "TestFailedSyncStopsThePartition", "0"},
	}
	for _, row := range rows {
		t.Run(row.bug+"/"+row.test, func(t *testing.T) {
			out, err := runBuilt(binary, row.test, row.bug, row.seed)
			if err == nil {
				t.Errorf("the bug was not caught:\n%s", out)
			}
			if !strings.Contains(out, "--- FAIL: "+row.test) {
				t.Errorf("the run failed without the test failing: %v\n%s", err, out)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		tests := "TestCrash.*|TestEvery.*|TestSnapshotIsTorn|TestSnapshotsThatCannotBeUsed|TestFilesOfTheRetiredTableAreGone|TestLogEndsBeforeItsSnapshot|TestFailedSync.*|TestDiskFillsUp.*|TestForgotten.*"
		if out, err := runBuilt(binary, tests, "none", "0"); err != nil {
			t.Errorf("without a bug: %v\n%s", err, out)
		}
	})
}

func runBuilt(binary, test, bug, seed string) (string, error) {
	cmd := exec.Command(binary, "-test.run", "^("+test+")$", "-test.timeout", "1m", "-test.failfast", "-seed", seed)
	if bug == "none" {
		cmd.Args = append(cmd.Args, "-test.short")
	}
	cmd.Env = append(os.Environ(), planted.EnvBug+"="+bug)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
