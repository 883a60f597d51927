package retired

import (
	"math/rand/v2"
	"testing"
)

func TestNextPlan(t *testing.T) {
	many := func(rows ...uint64) (all []entry) {
		for _, n := range rows {
			all = append(all, entry{rows: n})
		}
		return all
	}
	withNames := many(60, 50)
	withNames[0].named = 20
	rows := []struct {
		why  string
		runs []entry
		max  uint64
		want plan
		due  bool
	}{
		{"nothing is there", nil, 100, plan{}, false},
		{"few runs stay", many(1, 1, 1, 1), 100, plan{}, false},
		{"equal ones become one", many(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), 100, plan{0, 12, 0}, true},
		{"a large one stays", many(50, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), 100, plan{1, 12, 0}, true},
		{"no more than a quarter comes of it", many(20, 20, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2), 100, plan{2, 12, 0}, true},
		{"two always, how large they may be", many(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 300, 300), 610, plan{10, 12, 0}, true},
		{"back over those that are larger than what is newer", many(99, 88, 77, 66, 55, 44, 33, 22, 20, 15, 10, 1), 1000, plan{4, 12, 0}, true},
		{"one row too many goes with an eighth", many(60, 41), 100, plan{0, 2, 13}, true},
		{"all are looked at, as any may be void", many(5, 5, 91), 100, plan{0, 3, 13}, true},
		{"just as many as may be", many(60, 40), 100, plan{}, false},
		{"named ones do not count", withNames, 100, plan{}, false},
		{"dropping comes before merging", many(20, 20, 20, 20, 20, 20, 1, 1, 1, 1, 1, 1, 1), 100, plan{0, 13, 39}, true},
	}
	for _, r := range rows {
		t.Run(r.why, func(t *testing.T) {
			if got, due := nextPlan(r.runs, r.max); got != r.want || due != r.due {
				t.Errorf("%+v %v, want %+v %v", got, due, r.want, r.due)
			}
		})
	}
}

// TestPlansKeepWritesFew plays puts of several sizes without any file.
func TestPlansKeepWritesFew(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	rows := []struct {
		why   string
		puts  int
		size  func() uint64
		bound float64 // times that a row is written
	}{
		{"a million rows in groups", 3906, func() uint64 { return 256 }, 7},
		{"ten million rows in groups, most dropped", 39_062, func() uint64 { return 256 }, 12},
		{"groups of all sizes", 20_000, func() uint64 { return 1 + r.Uint64N(500) }, 12},
		{"one by one", 100_000, func() uint64 { return 1 }, 14},
	}
	for _, row := range rows {
		t.Run(row.why, func(t *testing.T) {
			const most = 1_000_000
			var runs []entry
			put, wrote := uint64(0), uint64(0)
			for range row.puts {
				for p, due := nextPlan(runs, most); due; p, due = nextPlan(runs, most) {
					n := uint64(0)
					for _, e := range runs[p.from:p.to] {
						n += e.rows
					}
					n -= p.drop
					wrote += n
					runs = append(append(runs[:p.from:p.from], entry{rows: n}), runs[p.to:]...)
				}
				n := row.size()
				put, wrote = put+n, wrote+n
				runs = append(runs, entry{rows: n})
				if len(runs) > maxRuns {
					t.Fatalf("%d runs", len(runs))
				}
			}
			if times := float64(wrote) / float64(put); times > row.bound {
				t.Errorf("each row was written %.1f times", times)
			} else {
				t.Logf("each row was written %.1f times", times)
			}
		})
	}
}
