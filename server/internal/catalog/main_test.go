package catalog

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childDir makes the test binary the child of TestKill.
const childDir = "QUOIN_CATALOG_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		giveAwayUntilKilled(dir)
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, dir string, o Options) *Catalog {
	t.Helper()
	c, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// reopen closes c and opens its directory again.
func reopen(t *testing.T, c *Catalog, dir string) *Catalog {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, dir, c.opts)
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func instance(n uint16) InstanceID { return InstanceID{0: 1, 14: byte(n >> 8), 15: byte(n)} }
func request(n byte) RequestID     { return RequestID{0: 2, 15: n} }
