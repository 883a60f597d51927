package catalog

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

func TestOpenKeepsIncarnationAndCountsStarts(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, Options{})
	if !c.Created() || c.Starts() != 1 || c.Incarnation() == [16]byte{} {
		t.Fatalf("first start: created %v, starts %d, incarnation %x", c.Created(), c.Starts(), c.Incarnation())
	}
	first := c.Incarnation()
	c = reopen(t, c, dir)
	if c.Created() || c.Starts() != 2 || c.Incarnation() != first {
		t.Fatalf("second start: created %v, starts %d, incarnation %x, want %x", c.Created(), c.Starts(), c.Incarnation(), first)
	}
	names := must(filepath.Glob(filepath.Join(dir, "*")))(t)
	if len(names) != 1 {
		t.Fatalf("files in the directory: %q", names)
	}
}

func TestOpenTightensPermissions(t *testing.T) {
	if runtime.GOOS == "windows" {
		return
	}
	dir := t.TempDir()
	c := open(t, dir, Options{})
	mode := func() os.FileMode { return must(os.Stat(c.path))(t).Mode().Perm() }
	if mode() != 0o600 {
		t.Fatalf("new file has %04o", mode())
	}
	if err := os.Chmod(c.path, 0o664); err != nil {
		t.Fatal(err)
	}
	reopen(t, c, dir)
	if mode() != 0o600 {
		t.Fatalf("reopened file has %04o", mode())
	}
}

func TestSecondOpenIsLockedOut(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, Options{})
	begin := time.Now()
	_, err := Open(dir, Options{LockWait: 100 * time.Millisecond})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), c.path) {
		t.Fatalf("second open: %v", err)
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Fatalf("refusal took %v", d)
	}
	reopen(t, c, dir)
}

// Servers that start at once on an empty directory must end up with one catalog.
func TestFirstOpensAtOnce(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[[16]byte]int{}
	for range 8 {
		wg.Go(func() {
			c, err := Open(dir, Options{LockWait: 30 * time.Second})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			seen[c.Incarnation()]++
			mu.Unlock()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(seen) != 1 {
		t.Fatalf("%d incarnations", len(seen))
	}
	if c := open(t, dir, Options{}); c.Starts() != 9 {
		t.Fatalf("start %d, want 9", c.Starts())
	}
}

func TestOpenRemovesWhatACrashLeft(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, FileName+".123"+newSuffix)
	if err := os.WriteFile(stale, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir, Options{})
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Fatalf("stale file: %v", err)
	}
}

// edit changes the closed file behind the catalog's back.
func edit(t *testing.T, dir string, fn func(tx *bolt.Tx) error) {
	t.Helper()
	db := must(bolt.Open(filepath.Join(dir, FileName), 0o600, nil))(t)
	if err := errors.Join(db.Update(fn), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefusesWhatItDoesNotKnow(t *testing.T) {
	tests := []struct {
		reason string
		edit   func(tx *bolt.Tx) error
		want   error
		text   string
	}{
		{"newer format", func(tx *bolt.Tx) error {
			return tx.Bucket(bucketMeta).Put(keyFormat, sealRow(keyFormat, numberBody(2)))
		}, ErrVersion, "a newer version of quoin"},
		{"older format", func(tx *bolt.Tx) error {
			return tx.Bucket(bucketMeta).Put(keyFormat, sealRow(keyFormat, numberBody(0)))
		}, ErrVersion, "an older version of quoin"},
		{"format missing", func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Delete(keyFormat) }, ErrDamaged, "format version"},
		{"another program's file", func(tx *bolt.Tx) error { return tx.DeleteBucket(bucketMeta) }, ErrDamaged, "not a catalog"},
		{"bucket missing", func(tx *bolt.Tx) error { return tx.DeleteBucket(bucketTerms) }, ErrDamaged, "bucket terms"},
		{"secret cut", func(tx *bolt.Tx) error {
			return tx.Bucket(bucketMeta).Put(keySecret, sealRow(keySecret, []byte("short")))
		}, ErrDamaged, "secret"},
		{"counter without checksum", func(tx *bolt.Tx) error {
			return tx.Bucket(bucketMeta).Put(keyNextPID, make([]byte, 13))
		}, ErrDamaged, "next-pid"},
		{"counter of another key", func(tx *bolt.Tx) error {
			return tx.Bucket(bucketMeta).Put(keyNextPID, sealRow(keyStarts, numberBody(7)))
		}, ErrDamaged, "next-pid"},
		{"topic damaged", func(tx *bolt.Tx) error {
			return tx.Bucket(bucketTopics).ForEach(func(k, v []byte) error {
				bad := append([]byte(nil), v...)
				bad[9]++
				return tx.Bucket(bucketTopics).Put(k, bad)
			})
		}, ErrDamaged, "topic"},
		{"topic without its name", func(tx *bolt.Tx) error { return tx.Bucket(bucketNames).Delete([]byte("orders")) }, ErrDamaged, "orders"},
		{"name without its topic", func(tx *bolt.Tx) error {
			return tx.Bucket(bucketNames).Put([]byte("ghost"), sealRow([]byte("ghost"), make([]byte, 16)))
		}, ErrDamaged, "topic names"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			dir := t.TempDir()
			c := open(t, dir, Options{})
			must(c.CreateTopic("orders", 1, TopicConfig{}))(t)
			c.Close()
			edit(t, dir, tt.edit)
			_, err := Open(dir, Options{})
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) || !strings.Contains(err.Error(), c.path) {
				t.Fatalf("got %v", err)
			}
			// The refusal let go of the file.
			edit(t, dir, func(*bolt.Tx) error { return nil })
		})
	}
}

func TestOpenRefusesAnEmptyFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FileName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrDamaged) {
		t.Fatalf("got %v", err)
	}
}

// Whatever a disk does to the file, the worst is an error.
func TestDamagedFileNeverPanics(t *testing.T) {
	src := t.TempDir()
	c := open(t, src, Options{})
	topic := must(c.CreateTopic("orders", 3, TopicConfig{}))(t)
	for i := range 100 {
		must(c.InitProducer(instance(uint16(i)), ""))(t)
	}
	must(c.InitProducer(instance(200), "billing"))(t)
	c.Close()
	good := must(os.ReadFile(c.path))(t)

	outcomes := map[string]int{}
	use := func(image []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, FileName), image, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Open(dir, Options{})
		if err != nil {
			outcomes["refused at open"]++
			return
		}
		defer c.Close()
		_, e1 := c.NextTerm(topic.ID, 1, 0)
		_, e2 := c.PendingDeletes()
		_, e3 := c.InitProducer(instance(50), "")
		_, e4 := c.InitProducer(instance(201), "billing")
		if errors.Join(e1, e2, e3, e4) != nil {
			outcomes["refused in use"]++
			return
		}
		outcomes["no harm"]++
	}
	page := os.Getpagesize()
	for off := 0; off < len(good); off += page {
		for _, span := range [][2]int{{0, page}, {0, 16}, {16, 64}, {page / 2, page}} {
			for _, fill := range []byte{0, 0xff} {
				bad := append([]byte(nil), good...)
				for i := off + span[0]; i < min(off+span[1], len(bad)); i++ {
					bad[i] = fill
				}
				if string(bad) != string(good) {
					use(bad)
				}
			}
		}
		use(good[:off+page/2])
	}
	t.Logf("%v", outcomes)
	if outcomes["refused at open"] == 0 || outcomes["refused in use"] == 0 || outcomes["no harm"] == 0 {
		t.Error("the damage does not reach all parts of the file")
	}
}

func TestClosedCatalogRefuses(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, Options{})
	p := must(c.InitProducer(instance(1), ""))(t)
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}
	_, e1 := c.InitProducer(instance(2), "")
	_, e2 := c.Authorize(p.ID, p.Key)
	_, e3 := c.PendingDeletes()
	for _, err := range []error{e1, e2, e3} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
}

func TestCloseAnswersEverybody(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, Options{})
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			<-begin
			p, err := c.InitProducer(instance(uint16(i)), "")
			if err == nil {
				_, err = c.Authorize(p.ID, p.Key)
			}
			if err != nil && !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		})
	}
	close(begin)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}
