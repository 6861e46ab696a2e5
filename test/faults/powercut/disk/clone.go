package disk

import "slices"

// Clone returns a copy of a disk whose power is on. It counts operations from the beginning and has no aim.
func (d *Disk) Clone() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &Disk{
		Journaled: d.Journaled, Free: d.Free, nodes: map[uint64]*node{}, next: d.next, down: make(chan struct{}),
		faulty: make(chan struct{}),
	}
	copies := map[*node]*node{nil: nil}
	var copied func(n *node) *node
	names := func(from map[string]*node) map[string]*node {
		to := make(map[string]*node, len(from))
		for name, n := range from {
			to[name] = copied(n)
		}
		return to
	}
	copied = func(n *node) *node {
		if to, ok := copies[n]; ok {
			return to
		}
		to := &node{id: n.id, mode: n.mode, uid: n.uid, gid: n.gid, path: n.path, links: n.links, modified: n.modified}
		copies[n] = to
		if n.links > 0 {
			c.nodes[n.id] = to
		}
		to.file = file{slices.Clone(n.saved), slices.Clone(n.current), slices.Clone(n.changes)}
		if n.isDir() {
			to.directory = directory{names(n.names), names(n.synced)}
		}
		return to
	}
	copied(d.nodes[Root])
	for _, change := range d.journal {
		sets := make([]entry, len(change.sets))
		for i, e := range change.sets {
			sets[i] = entry{copied(e.dir), e.name, copied(e.node)}
		}
		c.journal = append(c.journal, entryChange{change.kind, sets})
	}
	return c
}
