//go:build !planted

package model

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/server/internal/planted"
	"github.com/quoin-io/quoin/server/internal/rawclient"
)

// This file is left out of the build that it makes, which must not build itself again.

// TestPlantedBugsAreCaught builds the model with bugs that can be switched on, and expects
// each to be found within some worlds of a seed that meets it early, and nothing to be
// found when none is switched on.
func TestPlantedBugsAreCaught(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "model.test")
	build := exec.Command("go", "test", "-c", "-tags", "planted", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build with bugs: %v\n%s", err, out)
	}
	rows := []struct{ bug, seed string }{
		{planted.NameWindowOffByOne, "4"},
		{planted.NameEarlyState, "21"},
		{planted.NameEarlyDuplicate, "7"},
		{planted.NameEvictWithoutRow, "2"},
		{planted.NameSnapshotBeyondEnd, "1"},
		{planted.NameFenceNotAwaited, "2"},
		{planted.NameForgottenIsNew, "22"},
		{bugSendsUnknownAgain, "5"},
		{planted.NameConflictTaken, "1"},
		{planted.NameEarlyConflict, "2"},
		{planted.NameLostIsStored, "23"},
		{planted.NameLostWindow, "63"},
		{planted.NameNoReplay, "1"},
		{planted.NameResolveGuesses, "3"},
		{planted.NameRightsOff, "1"},
		{planted.NameSlotLeak, "1"},
	}
	for _, row := range rows {
		t.Run(row.bug, func(t *testing.T) {
			out, err := runWithBug(binary, row.bug, row.seed, "15", "3s")
			if err == nil || !strings.Contains(out, "--- FAIL: TestModel/") {
				t.Errorf("the bug was not found: %v\n%s", err, out)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		if out, err := runWithBug(binary, "none", "1", "5", rawclient.Patience.String()); err != nil {
			t.Errorf("without a bug: %v\n%s", err, out)
		}
	})
}

func runWithBug(binary, bug, seed, worlds, patience string) (string, error) {
	cmd := exec.Command(binary, "-test.run", "^TestModel$", "-test.timeout", "60s", "-patience", patience, "-seed", seed, "-worlds", worlds)
	cmd.Env = append(os.Environ(), planted.EnvBug+"="+bug)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
