package buffers

import "testing"

func TestBudgetIsHeldAndGivenBack(t *testing.T) {
	p := NewPool(200 << 10)
	a := p.Get(64 << 10)
	b := p.Get(100 << 10) // takes the class above: 260 KiB
	if a == nil || b != nil {
		t.Fatalf("got %v and %v, want the first only", a, b)
	}
	c := p.Get(64 << 10)
	if c == nil {
		t.Fatal("the second fits into the budget")
	}
	if d := p.Get(64 << 10); d != nil {
		t.Fatal("the third does not fit")
	}
	a.Release()
	if d := p.Get(64 << 10); d == nil {
		t.Fatal("there is room again after a release")
	}
}

func TestLengthIsWhatWasAskedFor(t *testing.T) {
	p := NewPool(1 << 30)
	for _, n := range []int{0, 1, 4096, 4097, 70000, 1 << 20, 3 << 20} {
		b := p.Get(n)
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
