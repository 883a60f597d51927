package vfs

import (
	"errors"
	"syscall"
	"testing"
)

var errTest = errors.New("test fault")

func TestFaultyCalls(t *testing.T) {
	calls := map[Op]func(fsys FS, f File) error{
		OpCreate:    func(fsys FS, _ File) error { _, err := fsys.Create("/new"); return err },
		OpOpen:      func(fsys FS, _ File) error { _, err := fsys.Open("/a"); return err },
		OpRename:    func(fsys FS, _ File) error { return fsys.Rename("/a", "/a") },
		OpRemove:    func(fsys FS, _ File) error { return fsys.Remove("/a") },
		OpMkdirAll:  func(fsys FS, _ File) error { return fsys.MkdirAll("/d") },
		OpList:      func(fsys FS, _ File) error { _, err := fsys.List("/"); return err },
		OpSyncDir:   func(fsys FS, _ File) error { return fsys.SyncDir("/") },
		OpStat:      func(fsys FS, _ File) error { _, err := fsys.Stat("/a"); return err },
		OpRemoveAll: func(fsys FS, _ File) error { return fsys.RemoveAll("/d") },
		OpRead:      func(_ FS, f File) error { _, err := f.ReadAt(make([]byte, 1), 0); return err },
		OpWrite:     func(_ FS, f File) error { _, err := f.WriteAt([]byte("y"), 0); return err },
		OpTruncate:  func(_ FS, f File) error { return f.Truncate(1) },
		OpSync:      func(_ FS, f File) error { return f.Sync() },
		OpSize:      func(_ FS, f File) error { _, err := f.Size(); return err },
	}
	for op, call := range calls {
		t.Run(string(op), func(t *testing.T) {
			faulty := NewFaulty(NewMem())
			f := put(t, faulty, "/a", "x")
			var seen []Op
			faulty.Observe(func(op Op, _ string) { seen = append(seen, op) })
			faulty.Fail(op, 0, 1, errTest)
			wantErr(t, call(faulty, f), errTest)
			must(t, call(faulty, f))
			if len(seen) != 2 || seen[0] != op || seen[1] != op {
				t.Fatalf("the observer saw %q", seen)
			}
			faulty.Observe(nil)
			faulty.Fail(op, 0, 5, errTest)
			faulty.Heal()
			if op != OpCreate && op != OpRemove { // these cannot be done twice
				must(t, call(faulty, f))
			}
		})
	}
}

func TestFaultyWrites(t *testing.T) {
	tests := []struct {
		name string
		do   func(f *Faulty)
		errs []error // of three writes of "aa", one behind the other
		want string
	}{
		{"no fault", func(*Faulty) {}, []error{nil, nil, nil}, "aaaaaa"},
		{"the second fails", func(f *Faulty) { f.FailWrite(2, errTest) }, []error{nil, errTest, nil}, "aa\x00\x00aa"},
		{"the second is short", func(f *Faulty) { f.ShortWrite(2, 1, errTest) }, []error{nil, errTest, nil}, "aaa\x00aa"},
		{"the disk is full", func(f *Faulty) { f.LimitSpace(3) }, []error{nil, syscall.ENOSPC, syscall.ENOSPC}, "aaa"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := NewMem()
			faulty := NewFaulty(m)
			f := put(t, faulty, "/a", "")
			tt.do(faulty)
			for i, want := range tt.errs {
				n, err := f.WriteAt([]byte("aa"), int64(2*i))
				if !errors.Is(err, want) || (err == nil) != (n == 2) {
					t.Fatalf("write %d: %d bytes, %v; want %v", i+1, n, err, want)
				}
			}
			if got := get(t, m, "/a"); got != tt.want {
				t.Fatalf("content is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestFaultySyncs(t *testing.T) {
	tests := []struct {
		name string
		do   func(f *Faulty)
		err  error
		kept bool
	}{
		{"honest", func(*Faulty) {}, nil, true},
		{"failing", func(f *Faulty) { f.FailSync(1, errTest) }, errTest, false},
		{"lying", func(f *Faulty) { f.SyncLies(true) }, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := NewMem()
			faulty := NewFaulty(m)
			f := put(t, faulty, "/a", "x")
			must(t, faulty.SyncDir("/"))
			tt.do(faulty)
			wantErr(t, f.Sync(), tt.err)
			if kept := get(t, m.CrashClone(), "/a") == "x"; kept != tt.kept {
				t.Fatalf("kept is %v, want %v", kept, tt.kept)
			}
		})
	}
	t.Run("lying about names", func(t *testing.T) {
		m := NewMem()
		faulty := NewFaulty(m)
		put(t, faulty, "/a", "")
		faulty.SyncLies(true)
		must(t, faulty.SyncDir("/"))
		if names, err := m.CrashClone().List("/"); err != nil || len(names) > 0 {
			t.Fatalf("names are %q, %v", names, err)
		}
	})
	t.Run("failing of names", func(t *testing.T) {
		faulty := NewFaulty(NewMem())
		faulty.FailSyncDir(1, errTest)
		wantErr(t, faulty.SyncDir("/"), errTest)
		must(t, faulty.SyncDir("/"))
	})
}
