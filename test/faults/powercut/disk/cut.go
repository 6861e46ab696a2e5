package disk

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"syscall"
)

// Kind is a kind of operation.
type Kind int

// The kinds of operations that change or save something.
const (
	Write Kind = iota
	Resize
	Sync    // of a file
	SyncDir // of a directory
	Create
	Remove
	Rename
)

func (k Kind) String() string {
	return [...]string{"write", "resize", "sync", "sync of directory", "create", "remove", "rename"}[k]
}

// Aim is a moment to cut the power.
type Aim struct {
	// Matches tells the operations that count, by their kind and the path of what they change; a renamed file has its
	// new one. Nil means all that change or save something. It must not use the disk.
	Matches func(kind Kind, path string) bool
	// At is the number of the operation, from 1, that is cut. A sync that is cut saves nothing; another operation
	// leaves a change that is not synced.
	At int
	// Fails makes the operation, a sync of a file, fail instead. The power stays on. Like on Linux, what the sync would
	// have saved can be read until the power is cut, and later syncs succeed without it.
	Fails bool
}

// Arm sets when to cut the power. It replaces an earlier aim.
func (d *Disk) Arm(aim Aim) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.aim, d.left = aim, max(aim.At, 1)
}

// Disarm removes the aim and reports whether the power is still on.
func (d *Disk) Disarm() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = 0
	return !d.off()
}

// Cut cuts the power, if it is still on.
func (d *Disk) Cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut("between operations")
}

func (d *Disk) cut(hit string) {
	if !d.off() {
		d.fault(hit)
		close(d.down)
	}
}

// fault notes the first fault.
func (d *Disk) fault(hit string) {
	select {
	case <-d.faulty:
	default:
		d.hit = hit
		close(d.faulty)
	}
}

func (d *Disk) off() bool {
	select {
	case <-d.down:
		return true
	default:
		return false
	}
}

// Down is closed when the power is cut.
func (d *Disk) Down() <-chan struct{} { return d.down }

// Faulty is closed when the power is cut or a sync has failed.
func (d *Disk) Faulty() <-chan struct{} { return d.faulty }

// Hit describes the operation that was cut or failed.
func (d *Disk) Hit() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hit
}

// Operations returns the number of changes and syncs so far.
func (d *Disk) Operations() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ops
}

// count counts an operation. It cuts the power, or fails, if it is the one aimed at.
func (d *Disk) count(kind Kind, name string) error {
	d.ops++
	if d.left > 0 && (d.aim.Matches == nil || d.aim.Matches(kind, name)) {
		if d.left--; d.left == 0 {
			hit := fmt.Sprintf("%s of %s", kind, name)
			if d.aim.Fails {
				d.fault("failed " + hit)
				return syscall.EIO
			}
			d.cut(hit)
		}
	}
	if d.off() {
		return syscall.EIO
	}
	return nil
}

// Losses counts what cuts have taken away. Only what was not synced can be lost.
type Losses struct {
	Unsynced                  int // changes of files and entries
	Writes, Torn, Resizes     int // of files: lost, partly lost, lost sizes
	Creates, Removes, Renames int // lost
}

// Add adds the losses of another cut.
func (l *Losses) Add(o Losses) {
	l.Unsynced += o.Unsynced
	l.Writes += o.Writes
	l.Torn += o.Torn
	l.Resizes += o.Resizes
	l.Creates += o.Creates
	l.Removes += o.Removes
	l.Renames += o.Renames
}

func (l Losses) String() string {
	return fmt.Sprintf("of %d unsynced changes lost: %d writes, %d parts of writes, %d sizes, %d creates, "+
		"%d removals, %d renames", l.Unsynced, l.Writes, l.Torn, l.Resizes, l.Creates, l.Removes, l.Renames)
}

// changed counts a change of a file of whose sectors so many are kept.
func (l *Losses) changed(kept, sectors int64, size bool) {
	l.Unsynced++
	switch {
	case sectors == 0 && !size:
		l.Resizes++
	case kept == 0 && sectors > 0:
		l.Writes++
	case kept < sectors:
		l.Torn++
	}
}

// lost counts a change of entries that is lost.
func (l *Losses) lost(k Kind) {
	switch k {
	case Create:
		l.Creates++
	case Remove:
		l.Removes++
	case Rename:
		l.Renames++
	}
}

// Survive cuts the power and returns the disk as r leaves it, with the power on. The old disk is of no use afterwards.
// The same operations and the same r have the same result.
func (d *Disk) Survive(r *rand.Rand) (*Disk, Losses) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut("between operations")
	var l Losses
	d.keepEntries(r, &l)
	after := &Disk{
		Journaled: d.Journaled, Free: d.Free, nodes: map[uint64]*node{}, next: d.next, down: make(chan struct{}),
		faulty: make(chan struct{}),
	}
	after.adopt(d.nodes[Root], "/")
	for _, id := range slices.Sorted(maps.Keys(after.nodes)) {
		n := after.nodes[id]
		n.saved = n.survive(r, &l)
		n.current, n.changes = nil, nil
	}
	return after, l
}

// keepEntries makes some of the changes of entries on the disk.
func (d *Disk) keepEntries(r *rand.Rand, l *Losses) {
	l.Unsynced += len(d.journal)
	all := 0 // so many are kept, unless their directories stop earlier
	perDir := false
	switch r.IntN(4) {
	case 0: // nothing
	case 1:
		all = len(d.journal)
	case 2:
		all = r.IntN(len(d.journal) + 1)
	default:
		all, perDir = len(d.journal), true
	}
	stopped := map[*node]bool{}
	for i := range d.journal {
		c := &d.journal[i]
		stop := i >= all || perDir && r.IntN(4) == 0
		for _, e := range c.sets {
			stop = stop || stopped[e.dir]
		}
		if !stop {
			c.apply()
			continue
		}
		l.lost(c.kind)
		for _, e := range c.sets {
			stopped[e.dir] = true
		}
	}
}

// adopt takes over a node and what is below it on the disk.
func (d *Disk) adopt(n *node, name string) {
	n.lookups = 0
	n.path = name
	if d.nodes[n.id] == nil {
		d.nodes[n.id] = n
		n.links = 0
	}
	n.links++
	if !n.isDir() {
		return
	}
	n.names = maps.Clone(n.synced)
	for base, child := range n.synced {
		d.adopt(child, path.Join(name, base))
	}
}
