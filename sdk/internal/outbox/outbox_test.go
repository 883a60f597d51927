package outbox

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/quoin-io/quoin/batchfmt"
)

func openDisk(t *testing.T, d *disk) (*Outbox, *Found) {
	t.Helper()
	o, f, err := Open(testDir, testBinding, testOptions(d))
	must(t, err)
	t.Cleanup(func() { o.Close() })
	return o, f
}

// TestLifeOnRealDisk goes through a life of an outbox, and looks at lock and modes.
func TestLifeOnRealDisk(t *testing.T) {
	options := Options{SegmentBytes: 1 << 20}
	dir := filepath.Join(t.TempDir(), "a", "b")
	o, f, err := Open(dir, testBinding, options)
	must(t, err)
	if len(f.Lanes) != 0 || f.Damage != nil {
		t.Fatalf("found %+v", f)
	}
	if _, _, err := Open(dir, testBinding, options); !errors.Is(err, ErrInUse) {
		t.Fatalf("a second one: %v", err)
	}
	first, second := sealed(0, 2, 40, 1), sealed(2, 1, 40, 1)
	a, err := o.Put(4, first)
	must(t, err)
	b, err := o.Put(4, second)
	must(t, err)
	must(t, o.Sync())
	must(t, o.Stored(a, 17))
	must(t, o.Close())
	must(t, o.Close())
	if _, err := o.Put(4, second); !errors.Is(err, ErrClosed) {
		t.Fatalf("put: %v", err)
	}

	o, f, err = Open(dir, testBinding, options)
	must(t, err)
	defer o.Close()
	l := f.Lanes[0]
	if len(f.Lanes) != 1 || l.Partition != 4 || l.Next != 3 || l.Through != 1 || l.Epoch != 1 || len(l.Batches) != 1 || l.Batches[0].ID != b {
		t.Fatalf("found %+v", f.Lanes)
	}
	batch, err := batchfmt.Parse(first)
	must(t, err)
	if want := (Point{Sequence: 1, Offset: 17, Digest: batch.Digest()}); l.Acked == nil || *l.Acked != want {
		t.Fatalf("acknowledged is %+v, want %+v", l.Acked, want)
	}
	if got, err := o.Load([]byte("x"), b); err != nil || !bytes.Equal(got[1:], second) {
		t.Fatalf("load: %x, %v", got, err)
	}
	checkModes(t, dir)
	for base := batchfmt.Seq(3); base < 3+40; base++ { // over a segment, with the other half done
		id, err := o.Put(4, sealed(base, 1, 32<<10, 1))
		must(t, err)
		must(t, o.Sync())
		must(t, o.Stored(id, 0))
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
	if err != nil || len(names) != 3 { // one of each process, and one more
		t.Fatalf("segments are %v, %v", names, err)
	}
	must(t, o.Stored(b, 18))
	_, err = o.Put(4, sealed(50, 1, 10, 1))
	must(t, err)
	must(t, o.Sync())
	if names, err = filepath.Glob(filepath.Join(dir, "*"+segmentSuffix)); err != nil || len(names) != 1 {
		t.Fatalf("segments are %v, %v", names, err)
	}
}

func checkModes(t *testing.T, dir string) {
	if runtime.GOOS == "windows" {
		return // modes mean something else there
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		info, err := e.Info()
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", e.Name(), info.Mode().Perm())
		}
	}
	info, err := os.Stat(dir)
	must(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %o", info.Mode().Perm())
	}
}

func TestOtherBindings(t *testing.T) {
	tests := map[string]func(*Binding){
		"server":   func(b *Binding) { b.Server = "s2" },
		"topic":    func(b *Binding) { b.Topic = "other" },
		"topic id": func(b *Binding) { b.TopicID[15] = 9 },
		"producer": func(b *Binding) { b.Producer = "checkout-8" },
		"id":       func(b *Binding) { b.ProducerID = 78 },
	}
	s := newSmall(t)
	for name, other := range tests {
		t.Run(name, func(t *testing.T) {
			binding := testBinding
			other(&binding)
			before := slices.Clone(s.bytes())
			_, _, err := Open(testDir, binding, testOptions(s.d))
			var be *BindingError
			if !errors.As(err, &be) || be.Have != testBinding || be.Want != binding {
				t.Fatalf("open: %v", err)
			}
			if text := err.Error(); !strings.Contains(text, testBinding.String()) || !strings.Contains(text, binding.String()) {
				t.Errorf("%q does not name both", text)
			}
			if !bytes.Equal(before, s.bytes()) {
				t.Error("the segment was touched")
			}
		})
	}
	openDisk(t, s.d) // nobody keeps the lock
}

