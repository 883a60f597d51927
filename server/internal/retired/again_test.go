package retired

import "testing"

// A producer that retires again and again makes its own older rows void, and pushes nobody
// out.
func TestRetiringAgainForgetsNobody(t *testing.T) {
	table := mustOpenWhole(t, newDisk(t), Options{MaxRows: 8, Issued: 100})
	must(t, table.Put([]Row{row(1, "x")}))
	for i := range 40 {
		must(t, table.Put([]Row{row(2, "x")}))
		upkeep(t, table)
		if _, ok, err := table.Get(1); !ok || err != nil {
			t.Fatalf("with two producers and room for 8, producer 1 is forgotten (up to %d) after producer 2 retired %d times", table.ForgottenUpTo(), i+1)
		}
	}
}
