package sdk

import "testing"

// TestPartitionForKey freezes where keys go: a change would send the records of a key to
// another partition, and their order would be lost.
func TestPartitionForKey(t *testing.T) {
	tests := []struct {
		key                    string
		of1, of7, of12, of1000 int
	}{
		{"", 0, 6, 9, 921},
		{"a", 0, 6, 11, 955},
		{"42", 0, 3, 5, 401},
		{"order-1", 0, 1, 1, 701},
		{"customer/7/é", 0, 4, 4, 624},
		{"\x00\xff", 0, 0, 5, 981},
	}
	for _, tt := range tests {
		for n, want := range map[int]int{1: tt.of1, 7: tt.of7, 12: tt.of12, 1000: tt.of1000} {
			if got := PartitionForKey([]byte(tt.key), n); got != want {
				t.Errorf("key %q of %d partitions: %d, want %d", tt.key, n, got, want)
			}
		}
	}
}

// The hashes are those of the tests of Kafka's Java client.
func TestMurmur2(t *testing.T) {
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("%q: %d, want %d", key, got, want)
		}
		if got := Murmur2()(&Record{Key: []byte(key)}, 100); got != int(uint32(want)&0x7fffffff)%100 {
			t.Errorf("%q goes to %d", key, got)
		}
	}
	if got := Murmur2()(&Record{}, 3); got != -1 {
		t.Errorf("without a key: %d", got)
	}
}
