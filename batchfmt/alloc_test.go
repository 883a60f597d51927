package batchfmt

import "testing"

// TestNothingIsAllocated holds the paths of every batch to no allocation at all.
func TestNothingIsAllocated(t *testing.T) {
	s := producer.with(func(s *Seal) { s.Position = []byte("position") })
	raw := stampedGolden(s, simpleRecords(100, 100)...)(t)
	b := mustParse(t, raw)
	withHeaders := mustParse(t, mustSeal(t, Seal{}, goldenRecords...))
	var r Reader
	var builder Builder
	dst := make([]byte, 0, 64<<10)
	records := simpleRecords(100, 100)
	fill := func() {
		builder.Reset()
		for i := range records {
			_ = builder.Add(&records[i])
		}
		dst, _ = builder.Seal(dst[:0], s)
	}
	tests := map[string]func(){
		"ParseFront":            func() { _, _ = ParseFront(raw) },
		"Parse":                 func() { _, _ = Parse(raw) },
		"Verify":                func() { _ = b.Verify() },
		"VerifyFront":           func() { _ = b.VerifyFront() },
		"Stamp":                 func() { b.Stamp(goldenStamp) },
		"Position":              func() { _ = b.Position() },
		"CheckRecords":          func() { _ = CheckRecords(b, &r) },
		"CheckRecords, headers": func() { _ = CheckRecords(withHeaders, &r) },
		"Builder.Add and Seal":  fill,
		"AppendVersion1":        func() { dst, _ = AppendVersion1(dst[:0], b) },
		"AppendControl":         func() { dst = AppendControl(dst[:0], 1, 1, Control{Kind: ControlClose}) },
		"RecordBytes":           func() { _ = RecordBytes(&goldenRecords[2]) },
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			f()
			if n := testing.AllocsPerRun(100, f); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

// TestNoAllocationPerRecord reads compressed batches: the pools may allocate now and
// then, but nothing grows with the number of records.
func TestNoAllocationPerRecord(t *testing.T) {
	const n = 2000
	for _, codec := range codecs {
		t.Run(codec.String(), func(t *testing.T) {
			b := mustParse(t, mustSeal(t, Seal{Codec: codec}, simpleRecords(n, 50)...))
			var r Reader
			allocs := testing.AllocsPerRun(20, func() {
				if err := CheckRecords(b, &r); err != nil {
					t.Error(err)
				}
			})
			if allocs > n/20 {
				t.Errorf("%v allocations for %d records", allocs, n)
			}
		})
	}
}
