package server_test

import (
	"testing"

	"github.com/quoin-io/quoin/server/internal/catalog"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/wire"
)

// Row 31 from the side of the older instance: the name has moved to a new id, and the holder
// of the last epoch of the old one is fenced as any other.
func TestHolderOfTheLastEpochIsFenced(t *testing.T) {
	f := setUpNamed(t)
	id := f.p.ProducerID
	f.c.Conn.CloseWithError(0, "")
	f.RestartWith(func() { setEpoch(t, f.Data(), id, catalog.MaxEpoch-1) })
	f.c = rawclient.Dial(t, f.URL())
	f.p = mustName(t, f.c, "checkout", 2)
	f.lane = f.c.Lane(f.p, f.topic, 0, -1)
	f.stored(t, 0, 1)
	if next := mustName(t, f.c, "checkout", 3); next.ProducerID == id {
		t.Fatalf("the name has kept its id: %+v", next)
	}
	f.lane.Produce(f.batch(t, 2, two(2)...))
	wantCode(t, f.lane.Result(), wire.CodeInvalidProducerEpoch)
	f.wantLog(t, 1)
}
