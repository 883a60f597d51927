package vfs

import (
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestMemCrashClone(t *testing.T) {
	synced := func(t *testing.T, m *Mem) File { // a durable file "/a" that holds "old"
		f := put(t, m, "/a", "old")
		must(t, f.Sync())
		must(t, m.SyncDir("/"))
		return f
	}
	tests := []struct {
		name string
		do   func(t *testing.T, m *Mem)
		want string // "name=content" of what is in "/", sorted
	}{
		{"a synced file with a synced name stays", func(t *testing.T, m *Mem) { synced(t, m) }, "a=old"},
		{"a synced file without a synced name goes", func(t *testing.T, m *Mem) {
			must(t, put(t, m, "/a", "x").Sync())
		}, ""},
		{"a synced name without synced content is empty", func(t *testing.T, m *Mem) {
			put(t, m, "/a", "x")
			must(t, m.SyncDir("/"))
		}, "a="},
		{"a write that was not synced goes", func(t *testing.T, m *Mem) {
			_, err := synced(t, m).WriteAt([]byte("new!"), 0)
			must(t, err)
		}, "a=old"},
		{"a length that was not synced goes", func(t *testing.T, m *Mem) {
			must(t, synced(t, m).Truncate(1))
		}, "a=old"},
		{"a synced length stays, and its zeros", func(t *testing.T, m *Mem) {
			f := synced(t, m)
			must(t, f.Truncate(1))
			must(t, f.Truncate(3))
			must(t, f.Sync())
		}, "a=o\x00\x00"},
		{"a rename that was not synced did not happen", func(t *testing.T, m *Mem) {
			synced(t, m)
			must(t, m.Rename("/a", "/b"))
		}, "a=old"},
		{"a synced rename happened", func(t *testing.T, m *Mem) {
			synced(t, m)
			must(t, m.Rename("/a", "/b"))
			must(t, m.SyncDir("/"))
		}, "b=old"},
		{"a removal that was not synced did not happen", func(t *testing.T, m *Mem) {
			synced(t, m)
			must(t, m.Remove("/a"))
		}, "a=old"},
		{"a synced removal happened", func(t *testing.T, m *Mem) {
			synced(t, m)
			must(t, m.Remove("/a"))
			must(t, m.SyncDir("/"))
		}, ""},
		{"a name made again after a removal holds the new file", func(t *testing.T, m *Mem) {
			synced(t, m)
			must(t, m.Remove("/a"))
			must(t, put(t, m, "/a", "new").Sync())
			must(t, m.SyncDir("/"))
		}, "a=new"},
		{"a sync of a renamed file is of its content only", func(t *testing.T, m *Mem) {
			f := synced(t, m)
			must(t, m.Rename("/a", "/b"))
			_, err := f.WriteAt([]byte("new"), 0)
			must(t, err)
			must(t, f.Sync())
		}, "a=new"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := NewMem()
			tt.do(t, m)
			for range 2 { // a crash changes nothing for the one that goes on
				if got := contents(t, m.CrashClone()); got != tt.want {
					t.Fatalf("after the crash: %q, want %q", got, tt.want)
				}
			}
		})
	}
}

func contents(t *testing.T, m *Mem) string {
	t.Helper()
	names, err := m.List("/")
	must(t, err)
	for i, name := range names {
		names[i] = name + "=" + get(t, m, "/"+name)
	}
	return strings.Join(names, " ")
}

func TestMemCrashCloneOfDirectories(t *testing.T) {
	m := NewMem()
	must(t, m.MkdirAll("/d/e"))
	must(t, put(t, m, "/d/e/f", "x").Sync())
	must(t, m.SyncDir("/d/e"))
	if _, err := m.CrashClone().Stat("/d"); err == nil {
		t.Fatal("a directory was there whose name was never synced")
	}
	must(t, m.SyncDir("/"))
	_, err := m.CrashClone().Stat("/d/e")
	wantErr(t, err, fs.ErrNotExist)
	must(t, m.SyncDir("/d"))
	if got := get(t, m.CrashClone(), "/d/e/f"); got != "x" {
		t.Fatalf("content is %q", got)
	}
	must(t, m.RemoveAll("/d"))
	if got := get(t, m.CrashClone(), "/d/e/f"); got != "x" {
		t.Fatalf("content is %q after a removal that was not synced", got)
	}
}

