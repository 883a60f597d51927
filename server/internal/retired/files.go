package retired

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	headName   = "retired.head"
	runPrefix  = "retired-"
	runSuffix  = ".tab"
	badSuffix  = ".bad"
	tempSuffix = ".tmp"
)

func runName(number uint64) string { return fmt.Sprintf("%s%06d%s", runPrefix, number, runSuffix) }

func badName(run string) string { return strings.TrimSuffix(run, runSuffix) + badSuffix }

// Owns reports whether a file of this base name is one of a retired table's, damaged and
// temporary ones included.
func Owns(base string) bool {
	base = strings.TrimSuffix(base, tempSuffix)
	if base == headName {
		return true
	}
	for _, suffix := range []string{runSuffix, badSuffix} {
		if _, ok := numberOf(base, suffix); ok {
			return true
		}
	}
	return false
}

// numberOf reads the number from the base name of a run. Only the spelling that runName has
// counts.
func numberOf(base, suffix string) (uint64, bool) {
	middle, ok := strings.CutPrefix(base, runPrefix)
	if !ok {
		return 0, false
	}
	if middle, ok = strings.CutSuffix(middle, suffix); !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(middle, 10, 63)
	return n, err == nil && n > 0 && fmt.Sprintf("%06d", n) == middle
}

// files are those of a table that stand in its directory.
type files struct {
	runs    []uint64 // rising
	temps   []string
	head    bool
	highest uint64 // of all numbers that were ever seen in a name
}

func sortNames(bases []string) files {
	var f files
	for _, base := range bases {
		if !Owns(base) {
			continue
		}
		whole := strings.TrimSuffix(base, tempSuffix)
		n, isRun := numberOf(whole, runSuffix)
		bad, _ := numberOf(whole, badSuffix)
		f.highest = max(f.highest, n, bad)
		switch {
		case whole != base:
			f.temps = append(f.temps, base)
		case base == headName:
			f.head = true
		case isRun:
			f.runs = append(f.runs, n)
		}
	}
	return f
}

func (t *Table) path(base string) string { return filepath.Join(t.dir, base) }
