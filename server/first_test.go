package server_test

import (
	"testing"

	"github.com/quoin-io/quoin/wire"
)

// Rows 15 and 19 for the very first batches of a lane: nothing is stored yet, and nothing
// was ever forgotten here, so what comes is early and not unknown.

func TestOvertakingTheFirstBatch(t *testing.T) {
	f := setUp(t)
	f.lane.Produce(f.batch(t, 2, two(2)...))
	r := f.lane.Result()
	if r.Code != wire.CodeOutOfOrder || r.Expected != 0 {
		t.Errorf("%v (%s), expected %d; want OUT_OF_ORDER_SEQUENCE_NUMBER, 0", r.Code, r.Detail, r.Expected)
	}
	f.stored(t, 0, 2)
}

func TestFirstBatchIsRefusedForNow(t *testing.T) {
	f := setUp(t)
	f.FillDisk()
	f.lane.Produce(f.batch(t, 0, two(0)...))
	wantCode(t, f.lane.Result(), wire.CodeDiskFull)
	for _, seq := range []int64{2, 4} {
		f.lane.Produce(f.batch(t, 2, two(2)...))
		r := f.lane.Result()
		if r.Code != wire.CodeOutOfOrder || r.Expected != 0 {
			t.Errorf("sequence %d: %v (%s), expected %d; want OUT_OF_ORDER_SEQUENCE_NUMBER, 0", seq, r.Code, r.Detail, r.Expected)
		}
	}
	f.FreeDisk()
	f.stored(t, 0, 3)
}
