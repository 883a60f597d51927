package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-io/quoin/server/internal/catalog"
	"github.com/quoin-io/quoin/server/internal/producerindex"
	"github.com/quoin-io/quoin/server/internal/retired"
	"github.com/quoin-io/quoin/server/internal/seglog"
)

// A verification goes through a data directory.
type verification struct {
	out  findingPrinter
	note io.Writer
	list bool // also files

	root     string           // data directory
	content  *catalog.Content // of the catalog; nil if it cannot be trusted
	looked   bool             // there was a catalog with starts to be counted
	starts   uint64
	topicIDs map[catalog.TopicID]bool // that have a directory

	partitions, wrong, mended, strays int
	batches, records                  int64
}

func (v *verification) found(f finding) {
	switch f.grade {
	case wrong:
		v.wrong++
	case mended:
		v.mended++
	case stray:
		v.strays++
	}
	v.out.finding(&f)
}

// run verifies a directory. What could not be printed is verified and counted all the same.
func (v *verification) run(dir string) error {
	err := v.verify(dir)
	if err != nil {
		return v.out.end(err)
	}
	if v.wrong > 0 {
		err = errVerification
	}
	err = v.out.end(err)
	v.sum()
	return err
}

func (v *verification) verify(dir string) error {
	single, err := isPartition(dir)
	if err != nil {
		return err
	}
	v.root = dir
	if single {
		// A server has the catalog of the whole directory open.
		if v.root, err = filepath.Abs(filepath.Join(dir, "..", "..", "..")); err != nil {
			return err
		}
		err = v.onePartition(dir)
	} else {
		err = v.dataDir()
	}
	if err != nil {
		return err
	}
	return v.undisturbed()
}

// sum tells what was verified.
func (v *verification) sum() {
	fmt.Fprintf(v.note, "%d partitions, %d batches, %d records: %d findings, %d more that a start mends\n",
		v.partitions, v.batches, v.records, v.wrong, v.mended)
	if v.strays > 0 {
		fmt.Fprintf(v.note, "%d files or directories are none of ours\n", v.strays)
	}
}

// isPartition reports whether a directory is that of one partition: it has a file of a log.
func isPartition(dir string) (bool, error) {
	names, err := files.List(dir)
	return err == nil && slices.ContainsFunc(names, func(name string) bool {
		return strings.HasSuffix(name, ".seg") || strings.HasSuffix(name, ".idx") || roleOf(name) != ""
	}), err
}

func isSnapshot(name string) bool {
	return strings.HasPrefix(name, "producers-") && strings.HasSuffix(name, ".snap")
}

// roleOf says what a file of a partition is that is none of the log's; empty if it is none
// of the partition's either.
func roleOf(name string) string {
	_, temp, index := producerindex.ParseName(name)
	switch whole := strings.TrimSuffix(name, ".tmp"); {
	case isSnapshot(name):
		return "snapshot"
	case index && !temp:
		return indexRole
	case retired.Owns(name) && whole == name && !strings.HasSuffix(name, ".bad"):
		return retiredRole
	case isSnapshot(whole), index, retired.Owns(name):
		return leftover
	}
	return ""
}

const (
	// leftover is the role of a file that holds no data: it was never finished, or put aside.
	leftover    = "leftover"
	indexRole   = "producer index"
	retiredRole = "retired producers"
)

func (v *verification) onePartition(dir string) error {
	if err := v.refuseInUse(); err != nil {
		return err
	}
	return v.partition(filepath.Base(filepath.Clean(dir)), dir, false)
}

func (v *verification) refuseInUse() error {
	starts, err := catalog.StartsOf(v.root)
	if errors.Is(err, catalog.ErrLocked) {
		return fmt.Errorf("a server has %s open: stop it first", v.root)
	}
	v.looked, v.starts = err == nil, starts
	return nil
}

// undisturbed refuses to say anything when a server was started meanwhile: what it writes
// looks torn. To keep it from starting would be worse.
func (v *verification) undisturbed() error {
	starts, err := catalog.StartsOf(v.root)
	if errors.Is(err, catalog.ErrLocked) || err == nil && v.looked && starts != v.starts {
		return fmt.Errorf("a server was started on %s meanwhile, and what was found may be its work: stop it and verify again", v.root)
	}
	return nil
}

