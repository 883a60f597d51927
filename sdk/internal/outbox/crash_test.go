package outbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

const crashSteps = 90

// reopen checks what is found on d, then that all of it is found again after one more
// power cut, and that the outbox works.
func (m *model) reopen(d *disk) error {
	o, found, err := Open(testDir, testBinding, testOptions(d))
	if err != nil {
		return err
	}
	m.o = o
	if err := m.check(found); err != nil {
		return errors.Join(err, o.Close())
	}
	m.forget(found)
	d = d.afterCut(keepNothing) // what Open returned must be durable
	if err := o.Close(); err != nil {
		return err
	}
	if err := m.run(d, 10); err != nil {
		return fmt.Errorf("in the second life: %w", err)
	}
	return m.run(d, 0)
}

// calls is how many calls the workload makes.
func calls(t *testing.T, seed uint64) int {
	d := newDisk()
	m := newModel(seed)
	if err := m.run(d, crashSteps); err != nil {
		t.Fatal(err)
	}
	if err := m.reopen(d); err != nil {
		t.Fatal(err)
	}
	d = newDisk()
	if err := newModel(seed).run(d, crashSteps); err != nil {
		t.Fatal(err)
	}
	return d.calls
}

// TestCrash cuts the power at every call, and looks at several disks that this may leave.
func TestCrash(t *testing.T) {
	const seed = 0
	n := calls(t, seed)
	t.Logf("%d calls", n)
	for at := 1; at <= n; at++ {
		if err := crash(seed, at, func(*disk, *model) {}); err != nil {
			t.Fatalf("power cut at call %d: %v", at, err)
		}
	}
}

func crash(seed uint64, at int, prepare func(*disk, *model)) error {
	keeps := map[string]func() bool{
		"nothing": keepNothing, "all": keepAll, "some": keepSome(rand.New(rand.NewPCG(seed, uint64(at)))),
	}
	for name, keep := range keeps {
		d := newDisk()
		d.goneAt = at
		m := newModel(seed)
		prepare(d, m)
		if err := m.run(d, crashSteps); errors.Is(err, errModel) {
			return err
		}
		if err := m.reopen(d.afterCut(keep)); err != nil {
			return fmt.Errorf("%s of what was not synced is there: %w", name, err)
		}
	}
	return nil
}

// TestCrashFindsBugs is the proof that TestCrash would see a sync that is missing.
func TestCrashFindsBugs(t *testing.T) {
	tests := map[string]func(*disk, *model){
		"files are not synced":       func(d *disk, _ *model) { d.syncLies = true },
		"directories are not synced": func(d *disk, _ *model) { d.dirLies = true },
		"told before it is durable":  func(_ *disk, m *model) { m.lazy = true },
	}
	for name, bug := range tests {
		t.Run(name, func(t *testing.T) {
			n := calls(t, 0)
			for at := 1; at <= n; at++ {
				if err := crash(0, at, bug); err != nil {
					t.Logf("found with a power cut at call %d: %v", at, err)
					return
				}
			}
			t.Fatal("the bug was not found")
		})
	}
}

// TestFault lets every call fail once. The outbox goes on or says so for good; then the
// application restarts, with and without a power cut.
func TestFault(t *testing.T) {
	const seed = 1
	n := calls(t, seed)
	for at := 1; at <= n; at++ {
		for _, cut := range []bool{false, true} {
			d := newDisk()
			d.failAt = at
			m := newModel(seed)
			err := m.run(d, crashSteps)
			if errors.Is(err, errModel) || err != nil && !errors.Is(err, errTest) {
				t.Fatalf("call %d failed: %v", at, err)
			}
			if cut {
				d = d.afterCut(keepNothing)
			}
			if err := m.reopen(d); err != nil {
				t.Fatalf("call %d failed, power cut %v: %v", at, cut, err)
			}
		}
	}
}

// TestFailedSyncIsFinal looks that nothing is promised after a sync that failed.
func TestFailedSyncIsFinal(t *testing.T) {
	d := newDisk()
	o, _, err := Open(testDir, testBinding, testOptions(d))
	must(t, err)
	id, err := o.Put(0, sealed(0, 1, 100, 1))
	must(t, err)
	must(t, o.Sync())
	must(t, o.Stored(id, 5))
	id, err = o.Put(0, sealed(1, 1, 100, 1))
	must(t, err)
	d.failAt = d.calls + 2 // the write goes through
	for range 2 {
		if err := o.Sync(); !errors.Is(err, ErrFailed) || !errors.Is(err, errTest) {
			t.Fatalf("sync: %v", err)
		}
	}
	if _, err := o.Put(0, sealed(2, 1, 100, 1)); !errors.Is(err, ErrFailed) {
		t.Fatalf("put: %v", err)
	}
	if err := o.Unknown(id); !errors.Is(err, ErrFailed) {
		t.Fatalf("unknown: %v", err)
	}
	if err := o.Close(); !errors.Is(err, ErrFailed) {
		t.Fatalf("close: %v", err)
	}
}

// TestNoSpace fills the disk after every so many bytes: nothing is lost, and it works again.
func TestNoSpace(t *testing.T) {
	for space := int64(0); space < 60_000; space += 711 {
		d := newDisk()
		m := newModel(3)
		o, _, err := Open(testDir, testBinding, testOptions(d))
		must(t, err)
		m.o = o
		d.limited, d.space = true, space
		full := 0
		for range crashSteps {
			switch err := m.step(); {
			case errors.Is(err, ErrNoSpace):
				full++
				if full%3 == 0 {
					d.space += 3000
				}
			case err != nil && !errors.Is(err, ErrFull):
				t.Fatalf("%d bytes: %v", space, err)
			}
		}
		d.limited = false
		must(t, m.sync())
		if err := m.reopen(d.afterCut(keepNothing)); err != nil {
			t.Fatalf("%d bytes, %d times full: %v", space, full, err)
		}
		must(t, o.Close())
	}
}
