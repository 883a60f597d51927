package retired

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

const testDir = "/p"

var errTest = errors.New("test error")

type pid = batchfmt.ProducerID

// tb is a test, also one of rapid's.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

func wantErr(t tb, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}

func newDisk(t tb) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	must(t, vfs.MakeDir(mem, testDir))
	return mem
}

func mustOpen(t tb, fs vfs.FS, opts Options) (*Table, Report) {
	t.Helper()
	table, report, err := Open(fs, testDir, opts)
	must(t, err)
	return table, report
}

// mustOpenWhole opens a table that must not be damaged.
func mustOpenWhole(t tb, fs vfs.FS, opts Options) *Table {
	t.Helper()
	table, report := mustOpen(t, fs, opts)
	if len(report.Damage) > 0 || report.Lost || report.Everything {
		t.Fatalf("damage: %+v", report)
	}
	return table
}

func row(id pid, value string) Row { return Row{PID: id, Value: []byte(value)} }

func named(id pid, value string) Row { return Row{PID: id, Named: true, Value: []byte(value)} }

// upkeep does all that is due.
func upkeep(t tb, table *Table) {
	t.Helper()
	for {
		worked, err := table.Maintain()
		must(t, err)
		if !worked {
			return
		}
	}
}

// wantRow fails unless pid has this row, and it is known to be the last.
func wantRow(t tb, table *Table, want Row) {
	t.Helper()
	got, ok, err := table.Get(want.PID)
	must(t, err)
	if !ok || got.Stale || got.PID != want.PID || !bytes.Equal(got.Value, want.Value) {
		t.Fatalf("Get(%d) = %+v, %v, want %q", want.PID, got, ok, want.Value)
	}
}

func wantNone(t tb, table *Table, id pid) {
	t.Helper()
	if got, ok, err := table.Get(id); ok || err != nil {
		t.Fatalf("Get(%d) = %+v, %v, %v, want nothing", id, got, ok, err)
	}
}

func content(t tb, fs vfs.FS, base string) []byte {
	t.Helper()
	f, err := fs.Open(filepath.Join(testDir, base))
	must(t, err)
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	must(t, readFull(f, b))
	must(t, f.Close())
	return b
}

// writeFile makes b the durable contents of a file.
func writeFile(t tb, fs vfs.FS, base string, b []byte) {
	t.Helper()
	name := filepath.Join(testDir, base)
	_ = fs.Remove(name) // it need not be there
	f, err := fs.Create(name)
	must(t, err)
	_, err = f.WriteAt(b, 0)
	must(t, errors.Join(err, f.Sync(), f.Close()))
	must(t, fs.SyncDir(testDir))
}

func list(t tb, fs vfs.FS) []string {
	t.Helper()
	names, err := fs.List(testDir)
	must(t, err)
	return names
}

// verify returns the findings.
func verify(t tb, fs vfs.FS) []Finding {
	t.Helper()
	var all []Finding
	sum, err := Verify(fs, testDir, func(f Finding) { all = append(all, f) })
	must(t, err)
	if sum.Findings != len(all) {
		t.Fatalf("%d findings, counted %d", len(all), sum.Findings)
	}
	return all
}

// model is what a table should answer.
type model struct {
	rows map[pid]*truth
	most pid // the highest id that was put
	next int
	gone map[pid]bool // names that do not exist any more
	max  int          // Options.MaxRows
}

// truth is what one producer put.
type truth struct {
	last  string   // of a Put that returned nil; empty for none
	older []string // before it
	maybe []string // of puts after last that failed
	named bool
}

// Of a workload of some dozen puts, dropping makes a table drop all the time, and merging has
// it merge.
const (
	dropping = 16
	merging  = 60
)

func newModel() *model { return &model{rows: map[pid]*truth{}, gone: map[pid]bool{}, max: dropping} }

func (m *model) options() Options {
	return Options{MaxRows: m.max, Named: func(id pid) bool { return !m.gone[id] }, Issued: 1000}
}

// rowsOf makes new rows of these producers. Every third producer is named.
func (m *model) rowsOf(ids ...pid) []Row {
	var rows []Row
	for _, id := range ids {
		m.next++
		value := fmt.Sprintf("%d of %d", m.next, id)
		rows = append(rows, Row{PID: id, Named: id%3 == 0, Value: append([]byte(value), make([]byte, m.next%100)...)})
	}
	return rows
}

// put does a Put and takes down what came of it.
func (m *model) put(table *Table, rows []Row) error {
	err := table.Put(rows)
	for _, r := range rows {
		tr := m.rows[r.PID]
		if tr == nil {
			tr = &truth{named: r.Named}
			m.rows[r.PID] = tr
		}
		m.most = max(m.most, plain(r.PID))
		if err != nil {
			tr.maybe = append(tr.maybe, string(r.Value))
			continue
		}
		tr.older = append(append(tr.older, tr.last), tr.maybe...)
		tr.last, tr.maybe = string(r.Value), nil
	}
	return err
}

// clone is for a disk that goes its own way.
func (m *model) clone() *model {
	c := *m
	c.rows = maps.Clone(m.rows)
	for id, tr := range c.rows {
		copied := *tr
		copied.older, copied.maybe = slices.Clone(tr.older), slices.Clone(tr.maybe)
		c.rows[id] = &copied
	}
	c.gone = maps.Clone(m.gone)
	return &c
}

// attempt takes down rows of which it is not known whether their Put will return nil.
func (m *model) attempt(rows []Row) {
	for _, r := range rows {
		if m.rows[r.PID] == nil {
			m.rows[r.PID] = &truth{named: r.Named}
		}
		m.rows[r.PID].maybe = append(m.rows[r.PID].maybe, string(r.Value))
		m.most = max(m.most, plain(r.PID))
	}
}

// check holds the table against the model. After a restart rows of failed puts may be there,
// and count from then on.
func (m *model) check(t tb, table *Table, restarted bool) {
	t.Helper()
	if f := table.ForgottenUpTo(); f > m.most {
		t.Fatalf("forgotten up to %d, the highest that was there is %d", f, m.most)
	}
	for id, tr := range m.rows {
		got, ok, err := table.Get(id)
		must(t, err)
		value := string(got.Value)
		switch {
		case ok && got.Stale:
			t.Fatalf("producer %d is stale on a whole disk", id)
		case ok && value == tr.last && tr.last != "":
		case ok && restarted && slices.Contains(tr.maybe, value):
			tr.older = append(tr.older, tr.last)
			tr.last = value
		case ok:
			t.Fatalf("producer %d has %q, want %q, or one of %q: %v", id, value, tr.last, tr.maybe, restarted)
		case tr.last != "" && (!table.MayHaveForgotten(id) || tr.named && !m.gone[id]):
			t.Fatalf("producer %d is gone, forgotten are those up to %d", id, table.ForgottenUpTo())
		}
	}
	for id := m.most + 1; id < m.most+20; id++ {
		wantNone(t, table, id)
	}
}
