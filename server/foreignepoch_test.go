package server_test

import (
	"testing"

	"github.com/quoin-io/quoin/wire"
)

// An earlier holder may settle what it sealed itself; it must not fence the present one.
func TestZombieCannotFenceTheHolder(t *testing.T) {
	f := setUpNamed(t)
	f.stored(t, 0, 1)
	first := *f.p
	f.takeOver(t)
	m := f.asking(t, f.batch(t, 2, "never sent by anybody")) // sealed with epoch 1, the second instance's
	m.Key, m.Settle = first.Key, true
	t.Logf("the zombie settles: %+v", f.c.Request(m))
	f.lane.Produce(f.batch(t, 2, two(2)...))
	if r := f.lane.Result(); r.Code != wire.CodeOK {
		t.Fatalf("the holder of epoch 1 is refused: %v, expected %d", r.Code, r.Expected)
	}
}
