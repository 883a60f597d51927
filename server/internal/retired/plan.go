package retired

const (
	// maxRuns is how many runs there are at most while merging succeeds.
	maxRuns = 12
	// hardRuns is how many there are before puts are refused.
	hardRuns = 32
)

// plan is a merge of the runs [from,to), which are neighbours in age. If drop is not 0, they
// are the oldest, and so many rows of theirs are too many.
type plan struct {
	from, to int
	drop     uint64
}

// nextPlan says what there is to do. First match wins.
//
//	more rows than maxRows are not named   all runs: rows that a newer one makes void are too
//	                                       many first, and only all together show which are
//	maxRuns or more                        neighbours at the newer end, see mergeFrom
//	otherwise                              nothing
//
// What is named does not count against maxRows: it could not be dropped.
func nextPlan(runs []entry, maxRows uint64) (plan, bool) {
	loose := uint64(0)
	for _, e := range runs {
		loose += e.rows - e.named
	}
	switch {
	case loose > maxRows:
		return plan{to: len(runs), drop: loose - (maxRows - maxRows/8)}, true
	case len(runs) >= maxRuns:
		return plan{from: mergeFrom(runs, maxRows), to: len(runs)}, true
	}
	return plan{}, false
}

// mergeFrom is the oldest run that is no larger than all newer ones together, if what comes
// of the merge is no more than a quarter of the rows; at least the newest two are merged.
// Runs of equal puts grow so that each row is written again about as often as the number of
// puts needs with so many runs, and not with every few puts.
func mergeFrom(runs []entry, maxRows uint64) int {
	total := uint64(0)
	for _, e := range runs {
		total += e.rows
	}
	most := max(maxRows, total) / 4
	from, sum := len(runs)-2, runs[len(runs)-1].rows
	for i := from; i >= 0; i-- {
		if i < len(runs)-2 && sum+runs[i].rows > most {
			break
		}
		if runs[i].rows <= sum {
			from = i
		}
		sum += runs[i].rows
	}
	return from
}
