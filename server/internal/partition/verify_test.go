package partition

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// self is the partition of the snapshots.
var self = producerstate.Partition{TopicID: [16]byte{1}, Number: 3}

func TestVerifySnapshots(t *testing.T) {
	const lost = "the history of the producers is lost: the log begins at offset 50"
	for _, row := range []struct {
		name       string
		ends       []batchfmt.Offset          // of the snapshots
		named      map[batchfmt.Offset]string // what some are called instead
		torn       batchfmt.Offset            // end of one that is torn
		start, end batchfmt.Offset
		want       []string // beginnings of the findings
	}{
		{name: "none, of a whole log", end: 100},
		{name: "within the log", ends: []batchfmt.Offset{60, 100}, start: 50, end: 100},
		{name: "where the log begins", ends: []batchfmt.Offset{50}, start: 50, end: 100},
		{name: "an older one from before the start", ends: []batchfmt.Offset{20, 60}, start: 50, end: 100},
		{name: "beyond the end", ends: []batchfmt.Offset{101}, end: 100,
			want: []string{"producers-00000000000000000101.snap: it reaches beyond the end of the log"}},
		{name: "called by another end", ends: []batchfmt.Offset{60}, named: map[batchfmt.Offset]string{60: "producers-00000000000000000070.snap"}, end: 100,
			want: []string{"producers-00000000000000000070.snap: it ends at offset 60, and should be called producers-00000000000000000060.snap"}},
		{name: "called by no end", ends: []batchfmt.Offset{60}, named: map[batchfmt.Offset]string{60: "producers-60.snap"}, end: 100,
			want: []string{"producers-60.snap: it ends at offset 60"}},
		{name: "torn, of a whole log", ends: []batchfmt.Offset{60}, torn: 60, end: 100,
			want: []string{"producers-00000000000000000060.snap: "}},
		{name: "the newest torn, and an older one reaches the start", ends: []batchfmt.Offset{60, 70}, torn: 70, start: 50, end: 100,
			want: []string{"producers-00000000000000000070.snap: "}},
		{name: "none, and the log has lost its start", start: 50, end: 100, want: []string{lost}},
		{name: "only from before the start", ends: []batchfmt.Offset{20, 40}, start: 50, end: 100, want: []string{lost}},
		{name: "the only one that reaches the start is torn", ends: []batchfmt.Offset{20, 60}, torn: 60, start: 50, end: 100,
			want: []string{"producers-00000000000000000060.snap: ", lost}},
		{name: "the newest beyond the end is taken and then of no use", ends: []batchfmt.Offset{60, 101}, start: 50, end: 100,
			want: []string{"producers-00000000000000000101.snap: it reaches", lost}},
	} {
		t.Run(row.name, func(t *testing.T) {
			fsys := vfs.NewMem()
			must(t, fsys.MkdirAll("p"))
			for _, end := range row.ends {
				name := row.named[end]
				if name == "" {
					name = snapshotName(end)
				}
				b := producerstate.AppendSnapshot(nil, producerstate.New(producerstate.Limits{}), self, end)
				if end == row.torn {
					b = b[:len(b)-1]
				}
				f, err := fsys.Create(filepath.Join("p", name))
				must(t, err)
				_, err = f.WriteAt(b, 0)
				must(t, err)
				must(t, f.Close())
			}
			r, err := VerifySnapshots(fsys, "p", &self, row.start, row.end)
			must(t, err)
			var got []string
			for _, f := range r.Findings {
				got = append(got, f.String())
			}
			if !slices.EqualFunc(got, row.want, strings.HasPrefix) || r.Count != len(row.ends) {
				t.Errorf("%d snapshots, findings %q, want %q", r.Count, got, row.want)
			}
		})
	}
}

// A snapshot knows how far the retired table had come: less than that is a loss.
func TestVerifySnapshotsTellsOfTheRetiredTable(t *testing.T) {
	fsys := vfs.NewMem()
	must(t, fsys.MkdirAll("p"))
	for end, generation := range map[batchfmt.Offset]uint64{60: 7, 70: 9} {
		state := producerstate.New(producerstate.Limits{})
		state.SetRetired(generation)
		must(t, storeSnapshot(fsys, "p", &self, &pendingSnapshot{end: end, bytes: producerstate.AppendSnapshot(nil, state, self, end)}))
	}
	if r, err := VerifySnapshots(fsys, "p", &self, 0, 100); err != nil || r.Retired != 9 || len(r.Findings) > 0 {
		t.Errorf("got %+v, %v", r, err)
	}
}

// The lanes of another partition would be believed as well, so they must not be taken.
func TestVerifySnapshotsOfAnotherPartition(t *testing.T) {
	fsys := vfs.NewMem()
	must(t, fsys.MkdirAll("p"))
	state := producerstate.New(producerstate.Limits{})
	must(t, storeSnapshot(fsys, "p", &self, &pendingSnapshot{end: 60, bytes: producerstate.AppendSnapshot(nil, state, self, 60)}))
	other := producerstate.Partition{TopicID: self.TopicID, Number: 4}
	for _, row := range []struct {
		name     string
		of       *producerstate.Partition
		findings int
	}{{"its own", &self, 0}, {"another one", &other, 1}, {"it is not known which", nil, 0}} {
		if r, err := VerifySnapshots(fsys, "p", row.of, 0, 100); err != nil || len(r.Findings) != row.findings {
			t.Errorf("%s: %+v, %v", row.name, r, err)
		}
	}
}
