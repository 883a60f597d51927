package vfs

import "math/rand/v2"

// UnsyncedKind says what kind of thing a power cut may take.
type UnsyncedKind uint8

const (
	// UnsyncedName is a name that was added, changed or removed in a directory.
	UnsyncedName UnsyncedKind = iota
	// UnsyncedLength is a new length of a file, of a truncation or of a write over the end.
	UnsyncedLength
	// UnsyncedSector is what one write put into one sector.
	UnsyncedSector
)

// Unsynced names one thing that the next power cut may take or leave, whatever becomes of
// the others.
type Unsynced struct {
	Name   string // path of the file, or of the directory
	Kind   UnsyncedKind
	Change int   // its number among the changes of that file or directory
	Sector int64 // which of the file, for UnsyncedSector
}

// sectorBytes is what a disk writes as a whole.
const sectorBytes = 512

// CrashClone returns the disk as it is after a power cut at which nothing was written
// but what had been synced. The receiver goes on unchanged.
func (m *Mem) CrashClone() *Mem {
	return m.CrashCloneKeeping(func(Unsynced) bool { return false })
}

// CrashCloneKeeping returns the disk after a power cut that kept just what keep says. It is
// asked about everything unsynced, in an order that depends on nothing but the disk and the
// answers.
func (m *Mem) CrashCloneKeeping(keep func(Unsynced) bool) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &Mem{}
	c.mu.root = m.mu.root.afterCrash("/", keep).(*memDir)
	c.mu.survives, c.mu.sticky = m.mu.survives, m.mu.sticky
	return c
}

// Unsynced lists what a power cut may take: with all subsets of it as what is kept,
// [Mem.CrashCloneKeeping] gives all disks that are possible.
func (m *Mem) Unsynced() []Unsynced {
	var all []Unsynced
	m.CrashCloneKeeping(func(u Unsynced) bool {
		all = append(all, u)
		return true
	})
	return all
}

// CrashCloneRandom returns one of the disks that a power cut may leave: of the changes
// that were not synced each may be there or not, and a write also in part, by sectors.
func (m *Mem) CrashCloneRandom(r *rand.Rand) *Mem { return m.CrashCloneKeeping(KeepRandom(r)) }

// KeepRandom keeps three of four changes, and of every second write only some sectors.
func KeepRandom(r *rand.Rand) func(Unsynced) bool {
	type change struct {
		name   string
		number int
	}
	var last change
	var kept, torn bool
	return func(u Unsynced) bool {
		if c := (change{u.Name, u.Change}); u.Kind == UnsyncedName || c != last {
			last, kept, torn = c, r.IntN(4) > 0, r.IntN(2) == 0
		}
		if u.Kind != UnsyncedName && torn {
			return kept && r.IntN(2) == 0
		}
		return kept
	}
}

// FailedSyncKeeps sets what a sync that fails writes all the same; nil is nothing, and the
// default.
func (m *Mem) FailedSyncKeeps(keep func(Unsynced) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.survives = keep
}

// KeepCache makes [DropCache] do nothing, or something again: no system promises more.
func (m *Mem) KeepCache(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.sticky = on
}
