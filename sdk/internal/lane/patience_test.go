package lane

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

func TestPatience(t *testing.T) {
	times := func(n int, d ...time.Duration) []time.Duration { return slices.Repeat(d, n) }
	tests := []struct {
		name    string
		answers []time.Duration
		lost    int // times at its end, behind the answers
		want    time.Duration
	}{
		{"nothing is known", nil, 0, minPatience},
		{"nothing is known, and nothing came", nil, 1, 2 * minPatience},
		{"quick answers: a pause of the server is no loss", times(100, time.Millisecond), 0, minPatience},
		{"answers without any delay", times(100, 0), 0, minPatience},
		{"the first answer stands for three times its time", times(1, 6*time.Second), 0, 18 * time.Second},
		{"slow ones, all alike", times(100, 12*time.Second), 0, 12 * time.Second},
		{"mostly quick, and each fourth takes eight seconds", times(100, 0, 0, 0, 8*time.Second), 0, 17012 * time.Millisecond},
		{"slow for a time, and quick since", append(times(100, 12*time.Second), times(100, 10*time.Millisecond)...), 0, minPatience},
		{"quick, and one did not come", times(100, time.Millisecond), 1, 2 * minPatience},
		{"quick, and two in a row did not come", times(100, time.Millisecond), 2, 4 * minPatience},
		{"quick, and many in a row did not come", times(100, time.Millisecond), 100, maxPatience},
		{"never longer than the most", times(1, time.Hour), 0, maxPatience},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p patience
			for _, d := range tt.answers {
				p.answered(d)
			}
			for range tt.lost {
				p.exhausted()
			}
			if got := p.length().Round(time.Millisecond); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// timed is a lane whose answers so far were quick.
func timed(r *rig) {
	r.ready()
	r.enqueue(1)
	r.ok(0, 0)
	r.log = nil
}

var patienceStories = []struct {
	name string
	play func(r *rig)
	want []string
}{
	{"a server that pauses is waited for: nothing is sent twice", func(r *rig) {
		timed(r)
		r.enqueueAll(5, 1)
		r.wait(minPatience - 1)
		for n := range 5 {
			r.ok(batchfmt.Seq(n+1), batchfmt.Offset(n+1))
		}
	}, []string{"send 1-1", "send 2-2", "send 3-3", "send 4-4", "send 5-5",
		"1-1 stored at 1", "2-2 stored at 2", "3-3 stored at 3", "4-4 stored at 4", "5-5 stored at 5"}},

	{"answers of what was sent again leave patience as long as it is", func(r *rig) {
		timed(r)
		r.enqueue(1)
		r.wait(minPatience)
		r.opened(1)
		r.duplicate(1, 1)
		r.enqueue(1)
		r.wait(2*minPatience - 1)
		r.log = append(r.log, "twice as long")
		r.wait(1)
	}, []string{"send 1-1", "open acked 0 sent 1", "send 1-1", "1-1 stored at 1",
		"send 2-2", "twice as long", "open acked 1 sent 2"}},

	{"sent again and stored only then: that says no more of a first attempt", func(r *rig) {
		timed(r)
		r.enqueue(1)
		r.wait(minPatience)
		r.opened(0)
		r.ok(1, 1)
		r.enqueue(1)
		r.wait(minPatience)
		r.log = append(r.log, "still waiting")
	}, []string{"send 1-1", "open acked 0 sent 1", "send 1-1", "1-1 stored at 1", "send 2-2", "still waiting"}},

	{"the answer to a first attempt makes patience short again", func(r *rig) {
		timed(r)
		r.enqueue(1)
		r.wait(minPatience)
		r.opened(1)
		r.duplicate(1, 1)
		r.enqueue(1)
		r.ok(2, 2)
		r.enqueue(1)
		r.wait(minPatience)
	}, []string{"send 1-1", "open acked 0 sent 1", "send 1-1", "1-1 stored at 1",
		"send 2-2", "2-2 stored at 2", "send 3-3", "open acked 2 sent 3"}},

	{"an opening that is never answered is repeated ever more patiently", func(r *rig) {
		r.connect()
		r.wait(minPatience)
		r.wait(2*minPatience - 1)
		r.log = append(r.log, "twice as long")
		r.wait(1)
	}, []string{"open acked -1 sent -1", "open acked -1 sent -1", "twice as long", "open acked -1 sent -1"}},

	{"an answer that was overtaken is asked for soon, whatever the patience", func(r *rig) {
		r.ready()
		r.enqueueAll(3, 1)
		r.ok(0, 0)
		r.ok(2, 2)
		r.wait(gapPatience - 1)
		r.log = append(r.log, "soon")
		r.wait(1)
	}, []string{"send 0-0", "send 1-1", "send 2-2", "0-0 stored at 0", "soon", "open acked 0 sent 2"}},

	{"a batch that is sent again behind an answer was not overtaken by it", func(r *rig) {
		r.ready()
		r.enqueueAll(3, 1)
		r.disconnect()
		r.connect()
		r.opened(2)
		r.duplicate(0, 0)
		r.err(1, wire.CodeLookUpFailed)
		r.duplicate(2, 2)
		r.wait(firstBackoff + 2*gapPatience)
		r.duplicate(1, 1)
	}, []string{"send 0-0", "send 1-1", "send 2-2", "open acked -1 sent 2", "send 0-0", "0-0 stored at 0",
		"send 1-1", "send 2-2", "send 1-1", "1-1 stored at 1", "2-2 stored at 2"}},

	{"a refusal overtakes nothing", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.err(1, wire.CodeThrottled)
		r.wait(2 * gapPatience)
		r.ok(0, 0)
	}, []string{"send 0-0", "send 1-1", "0-0 stored at 0", "send 1-1"}},
}

func TestPatienceStories(t *testing.T) {
	for _, story := range patienceStories {
		t.Run(story.name, func(t *testing.T) {
			r := newRig()
			story.play(r)
			if diff := cmp.Diff(story.want, r.log); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}
