package buffers

import (
	"context"
	"errors"
	"testing"
)

func TestBudgetIsHeldAndGivenBack(t *testing.T) {
	p := NewPool(200 << 10)
	s := p.Share(1 << 30)
	a := s.Get(64 << 10)
	b := s.Get(100 << 10) // takes the class above: 260 KiB
	if a == nil || b != nil {
		t.Fatalf("got %v and %v, want the first only", a, b)
	}
	c := s.Get(64 << 10)
	if c == nil {
		t.Fatal("the second fits into the budget")
	}
	if d := p.Share(1 << 30).Get(64 << 10); d != nil {
		t.Fatal("the third does not fit, whoever asks")
	}
	a.Release()
	if d := s.Get(64 << 10); d == nil {
		t.Fatal("there is room again after a release")
	}
}

func TestOneShareDoesNotTakeAll(t *testing.T) {
	p := NewPool(1 << 30)
	greedy, other := p.Share(70<<10), p.Share(70<<10)
	first := greedy.Get(64 << 10)
	if first == nil || greedy.Get(64<<10) != nil {
		t.Fatal("the share does not bound what its holder gets")
	}
	if other.Get(64<<10) == nil {
		t.Fatal("another share is used up as well")
	}
	first.Release()
	if greedy.Get(64<<10) == nil {
		t.Fatal("there is room again after a release")
	}
}

func TestWaitGetsWhatIsGivenBack(t *testing.T) {
	s := NewPool(70 << 10).Share(70 << 10)
	first := s.Get(64 << 10)
	got := make(chan *Buffer)
	go func() {
		b, err := s.Wait(t.Context(), 64<<10)
		if err != nil {
			t.Error(err)
		}
		got <- b
	}()
	first.Release()
	(<-got).Release()
	held := s.Get(64 << 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if b, err := s.Wait(ctx, 64<<10); b != nil || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, %v", b, err)
	}
	held.Release()
	if s.pool.Out() != 0 || s.Get(64<<10) == nil {
		t.Fatal("a wait that was given up has kept something")
	}
}

func TestLengthIsWhatWasAskedFor(t *testing.T) {
	p := NewPool(1 << 30)
	s := p.Share(1 << 30)
	for _, n := range []int{0, 1, 4096, 4097, 70000, 1 << 20, 3 << 20} {
		b := s.Get(n)
		if len(b.B) != n {
			t.Errorf("Get(%d) has length %d", n, len(b.B))
		}
		b.Release()
	}
	if p.Out() != 0 {
		t.Errorf("%d bytes are out after everything was released", p.Out())
	}
	var none *Buffer
	none.Release() // what a failed Get gave may be released as well
}
