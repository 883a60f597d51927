package catalog

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// populated makes a catalog with something in every bucket, and closes it.
func populated(t *testing.T) (dir string, orders Topic) {
	dir = t.TempDir()
	c := open(t, dir, Options{})
	orders = must(c.CreateTopic("orders", 3, TopicConfig{}))(t)
	gone := must(c.CreateTopic("gone", 1, TopicConfig{}))(t)
	must(c.NextTerm(orders.ID, 1, 0))(t)
	must(c.NextTerm(gone.ID, 0, 0))(t)
	if err := c.DeleteTopic(gone.ID); err != nil {
		t.Fatal(err)
	}
	must(c.InitProducer(instance(1), ""))(t)
	must(c.InitProducer(instance(2), "name"))(t)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, orders
}

// verified gives what Verify tells, and fails if it changes the file.
func verified(t *testing.T, dir string) (Content, []string) {
	t.Helper()
	path := filepath.Join(dir, FileName)
	before := must(os.ReadFile(path))(t)
	var told []string
	content, err := Verify(dir, func(err error) {
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("told of %v", err)
		}
		told = append(told, err.Error())
	})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, must(os.ReadFile(path))(t)) {
		t.Error("the file was changed")
	}
	return content, told
}

func TestLookAtASoundCatalog(t *testing.T) {
	dir, orders := populated(t)
	content, told := verified(t, dir)
	if len(told) > 0 || content.Starts != 1 || len(content.Topics) != 1 || content.Topics[0] != orders ||
		len(content.Deleting) != 1 || content.Deleting[0].Name != "gone" || content.Bytes == 0 {
		t.Fatalf("%+v, told %q", content, told)
	}
	for n, want := range []bool{false, true, false} {
		if got := content.Opened(orders.ID, int32(n)); got != want {
			t.Errorf("partition %d was opened: %v", n, got)
		}
	}
	if got := must(FindTopic(dir, "orders"))(t); got != orders {
		t.Errorf("found %+v", got)
	}
	if _, err := FindTopic(dir, "gone"); !errors.Is(err, ErrUnknownTopic) {
		t.Errorf("a deleted topic: %v", err)
	}
	if n := must(StartsOf(dir))(t); n != 1 {
		t.Errorf("%d starts", n)
	}
}

func TestLookIsLockedOutByAServer(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, Options{})
	_, find := FindTopic(dir, "t")
	_, verify := Verify(dir, func(error) {})
	_, starts := StartsOf(dir)
	for _, err := range []error{find, verify, starts} {
		if !errors.Is(err, ErrLocked) {
			t.Errorf("got %v", err)
		}
	}
}

func TestLookMakesNoCatalog(t *testing.T) {
	dir := t.TempDir()
	_, find := FindTopic(dir, "t")
	_, verify := Verify(dir, func(error) {})
	for _, err := range []error{find, verify} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	}
	if names := must(filepath.Glob(filepath.Join(dir, "*")))(t); len(names) > 0 {
		t.Errorf("there is %q now", names)
	}
}

func TestVerifyNamesWhatIsWrong(t *testing.T) {
	flip := func(bucket []byte) func(tx *bolt.Tx) error {
		return func(tx *bolt.Tx) error {
			k, v := tx.Bucket(bucket).Cursor().First()
			v = bytes.Clone(v)
			v[len(v)-1] ^= 1
			return tx.Bucket(bucket).Put(k, v)
		}
	}
	put := func(bucket, key, body []byte) func(tx *bolt.Tx) error {
		return func(tx *bolt.Tx) error { return tx.Bucket(bucket).Put(key, sealRow(key, body)) }
	}
	for _, row := range []struct {
		reason string
		edit   func(tx *bolt.Tx) error
		want   string
	}{
		{"a topic", flip(bucketTopics), "topic, key "},
		{"a name", flip(bucketNames), "topic name, key "},
		{"a name too many", put(bucketNames, []byte("x"), make([]byte, 16)), "there are 2 for 1 topics"},
		{"a pending delete", flip(bucketDeleting), "topic, key "},
		{"a term", flip(bucketTerms), "term of a partition, key "},
		{"a producer", flip(bucketProducers), "producer, key "},
		{"a producer that was never given", put(bucketProducers, pidKey(5000), make([]byte, producerFixed)), "no such id was ever given"},
		{"an instance", flip(bucketInstances), "instance of a producer, key "},
		{"an instance that leads nowhere", put(bucketInstances, []byte("i"), numberBody(900)), "producer 900: is missing"},
		{"a name of a producer", flip(bucketHolders), "name of a producer, key "},
		{"the secret", put(bucketMeta, keySecret, []byte("short")), "secret: has 5 bytes"},
		{"the starts", put(bucketMeta, keyStarts, []byte("short")), "starts: a number has 5 bytes"},
		{"the next producer id", func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Delete(keyNextPID) }, "next-pid: is missing"},
		{"the format", flip(bucketMeta), "format version: checksum"},
		{"a bucket", func(tx *bolt.Tx) error { return tx.DeleteBucket(bucketTerms) }, "bucket terms is missing"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			dir, _ := populated(t)
			edit(t, dir, row.edit)
			_, told := verified(t, dir)
			if all := strings.Join(told, "\n"); !strings.Contains(all, row.want) || !strings.Contains(all, dir) {
				t.Errorf("told %q, want %q", all, row.want)
			}
		})
	}
}

// A byte that changed anywhere in the file is noticed or does no harm, and a look survives it.
func TestLookSurvivesAnyByte(t *testing.T) {
	source, _ := populated(t)
	whole := must(os.ReadFile(filepath.Join(source, FileName)))(t)
	step := 101
	if testing.Short() {
		step = 371
	}
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	put := func(b []byte) {
		os.Remove(path) // what fell over an older one may have it mapped
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for at := 0; at < len(whole); at += step {
		b := bytes.Clone(whole)
		b[at] ^= 0x15
		put(b)
		_, err := Verify(dir, func(error) {})
		if err != nil && !errors.Is(err, ErrVersion) {
			t.Fatalf("byte %d: %v", at, err)
		}
		if topic, err := FindTopic(dir, "orders"); err == nil && topic.Name != "orders" {
			t.Fatalf("byte %d: %+v", at, topic)
		}
	}
	for _, size := range []int{1, 100, 4096, 5000, 8192, 16384} {
		put(whole[:size])
		if _, told := verified(t, dir); len(told) == 0 {
			t.Errorf("cut to %d bytes: nothing was told", size)
		}
	}
}
