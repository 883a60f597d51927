package sdk

import (
	"errors"
	"slices"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

func TestPagesOfProducers(t *testing.T) {
	lost := errors.New("lost")
	page := func(more bool, ids ...batchfmt.ProducerID) *wire.ProducersDescribed {
		p := &wire.ProducersDescribed{More: more, Retired: uint64(len(ids)), Forgotten: 3}
		for _, id := range ids {
			p.Lanes = append(p.Lanes, wire.LaneInfo{ProducerID: id})
		}
		return p
	}
	for _, row := range []struct {
		name  string
		pages []*wire.ProducersDescribed // nil for an error
		after []batchfmt.ProducerID      // what was asked for
		want  []uint64                   // nil for an error
	}{
		{"one page", []*wire.ProducersDescribed{page(false, 4, 9)}, []batchfmt.ProducerID{0}, []uint64{4, 9}},
		{"the next page is behind the last lane", []*wire.ProducersDescribed{page(true, 4, 9), page(false, 12)}, []batchfmt.ProducerID{0, 9}, []uint64{4, 9, 12}},
		{"more of nothing is the end", []*wire.ProducersDescribed{page(true, 4), page(true)}, []batchfmt.ProducerID{0, 4}, []uint64{4}},
		{"the same page again", []*wire.ProducersDescribed{page(true, 4, 9), page(true, 4, 9)}, []batchfmt.ProducerID{0, 9}, nil},
		{"not sorted", []*wire.ProducersDescribed{page(true, 9, 4)}, []batchfmt.ProducerID{0}, nil},
		{"an error leaves no half of a list", []*wire.ProducersDescribed{page(true, 4), nil}, []batchfmt.ProducerID{0, 4}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			var asked []batchfmt.ProducerID
			got, err := allLanes(func(after batchfmt.ProducerID) (*wire.ProducersDescribed, error) {
				asked = append(asked, after)
				if p := row.pages[len(asked)-1]; p != nil {
					return p, nil
				}
				return nil, lost
			})
			var ids []uint64
			for _, l := range got.Lanes {
				ids = append(ids, l.ProducerID)
			}
			if (err == nil) != (row.want != nil) || !slices.Equal(ids, row.want) || !slices.Equal(asked, row.after) {
				t.Errorf("asked behind %v, got %v, %v", asked, ids, err)
			}
		})
	}
}
