package session

import (
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

// A refusal must not name the wrong side: who upgrades a reader that is newer than the server
// gets nowhere.
func TestRemedyNamesTheOlderSide(t *testing.T) {
	for _, test := range []struct {
		name  string
		reads []batchfmt.Version
		batch batchfmt.Version
		want  string
	}{
		{"the reader is older than the batch", []batchfmt.Version{1}, 2, "upgrade the reader"},
		{"the server is older than the reader", []batchfmt.Version{9}, 1,
			"the reader knows none below 9, and this server none above 2: upgrade the server, or let the reader accept version 1 as well"},
		{"the same, of several", []batchfmt.Version{9, 3, 4}, 2,
			"the reader knows none below 3, and this server none above 2: upgrade the server, or let the reader accept version 2 as well"},
		{"the reader leaves out what is old", []batchfmt.Version{2}, 1, "let the reader accept version 1 as well"},
		{"the reader leaves out what is between", []batchfmt.Version{9, 1}, 2, "let the reader accept version 2 as well"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := remedy(test.reads, test.batch); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
