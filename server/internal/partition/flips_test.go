package partition

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/compat/campaign"
)

// TestEveryBitOfTheRetiredTableFlips: a lane whose row cannot be trusted is not known any more,
// or not how it ended. It is never taken for a new one, nor for one that ended earlier.
func TestEveryBitOfTheRetiredTableFlips(t *testing.T) {
	step := 251
	switch {
	case everyFault():
		step = 1
	case testing.Short():
		step = 251 * 13
	}
	eachRotten(t, func(t *testing.T, x *rotten, run *campaign.Run) {
		x.damaged = true
		for i, name := range x.table() {
			whole := x.files[name]
			for bit := i; bit < 8*len(whole); bit += step {
				b := []byte(whole)
				b[bit/8] ^= 1 << (bit % 8)
				x.wantNoGuess(map[string]string{name: string(b)}, fmt.Sprintf("bit %d of %s, %d bytes", bit, name, len(whole)))
				run.Count("flips", 1)
			}
		}
	})
}

// TestFilesOfTheRetiredTableAreGone: without any of its files, and without all of them.
func TestFilesOfTheRetiredTableAreGone(t *testing.T) {
	eachRotten(t, func(t *testing.T, x *rotten, run *campaign.Run) {
		x.damaged = true
		all := map[string]string{}
		for _, name := range x.table() {
			all[name] = ""
			x.wantNoGuess(map[string]string{name: ""}, name+" is gone")
			for _, size := range []int{1, len(x.files[name]) / 2, len(x.files[name]) - 1} {
				x.wantNoGuess(map[string]string{name: x.files[name][:size]}, fmt.Sprintf("%s has %d bytes", name, size))
				run.Count("disks", 1)
			}
		}
		x.wantNoGuess(all, "the whole table is gone")
		run.Count("disks", len(all)+1)
	})
}

// table are the files of the retired table.
func (x *rotten) table() []string {
	var names []string
	for name := range x.files {
		if strings.HasPrefix(name, "retired") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) < 2 {
		x.t.Fatalf("seed %d: no lane has left memory: %v", x.seed, names)
	}
	return names
}

// wantNoGuess expects that nothing is told that is not so, and that nothing is stored twice.
func (x *rotten) wantNoGuess(change map[string]string, what string) {
	x.t.Helper()
	x.look(state{mem: x.disk(change), fates: x.mu.fates, ended: x.mu.ended, what: what})
}