func TestBindLate(t *testing.T) {
	d := newDisk()
	binding := testBinding
	binding.ProducerID = 0
	o, f, err := Open(testDir, binding, testOptions(d))
	must(t, err)
	if f.Binding.ProducerID != 0 {
		t.Fatalf("bound to %v", f.Binding)
	}
	if _, err := o.Put(0, sealed(0, 1, 10, 1)); !errors.Is(err, ErrUnbound) {
		t.Fatalf("put: %v", err)
	}
	must(t, o.Bind(77))
	_, err = o.Put(0, sealed(0, 1, 10, 1))
	must(t, err)
	must(t, o.Close())

	o, f, err = Open(testDir, binding, testOptions(d))
	must(t, err)
	defer o.Close()
	if f.Binding != testBinding {
		t.Fatalf("bound to %v", f.Binding)
	}
	var be *BindingError
	if err := o.Bind(78); !errors.As(err, &be) {
		t.Fatalf("bind: %v", err)
	}
	must(t, o.Bind(77))
}

func TestOtherVersion(t *testing.T) {
	s := newSmall(t)
	b := slices.Clone(s.bytes())
	b[8], b[secondHeader+8] = 2, 2
	_, _, err := s.with(b)
	var ve *VersionError
	if !errors.As(err, &ve) || ve.Version != 2 {
		t.Fatalf("open: %v", err)
	}
}

