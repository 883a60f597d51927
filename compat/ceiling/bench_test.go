package ceiling

import (
	"fmt"
	"testing"
)

// warmFrames open the congestion window and touch every page before anything counts.
const warmFrames = 512

// BenchmarkCeiling sends as fast as acks allow; an operation is a frame of 64 KiB.
func BenchmarkCeiling(b *testing.B) {
	for _, inflight := range []int{5, 8} {
		b.Run(fmt.Sprintf("inflight=%d", inflight), func(b *testing.B) {
			o, err := startBare(b, settings{}, inflight).saturate(b.Loop)
			if err != nil {
				b.Fatal(err)
			}
			o.report(b, "")
		})
	}
}

// BenchmarkCeilingPaced sends 10,000 records a second; an operation is a record. With one
// frame in flight records wait for the ack before; with more they rarely wait.
func BenchmarkCeilingPaced(b *testing.B) {
	const perSecond = 10_000
	for _, inflight := range []int{1, 5} {
		b.Run(fmt.Sprintf("rate=%d/inflight=%d", perSecond, inflight), func(b *testing.B) {
			o, err := startBare(b, settings{}, inflight).paced(b.Loop, perSecond)
			if err != nil {
				b.Fatal(err)
			}
			o.report(b, "")
		})
	}
}

// BenchmarkCeilingReceive shows what receive offload at the server is worth end to end;
// the bare contender goes without. An operation is a turn of each.
func BenchmarkCeilingReceive(b *testing.B) {
	offload := startBare(b, settings{}, 8)
	plain := startBare(b, settings{Plain: true}, 8)
	versus(b, offload.saturate, plain.saturate)
}

// startBare starts a bare server and its client, warmed up.
func startBare(b *testing.B, s settings, inflight int) *client {
	b.Helper()
	s.Dir, s.StoreBytes = b.TempDir(), 128<<20
	c := startClient(b, startChild(b, "ceiling", s), inflight)
	if _, err := c.saturate(times(warmFrames)); err != nil {
		b.Fatal(err)
	}
	return c
}