func (v *verification) dataDir() error {
	if err := v.refuseInUse(); err != nil {
		return err
	}
	topics, err := files.List(filepath.Join(v.root, "topics"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := v.catalog(len(topics) > 0); err != nil {
		return err
	}
	v.topicIDs = make(map[catalog.TopicID]bool)
	for _, name := range topics {
		if err := v.topic(name); err != nil {
			return err
		}
	}
	if v.content == nil {
		return nil
	}
	for _, t := range v.content.Topics {
		if !v.topicIDs[t.ID] {
			v.absent(t, nil)
		}
	}
	return nil
}

// catalog verifies the catalog; it must be there if there are topics.
func (v *verification) catalog(needed bool) error {
	before := v.wrong
	content, err := catalog.Verify(v.root, v.badCatalog)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if needed {
			v.found(finding{grade: wrong, kind: "missing", file: catalog.FileName, reason: "there are topics, and no catalog"})
		}
		return nil
	case errors.Is(err, catalog.ErrVersion):
		v.badCatalog(err)
		return nil
	case err != nil:
		return err
	}
	if v.wrong == before {
		v.content = &content
	}
	if v.list {
		v.out.file(catalog.FileName, content.Bytes, "catalog")
	}
	return nil
}

func (v *verification) badCatalog(err error) {
	reason := strings.TrimPrefix(err.Error(), "catalog: ")
	v.found(finding{grade: wrong, kind: "catalog", file: catalog.FileName, reason: reason})
}

// topic verifies a directory that should be that of a topic.
func (v *verification) topic(name string) error {
	dir := filepath.Join("topics", name)
	id, err := catalog.ParseTopicID(name)
	partitions, listErr := files.List(filepath.Join(v.root, dir))
	if err != nil || listErr != nil && !isDir(filepath.Join(v.root, dir)) {
		v.found(finding{grade: stray, kind: "stray", dir: dir, reason: "it is no topic"})
		return nil
	}
	if listErr != nil {
		return v.unreadable(dir, listErr)
	}
	v.topicIDs[id] = true
	t, known := v.known(id)
	switch {
	case v.content == nil, known:
	case slices.ContainsFunc(v.content.Deleting, func(d catalog.Topic) bool { return d.ID == id }):
		v.found(finding{grade: mended, kind: leftover, dir: dir, reason: "the topic was deleted"})
		return nil
	default:
		v.found(finding{grade: wrong, kind: "catalog", dir: dir, reason: "no topic has this id, so nobody can read it"})
	}
	have := make(map[int]bool)
	slices.SortFunc(partitions, func(a, b string) int { return number(a) - number(b) })
	for _, n := range partitions {
		path := filepath.Join(dir, n)
		if number(n) < 0 || !isDir(filepath.Join(v.root, path)) {
			v.found(finding{grade: stray, kind: "stray", dir: path, reason: "it is no partition"})
			continue
		}
		have[number(n)] = true
		if known && number(n) >= int(t.Partitions) {
			v.found(finding{grade: wrong, kind: "catalog", dir: path,
				reason: fmt.Sprintf("the topic has %d partitions, so nobody can read this one", t.Partitions)})
		}
		owned := known && v.content.Opened(id, int32(number(n)))
		if err := v.partition(path, filepath.Join(v.root, path), owned); err != nil {
			return err
		}
	}
	if known {
		v.absent(t, have)
	}
	return nil
}

func (v *verification) known(id catalog.TopicID) (catalog.Topic, bool) {
	if v.content == nil {
		return catalog.Topic{}, false
	}
	i := slices.IndexFunc(v.content.Topics, func(t catalog.Topic) bool { return t.ID == id })
	if i < 0 {
		return catalog.Topic{}, false
	}
	return v.content.Topics[i], true
}

// absent tells of the partitions of a topic that have no directory. A kill may have come
// before it was made, but not when the partition has had an owner.
func (v *verification) absent(t catalog.Topic, have map[int]bool) {
	for n := range t.Partitions {
		if have[int(n)] {
			continue
		}
		g, why := mended, "it was not made yet"
		if v.content.Opened(t.ID, n) {
			g, why = wrong, "it is gone, and a start would begin the log anew"
		}
		v.found(finding{grade: g, kind: "missing", dir: fmt.Sprintf("topics/%v/%d", t.ID, n),
			reason: fmt.Sprintf("partition %d of topic %q: %s", n, t.Name, why)})
	}
}

// number is the number of a partition, or -1 for a name that is none.
func number(s string) int {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || strconv.FormatUint(n, 10) != s {
		return -1
	}
	return int(n)
}

// isDir reports whether what is in a directory of ours is one itself.
func isDir(name string) bool {
	_, err := files.List(name)
	return err == nil || errors.Is(err, fs.ErrPermission)
}

// unreadable is a finding if the disk is at fault, and an error if the caller has no right.
func (v *verification) unreadable(name string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return err
	}
	v.found(finding{grade: wrong, kind: "unreadable", dir: name, reason: fmt.Sprintf("what follows in it was not verified: %v", err)})
	return nil
}

// partition verifies one; owned says that it must have a log.
func (v *verification) partition(name, dir string, owned bool) error {
	v.partitions++
	report, err := seglog.Verify(files, dir, func(f seglog.Finding) {
		g := wrong
		if f.Kind == seglog.FoundTorn || f.Kind == seglog.FoundLeftover {
			g = mended
		}
		v.found(finding{g, string(f.Kind), name, f.File, &extent{f.Position, f.From, f.Next}, f.Reason})
	})
	if err != nil {
		return v.unreadable(name, err)
	}
	if owned && !slices.ContainsFunc(report.Files, func(f seglog.FileInfo) bool { return f.Role == "segment" }) {
		v.found(finding{grade: wrong, kind: "missing", dir: name, reason: "no segment is there, and a start would begin the log anew"})
	}
	if err := v.producers(name, dir, report); err != nil {
		return err
	}
	v.batches += report.Batches
	v.records += report.Records
	v.files(name, report)
	return nil
}

// files tells of what is none of ours, and lists what holds data if that is wanted.
func (v *verification) files(name string, report seglog.Report) {
	for _, f := range report.Files {
		role := f.Role
		if role == "" {
			role = roleOf(f.Name)
		}
		switch {
		case role == "":
			v.found(finding{grade: stray, kind: "stray", dir: name, file: f.Name, reason: "nothing reads it"})
		case role == leftover && isSnapshot(strings.TrimSuffix(f.Name, ".tmp")):
			v.found(finding{grade: mended, kind: leftover, dir: name, file: f.Name, reason: "it was being written"})
		case role != leftover && v.list: // whoever verified the others has told of them
			v.out.file(filepath.Join(name, f.Name), f.Bytes, role)
		}
	}
}