func TestRefusedPuts(t *testing.T) {
	o, _ := openDisk(t, newDisk())
	good := sealed(0, 1, 10, 1)
	flipped := slices.Clone(good)
	flipped[len(flipped)-1] ^= 1
	var other batchfmt.Builder
	must(t, other.Add(&batchfmt.Record{Value: []byte("x")}))
	foreign, err := other.Seal(nil, batchfmt.Seal{Version: batchfmt.Version2, ProducerID: 5})
	must(t, err)
	plain, err := other.Seal(nil, batchfmt.Seal{})
	must(t, err)
	tests := map[string]struct {
		partition int32
		sealed    []byte
		want      error
	}{
		"nothing":             {0, nil, nil},
		"cut short":           {0, good[:len(good)-1], nil},
		"more than one":       {0, append(slices.Clone(good), 0), nil},
		"damaged":             {0, flipped, nil},
		"no partition":        {-1, good, nil},
		"of another producer": {0, foreign, nil},
		"of no producer":      {0, plain, nil},
		"over half a segment": {0, sealed(0, 1, MinSegmentBytes/2, 1), ErrTooLarge},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			id, err := o.Put(tt.partition, tt.sealed)
			if err == nil || id != 0 || tt.want != nil && !errors.Is(err, tt.want) {
				t.Fatalf("put: %d, %v", id, err)
			}
		})
	}
	for name, err := range map[string]error{
		"stored": o.Stored(9, 0), "unknown": o.Unknown(9), "not stored": o.NotStored(9),
	} {
		if !errors.Is(err, ErrNoBatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOptionBounds(t *testing.T) {
	tests := map[string]Options{
		"small segments":  {SegmentBytes: MinSegmentBytes - 1},
		"large segments":  {SegmentBytes: MaxSegmentBytes + 1},
		"few segments":    {SegmentBytes: 1 << 20, MaxBytes: 7 << 20},
		"many segments":   {SegmentBytes: 16 << 10, MaxBytes: 1 << 30},
		"negative bounds": {SegmentBytes: -1, MaxBytes: -1},
	}
	for name, options := range tests {
		if _, _, err := Open(testDir, testBinding, options); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, b := range []Binding{{}, {Topic: "t"}, {Producer: "p"}, {Topic: "t", Producer: strings.Repeat("p", 256)},
		{Topic: "t", Producer: "p", Server: strings.Repeat("s", 65)}} {
		if _, _, err := Open(testDir, b, Options{}); err == nil {
			t.Errorf("%+v: no error", b)
		}
	}
}

func TestReplaceKeepsTheOrder(t *testing.T) {
	d := newDisk()
	o, _ := openDisk(t, d)
	var ids []ID
	for base := range batchfmt.Seq(3) {
		id, err := o.Put(0, sealed(base, 1, 10, 1))
		must(t, err)
		ids = append(ids, id)
	}
	must(t, o.NotStored(ids[0]))
	a, err := o.Replace(ids[1], sealed(0, 1, 10, 2))
	must(t, err)
	must(t, o.Close()) // before the third was sealed anew

	o, f := openDisk(t, d)
	got := f.Lanes[0].Batches
	if len(got) != 2 || got[0].ID != a || got[0].Base != 0 || got[1].ID != ids[2] || f.Lanes[0].Epoch != 2 {
		t.Fatalf("found %+v", f.Lanes[0])
	}
	must(t, o.Unknown(a))
	if _, err := o.Replace(a, sealed(0, 1, 10, 3)); !errors.Is(err, ErrMustNotSend) {
		t.Fatalf("replace: %v", err)
	}
	if _, err := o.Replace(ids[1], sealed(0, 1, 10, 3)); !errors.Is(err, ErrNoBatch) {
		t.Fatalf("replace: %v", err)
	}
}

func TestSetLane(t *testing.T) {
	d := newDisk()
	o, _ := openDisk(t, d)
	id, err := o.Put(0, sealed(0, 10, 10, 1))
	must(t, err)
	must(t, o.Stored(id, 100))
	point := &Point{Sequence: 4, Offset: 50, Digest: 7}
	must(t, o.SetLane(0, 4, point, 3))
	must(t, o.SetLane(1, -1, nil, 0))
	if o.SetLane(-1, 0, nil, 0) == nil || o.SetLane(0, -2, nil, 0) == nil {
		t.Fatal("nonsense was taken")
	}
	must(t, o.Close())
	_, f := openDisk(t, d)
	if l := f.Lanes[0]; l.Next != 5 || l.Through != 4 || *l.Acked != *point || l.Epoch != 3 {
		t.Fatalf("lane is %+v", l)
	}
	if l := f.Lanes[1]; l.Next != 0 || l.Acked != nil {
		t.Fatalf("lane is %+v", l)
	}
}

// TestStuckPartition looks that a batch which stays keeps only its own bytes.
func TestStuckPartition(t *testing.T) {
	d := newDisk()
	o, _ := openDisk(t, d)
	stuck, err := o.Put(9, sealed(0, 1, 3000, 1))
	must(t, err)
	told, err := o.Put(8, sealed(0, 1, 3000, 1))
	must(t, err)
	must(t, o.Unknown(told))
	for base := range batchfmt.Seq(300) {
		id, err := o.Put(0, sealed(base, 1, 4000, 1))
		must(t, err)
		must(t, o.Sync())
		must(t, o.Stored(id, 1))
		if n, limit := d.bytes(), testOptions(d).MaxBytes; n > limit {
			t.Fatalf("the files take %d bytes, the limit is %d", n, limit)
		}
	}
	if got, err := o.Load(nil, stuck); err != nil || !bytes.Equal(got, sealed(0, 1, 3000, 1)) {
		t.Fatalf("load: %v", err)
	}
	if _, err := o.Load(nil, told); !errors.Is(err, ErrNoBody) {
		t.Fatalf("load: %v", err)
	}
	must(t, o.Close())
	o, f := openDisk(t, d)
	if f.Damage != nil || f.Batches() != 2 || f.Lanes[1].Batches[0].State != Unknown || f.Lanes[2].Batches[0].ID != stuck {
		t.Fatalf("found %+v, %v", f.Lanes, f.Damage)
	}
	must(t, o.Stored(stuck, 0))
	must(t, o.Stored(told, 0))
}

// TestFull looks that the bound refuses, that an outcome makes room, and that files stay
// within the limit even when everything is used.
func TestFull(t *testing.T) {
	d := newDisk()
	o, _ := openDisk(t, d)
	var ids []ID
	for base := batchfmt.Seq(0); base < 500; base++ {
		id, err := o.Put(0, sealed(base, 1, 3000, 1))
		if errors.Is(err, ErrFull) {
			if base < 15 {
				t.Fatalf("full after %d", base)
			}
			must(t, o.Stored(ids[len(ids)/2], 0)) // out of order, so that copying is needed
			ids = slices.Delete(ids, len(ids)/2, len(ids)/2+1)
			id, err = o.Put(0, sealed(base, 1, 3000, 1))
		}
		must(t, err)
		ids = append(ids, id)
		must(t, o.Sync())
		if n, limit := d.bytes(), testOptions(d).MaxBytes; n > limit {
			t.Fatalf("the files take %d bytes, the limit is %d", n, limit)
		}
	}
	must(t, o.Close())
	_, f := openDisk(t, d)
	var found []ID
	for _, b := range f.Lanes[0].Batches {
		found = append(found, b.ID)
	}
	if !slices.Equal(found, ids) {
		t.Fatalf("found %d batches, want %d", len(found), len(ids))
	}
}

// TestGroupCommit looks that callers share syncs and each of them is durable.
func TestGroupCommit(t *testing.T) {
	d := newDisk()
	o, _, err := Open(testDir, testBinding, Options{fs: d})
	must(t, err)
	defer o.Close()
	const callers = 64
	ids := make([]ID, callers)
	var start, wg sync.WaitGroup
	start.Add(callers)
	for i := range callers {
		wg.Go(func() {
			var err error
			if ids[i], err = o.Put(int32(i), sealed(0, 1, 50, 1)); err != nil {
				t.Error(err)
			}
			start.Done()
			start.Wait() // all are put before the first sync
			if err := o.Sync(); err != nil {
				t.Error(err)
			}
			if err := o.Stored(ids[i], 0); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if d.fileSyncs > 2 { // of the new segment, and of all batches
		t.Errorf("%d syncs for %d callers", d.fileSyncs, callers)
	}
	other, f, err := Open(testDir, testBinding, Options{fs: d.afterCut(keepNothing)})
	must(t, err)
	defer other.Close()
	if len(f.Lanes) != callers {
		t.Fatalf("%d lanes are durable", len(f.Lanes))
	}
}

// TestSyncWaitsForItsRound looks that what is put during a round is in the next one.
func TestSyncWaitsForItsRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		o, _ := openDisk(t, d)
		put := func(base batchfmt.Seq) {
			t.Helper()
			_, err := o.Put(0, sealed(base, 1, 10, 1))
			must(t, err)
		}
		put(0)
		must(t, o.Sync())
		gate := make(chan struct{})
		d.onSync = func() { <-gate }
		before := d.fileSyncs
		done := make(chan error, 3)
		put(1)
		go func() { done <- o.Sync() }()
		synctest.Wait() // it stands in the sync of the disk
		put(2)
		go func() { done <- o.Sync() }()
		put(3)
		go func() { done <- o.Sync() }()
		synctest.Wait()
		gate <- struct{}{}
		synctest.Wait()
		if len(done) != 1 {
			t.Fatalf("%d are done with the first round", len(done))
		}
		close(gate)
		for range 3 {
			must(t, <-done)
		}
		if n := d.fileSyncs - before; n != 2 {
			t.Fatalf("%d syncs", n)
		}
		must(t, o.Close())
	})
}

// TestLaterDamage looks that bytes which rot while the outbox is open are not given out.
func TestLaterDamage(t *testing.T) {
	s := newSmall(t)
	o, f := openDisk(t, s.d)
	b := f.Lanes[2].Batches[0]
	s.bytes()[len(s.bytes())-1-7] ^= 1
	_, err := o.Load(nil, b.ID)
	var de *DamageError
	if !errors.As(err, &de) || de.Damages[0].Batch.ID != b.ID || de.Dir != testDir {
		t.Fatalf("load: %v", err)
	}
}

func TestErrorTexts(t *testing.T) {
	batch := &Batch{Partition: 3, Base: 5, Last: 9, Epoch: 2}
	nowhere := *batch
	nowhere.Partition = -1
	tests := map[string]error{
		"outbox: d is damaged: f, 2 bytes at 1: r; it holds sequences 5 to 9, epoch 2, of partition 3": &DamageError{Dir: "d",
			Damages: []Damage{{File: "f", Offset: 1, Bytes: 2, Reason: "r", Batch: batch}}},
		"outbox: d is damaged in 4 places, the first: f, 2 bytes at 1: r; it holds sequences 5 to 9, epoch 2, of a partition not known": &DamageError{
			Dir: "d", More: 2, Damages: []Damage{{File: "f", Offset: 1, Bytes: 2, Reason: "r", Batch: &nowhere}, {}}},
		"outbox: d is damaged: f, 2 bytes at 1: r; sequences 3 to 4 of partition 1 are missing": &DamageError{Dir: "d",
			Damages: []Damage{{File: "f", Offset: 1, Bytes: 2, Reason: "r", Missing: []Range{{1, 3, 4}}}}},
		"outbox: f has format version 9, only 1 is known": &VersionError{File: "f", Version: 9},
	}
	for want, err := range tests {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}

func TestForeignFiles(t *testing.T) {
	s := newSmall(t)
	s.d.now[filepath.Join(testDir, "notes.txt")] = &diskFile{now: []byte("mine")}
	s.d.now[filepath.Join(testDir, "odd"+segmentSuffix)] = &diskFile{now: []byte("whose")}
	_, f := openDisk(t, s.d)
	if f.Damage == nil || len(f.Damage.Damages) != 1 || f.Damage.Damages[0].File != "odd"+segmentSuffix || f.Batches() != 4 {
		t.Fatalf("found %+v, %v", f.Lanes, f.Damage)
	}
}
