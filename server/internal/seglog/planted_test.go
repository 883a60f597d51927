package seglog

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/server/internal/planted"
)

// TestPlantedBugsAreCaught builds these tests with bugs that can be switched on, and expects
// each bug to be caught by the tests that are there for it, and none to be seen when none is
// switched on.
func TestPlantedBugsAreCaught(t *testing.T) {
	if os.Getenv(planted.EnvBug) != "" {
		return // this is the build with the bug: it must not build itself again
	}
	binary := filepath.Join(t.TempDir(), "seglog.test")
	build := exec.Command("go", "test", "-c", "-tags", "planted", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build with bugs: %v\n%s", err, out)
	}
	rows := []struct{ bug, test string }{
		{planted.NameNoDirSync, "TestCrashAtEveryCall"},
		{planted.NameTruncateFirst, "TestCrashAtEveryCall"},
		{planted.NameSkipBodyCheck, "TestEndIsTorn"},
		{planted.NameReuseOffsets, "TestEndIsTorn"},
		{planted.NameCutDespiteDurable, "TestEndIsTorn"},
		{planted.NameCutDespiteDurable, "TestEveryBitFlips"},
		{planted.NameUncheckedRead, "TestEveryBitFlips"},
		{planted.NameRetryFailedSync, "TestEverySyncFails"},
		{planted.NameTrustUnsyncedTail, "TestEverySyncFails"},
		{planted.NameNoDirSync, "TestEverySyncOfADirectoryFails"},
		{planted.NameLostUndo, "TestEveryCallFails"},
		{planted.NameLostUndo, "TestDiskFillsUp"},
		{planted.NameTruncateFirst, "TestEveryCallOfRecoveryFails"},
		{planted.NameRewriteNothing, "TestRecoveryWithoutRoom"},
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
		if out, err := runBuilt(binary, "TestCrashAtEveryCall|TestEveryBitFlips|TestEverySyncFails", "none"); err != nil {
			t.Errorf("without a bug: %v\n%s", err, out)
		}
	})
}

func runBuilt(binary, test, bug string) (string, error) {
	cmd := exec.Command(binary, "-test.run", "^("+test+")$", "-test.timeout", "1m", "-test.failfast")
	if bug == "none" || test == "TestEndIsTorn" {
		cmd.Args = append(cmd.Args, "-test.short")
	}
	cmd.Env = append(os.Environ(), planted.EnvBug+"="+bug)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
