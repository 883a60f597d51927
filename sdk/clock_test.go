package sdk

import (
	"testing"
	"testing/synctest"
	"time"
)

// A clock says what time.Now does, and never allocates.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		for _, pause := range []time.Duration{0, 1, clockStep - 2, 1, clockStep, time.Hour, 999_999, 3} {
			time.Sleep(pause)
			now, millis := c.now()
			if want := time.Now(); !now.Equal(want) || now.Sub(want) != 0 || millis != want.UnixMilli() {
				t.Errorf("after %v: %v and %d, want %v and %d", pause, now, millis, want, want.UnixMilli())
			}
		}
	})
	c := newClock()
	if n := testing.AllocsPerRun(1000, func() { c.now() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A clock on the wall that is set is followed within one step.
func TestClockFollowsTheWall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		c.ahead.Add(int64(time.Hour)) // as if the wall had been set back since
		time.Sleep(clockStep)
		if _, millis := c.now(); millis != time.Now().UnixMilli() {
			t.Errorf("it is %d, the clock says %d", time.Now().UnixMilli(), millis)
		}
	})
}
