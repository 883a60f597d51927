package sdk_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// A scenario is one thing that happens to producers in the field, with the one outcome that
// is right. The numbers are those by which people speak of them; those that are missing are
// in the server's SCENARIOS.md.
type scenario struct {
	row     int
	name    string
	outcome string   // for SCENARIOS.md
	bugs    []string // planted bugs under each of which the story must fail
	story   func(t *testing.T)
}

func (s scenario) String() string { return fmt.Sprintf("%02d-%s", s.row, s.name) }

// scenarios are all of them by number. Their stories stand in the files of their subject.
func scenarios() []scenario {
	all := slices.Concat(laneScenarios, outcomeScenarios, topicScenarios, namedScenarios)
	slices.SortFunc(all, func(a, b scenario) int { return a.row - b.row })
	return all
}

func TestScenario(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			s.story(t)
		})
	}
}

func init() {
	flag.DurationVar(&testTimeout, "patience", testTimeout, "how long to wait for what must come")
}

var rewrite = flag.Bool("rewrite", false, "write SCENARIOS.md anew")

const scenariosFile = "SCENARIOS.md"

const scenariosHead = `# Scenarios of the producer

What happens to producers in the field, and the one right outcome. Each row is a test of the whole path: this package,
real QUIC, a real server and real files: ` + "`go test ./sdk -run TestScenario/NN`" + `. Under each of the planted bugs that it
names the test fails; ` + "`TestPlantedBugsBreakScenarios`" + ` shows that. What the server answers for itself is in
[its own table](../server/SCENARIOS.md). This file is written by
` + "`go test ./sdk -run TestScenariosFile -rewrite`" + `.

| # | test | outcome | fails under |
|---|---|---|---|
`

func TestScenariosFile(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(scenariosHead)
	last := 0
	for _, s := range scenarios() {
		if s.row == last {
			t.Errorf("there are two rows %d", s.row)
		}
		if len(s.bugs) == 0 || s.outcome == "" {
			t.Errorf("%v names no bug, or no outcome", s)
		}
		last = s.row
		fmt.Fprintf(&b, "| %d | `%v` | %s | %s |\n", s.row, s, s.outcome, strings.Join(s.bugs, ", "))
	}
	if *rewrite {
		if err := os.WriteFile(scenariosFile, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(scenariosFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, b.Bytes()) {
		t.Error("SCENARIOS.md is not what the tests say: run this test with -rewrite")
	}
}
