package vfs

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// All choices of what is unsynced give all disks, and no other.
func TestMemEveryDisk(t *testing.T) {
	m := NewMem()
	f := put(t, m, "/a", strings.Repeat("o", sectorBytes))
	must(t, f.Sync())
	must(t, m.SyncDir("/"))
	_, err := f.WriteAt([]byte(strings.Repeat("n", 2*sectorBytes)), 0) // one sector is new, and a length
	must(t, err)
	must(t, m.Rename("/a", "/b"))
	unsynced := m.Unsynced()
	want := []Unsynced{
		{Name: "/", Kind: UnsyncedName},
		{Name: "/b", Kind: UnsyncedLength},
		{Name: "/b", Kind: UnsyncedSector},
		{Name: "/b", Kind: UnsyncedSector, Sector: 1},
	}
	if !slices.Equal(unsynced, want) {
		t.Fatalf("unsynced is %+v, want %+v", unsynced, want)
	}
	disks := map[string]bool{}
	for choice := range 1 << len(unsynced) {
		c := m.CrashCloneKeeping(func(u Unsynced) bool {
			u.Name = strings.Replace(u.Name, "/a", "/b", 1) // the name that it has without the rename
			return choice>>slices.Index(unsynced, u)&1 > 0
		})
		name, content, _ := strings.Cut(contents(t, c), "=")
		disks[name+"="+short(content)] = true
	}
	for _, name := range []string{"a", "b"} {
		for _, content := range []string{"o", "n", "oz", "on", "nz", "nn"} {
			if !disks[name+"="+content] {
				t.Errorf("never seen: %s=%s", name, content)
			}
		}
	}
	if len(disks) != 12 {
		t.Errorf("disks are %v", disks)
	}
}

// short is the first byte of each sector.
func short(content string) string {
	var b []byte
	for i := 0; i < len(content); i += sectorBytes {
		c := content[i]
		if c == 0 {
			c = 'z'
		}
		b = append(b, c)
	}
	return string(b)
}

// What a failed sync leaves: reads show what the disk does not have, and the next sync
// succeeds without writing it.
func TestMemFailedSync(t *testing.T) {
	tests := []struct {
		name  string
		do    func(t *testing.T, m *Mem, f File)
		shown string // to who has the file open
		disk  string // after a crash
	}{
		{"nothing is done", func(*testing.T, *Mem, File) {}, "new", "old"},
		{"a second sync succeeds", func(t *testing.T, _ *Mem, f File) { must(t, f.Sync()) }, "new", "old"},
		{"the cache is dropped", func(t *testing.T, _ *Mem, f File) { must(t, DropCache(f)) }, "old", "old"},
		{"the cache is dropped and does not go", func(t *testing.T, m *Mem, f File) {
			m.KeepCache(true)
			must(t, DropCache(f))
		}, "new", "old"},
		{"a write after it is one that can be synced", func(t *testing.T, _ *Mem, f File) {
			_, err := f.WriteAt([]byte("NEW"), 0)
			must(t, err)
			must(t, DropCache(f)) // does not take what is still to be written
			must(t, f.Sync())
		}, "NEW", "NEW"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := NewMem()
			faulty := NewFaulty(m)
			f := put(t, faulty, "/a", "old")
			must(t, f.Sync())
			must(t, m.SyncDir("/"))
			_, err := f.WriteAt([]byte("new"), 0)
			must(t, err)
			faulty.FailSync(1, errTest)
			wantErr(t, f.Sync(), errTest)
			tt.do(t, m, f)
			if got := get(t, m, "/a"); got != tt.shown {
				t.Errorf("reads show %q, want %q", got, tt.shown)
			}
			if got := get(t, m.CrashClone(), "/a"); got != tt.disk {
				t.Errorf("the disk has %q, want %q", got, tt.disk)
			}
		})
	}
	t.Run("it may have written", func(t *testing.T) {
		m := NewMem()
		faulty := NewFaulty(m)
		f := put(t, faulty, "/a", "new")
		must(t, m.SyncDir("/"))
		m.FailedSyncKeeps(func(Unsynced) bool { return true })
		faulty.FailSync(1, errTest)
		wantErr(t, f.Sync(), errTest)
		if got := get(t, m.CrashClone(), "/a"); got != "new" {
			t.Errorf("the disk has %q", got)
		}
	})
}

func TestFaultyCountsCalls(t *testing.T) {
	f := NewFaulty(NewMem())
	file := put(t, f, "/a", "x") // a create and a write
	if got := f.Calls(); got != 2 {
		t.Fatalf("%d calls", got)
	}
	f.FailCall(1, 2, errTest)
	must(t, f.SyncDir("/"))
	wantErr(t, file.Sync(), errTest)
	_, err := f.List("/")
	wantErr(t, err, errTest)
	must(t, file.Sync())
	f.FailCall(0, math.MaxInt, errTest)
	for range 3 {
		wantErr(t, file.Close(), errTest)
	}
	if got := f.Calls(); got != 9 {
		t.Fatalf("%d calls", got)
	}
	f.Heal()
	if f.Observer() != nil {
		t.Fatal("an observer out of nowhere")
	}
}