func TestMemCloneIsApart(t *testing.T) {
	m := NewMem()
	f := put(t, m, "/a", "old")
	must(t, f.Sync())
	must(t, m.SyncDir("/"))
	c := m.CrashClone()
	_, err := f.WriteAt([]byte("new"), 0)
	must(t, err)
	must(t, f.Sync())
	if got := get(t, c, "/a"); got != "old" {
		t.Fatalf("the clone reads %q", got)
	}
}

// A random crash keeps what was synced, invents nothing and, over many seeds, shows every
// kind of disk: all of the write, none of it, and a part.
func TestMemCrashCloneRandom(t *testing.T) {
	m := NewMem()
	f := put(t, m, "/a", strings.Repeat("o", 2*sectorBytes))
	must(t, f.Sync())
	must(t, m.SyncDir("/"))
	_, err := f.WriteAt([]byte(strings.Repeat("n", 2*sectorBytes)), sectorBytes)
	must(t, err)
	put(t, m, "/b", "")
	seen := map[string]int{}
	for seed := range uint64(200) {
		c := m.CrashCloneRandom(rand.New(rand.NewPCG(seed, 0)))
		again := m.CrashCloneRandom(rand.New(rand.NewPCG(seed, 0)))
		got := contents(t, c)
		if got != contents(t, again) {
			t.Fatalf("seed %d gives two disks", seed)
		}
		a, _, _ := strings.Cut(strings.TrimPrefix(got, "a="), " ")
		if !strings.HasPrefix(a, strings.Repeat("o", sectorBytes)) || strings.Trim(a, "on\x00") != "" {
			t.Fatalf("seed %d: %q", seed, got)
		}
		var kind []byte
		for i := 0; i < len(a); i += sectorBytes {
			kind = append(kind, max(a[i], '0'))
		}
		seen[string(kind)]++
		if strings.Contains(got, " b=") {
			seen["b"]++
		}
	}
	for _, want := range []string{"oo", "onn", "oon", "on", "b"} {
		if seen[want] == 0 {
			t.Errorf("never seen: %s, of %v", want, seen)
		}
	}
	if seen["b"] == 200 {
		t.Error("a name that was not synced was always there")
	}
}

func TestMemOpenFiles(t *testing.T) {
	m := NewMem()
	f := put(t, m, "/a", "")
	g, err := m.Open("/a")
	must(t, err)
	if got := m.OpenFiles(); got != 2 {
		t.Fatalf("%d files are open, want 2", got)
	}
	must(t, f.Close())
	must(t, g.Close())
	if got := m.OpenFiles(); got != 0 {
		t.Fatalf("%d files are open, want 0", got)
	}
}

func TestPartsOfPaths(t *testing.T) {
	for name, want := range map[string][]string{"/": nil, ".": nil, "": nil, "/a//b/": {"a", "b"}, "a/../b": {"b"}} {
		if got := parts(name); !slices.Equal(got, want) {
			t.Errorf("parts of %q are %q, want %q", name, got, want)
		}
	}
}

func TestMakeDir(t *testing.T) {
	m := NewMem()
	must(t, m.MkdirAll("/a")) // by one who was killed before its sync
	must(t, MakeDir(m, "/a/b/c"))
	_, err := m.CrashClone().Stat("/a/b/c")
	must(t, err)
	must(t, MakeDir(m, "/a/b/c"))

	denied := NewFaulty(m)
	denied.FailSyncDir(1, fs.ErrPermission)
	must(t, MakeDir(denied, "/a/b/c/d"))
	for op, n := range map[Op]int{OpStat: 1, OpMkdirAll: 2, OpSyncDir: 2} {
		for skip := range n {
			faulty := NewFaulty(NewMem())
			faulty.Fail(op, skip, 1, errTest)
			wantErr(t, MakeDir(faulty, "/x"), errTest)
		}
	}
}
