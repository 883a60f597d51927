package main

import (
	"fmt"
	"sync/atomic"

	"github.com/quoin-io/quoin/sdk"
)

// A tally counts what became of the numbers of this run.
type tally struct {
	appended, duplicates, failed atomic.Int64
	stop                         func(error) // called with each failure
}

// outcome is the callback of every number.
func (t *tally) outcome(ack sdk.Ack, err error) {
	switch {
	case err != nil:
		t.failed.Add(1)
		t.stop(err)
	case ack.Duplicate:
		t.duplicates.Add(1)
	default:
		t.appended.Add(1)
	}
}

func (t *tally) String() string {
	appended, duplicates, failed := t.appended.Load(), t.duplicates.Load(), t.failed.Load()
	return fmt.Sprintf("sent %d, appended %d, duplicates %d, failed %d",
		appended+duplicates+failed, appended, duplicates, failed)
}
