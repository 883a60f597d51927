package golden

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// catalogRow gives the first topic of a catalog that nobody has open, and puts another row in its
// place if there is one.
func catalogRow(t *testing.T, dir string, other func(key, row []byte) []byte) (row []byte) {
	t.Helper()
	db, err := bolt.Open(filepath.Join(dir, "catalog.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		topics := tx.Bucket([]byte("topics"))
		key, v := topics.Cursor().First()
		row = bytes.Clone(v)
		if other == nil {
			return nil
		}
		row = other(key, row)
		return topics.Put(bytes.Clone(key), row)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return row
}

// ofNewerRelease makes a row of the catalog one of version 2, with a right checksum: CRC32C over
// the key and all that stands before it.
func ofNewerRelease(key, row []byte) []byte {
	row[0] = 2
	head := row[:len(row)-4]
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.BigEndian.PutUint32(row[len(head):], crc32.Update(crc32.Checksum(key, table), table, head))
	return row
}

// TestServerLeavesANewerCatalogAlone starts today's program on a data directory in whose catalog
// a newer release has written a topic. It does not start, says which version that is, and
// leaves the row; quoin log verify says the same.
func TestServerLeavesANewerCatalogAlone(t *testing.T) {
	quoin, dir := buildQuoin(t), unpack(t, Next)
	planted := catalogRow(t, dir, ofNewerRelease)
	cmd := exec.CommandContext(within(t), quoin, "serve", "--data", dir, "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("quoin serve ends with %v", err)
	}
	const words = "has row version 2, written by a newer version of quoin; this one reads row version 1"
	if text := string(out); !strings.Contains(text, words) || strings.Contains(text, "damaged") || strings.Contains(text, "backup") {
		t.Errorf("%q is not what quoin serve says:\n%s", words, text)
	}
	if found, code := verify(t, quoin, dir); code != 7 || !strings.Contains(found, words) {
		t.Errorf("quoin log verify ends with %d:\n%s", code, found)
	}
	if row := catalogRow(t, dir, nil); !bytes.Equal(row, planted) {
		t.Errorf("the row was changed from %x to %x", planted, row)
	}
}
