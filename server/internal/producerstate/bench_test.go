package producerstate

import (
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

// crowd is a State at its default limit, each lane with six batches of ten.
func crowd() *State {
	s := New(Limits{})
	for pid := range batchfmt.ProducerID(DefaultMaxLanes) {
		s.Opened(pid + 1)
		for i := range batchfmt.Seq(6) {
			s.Apply(of(pid+1, ident(1, i*10, i*10+9)), batchfmt.Offset(i*10), nil)
		}
	}
	return s
}

func of(pid batchfmt.ProducerID, id Identity) Identity {
	id.PID = pid
	return id
}

// spread visits the lanes in an order that no cache likes.
func spread(i int) batchfmt.ProducerID {
	return batchfmt.ProducerID(i*2654435761%DefaultMaxLanes + 1)
}

// BenchmarkDecide finds the lane and decides, among 4,096 lanes.
func BenchmarkDecide(b *testing.B) {
	s := crowd()
	for _, r := range []struct {
		name string
		id   Identity
		want Kind
	}{
		{"accept", ident(1, 60, 69), Accept},
		{"duplicate", ident(1, 30, 39), Duplicate},
		{"conflict", other(ident(1, 30, 39)), Conflict},
		{"look-up", ident(1, 0, 9), LookUp},
	} {
		b.Run(r.name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				pid := spread(i)
				i++
				l := s.Lane(pid)
				right := Right{Holds: true, Opening: l.Opening(), CurrentEpoch: 3}
				if v := Decide(right, l, of(pid, r.id), settled); v.Kind != r.want {
					b.Fatal(v)
				}
			}
		})
	}
}

// BenchmarkApply is one append in a group of 64, with the undo that it costs.
func BenchmarkApply(b *testing.B) {
	s := crowd()
	b.ReportAllocs()
	i := 0
	position := []byte("0123456789abcdef")
	for b.Loop() {
		if i%64 == 0 {
			s.Commit()
			s.Begin()
		}
		pid := spread(i)
		next := s.Lane(pid).Last() + 1
		s.Apply(Identity{PID: pid, Epoch: 1, Base: next, Last: next + 9}, batchfmt.Offset(i), position)
		i++
	}
}

// BenchmarkRollback is a group of 64 lanes taken back.
func BenchmarkRollback(b *testing.B) {
	s := crowd()
	b.ReportAllocs()
	for b.Loop() {
		s.Begin()
		for i := range 64 {
			s.Apply(of(spread(i), ident(1, 60, 69)), 60, nil)
		}
		s.Rollback()
	}
}

// BenchmarkSnapshot writes and reads 4,096 lanes.
func BenchmarkSnapshot(b *testing.B) {
	s := crowd()
	buf := AppendSnapshot(nil, s, testPartition, 1000)
	b.Run("append", func(b *testing.B) {
		b.SetBytes(int64(len(buf)))
		b.ReportAllocs()
		for b.Loop() {
			buf = AppendSnapshot(buf[:0], s, testPartition, 1000)
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.SetBytes(int64(len(buf)))
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := ParseSnapshot(buf, &testPartition); err != nil {
				b.Fatal(err)
			}
		}
	})
}
