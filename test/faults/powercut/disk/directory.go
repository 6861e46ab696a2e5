package disk

import (
	"path"
	"syscall"
)

// directory is the content of a directory: as programs see it, and on the disk.
type directory struct {
	names, synced map[string]*node
}

// entry is what a name in a directory becomes: node, or nothing if that is nil.
type entry struct {
	dir  *node
	name string
	node *node
}

// entryChange is a change of entries that happens completely or not at all.
type entryChange struct {
	kind Kind
	sets []entry
}

// apply makes a change on the disk.
func (c *entryChange) apply() {
	for _, e := range c.sets {
		if e.node == nil {
			delete(e.dir.synced, e.name)
		} else {
			e.dir.synced[e.name] = e.node
		}
	}
}

// set makes a change that programs see and the disk does not have.
func (d *Disk) set(kind Kind, sets ...entry) error {
	d.journal = append(d.journal, entryChange{kind, sets})
	var name string
	for _, e := range sets {
		name = path.Join(e.dir.path, e.name)
		if old := e.dir.names[e.name]; old != nil {
			old.links--
			defer d.drop(old)
		}
		if e.node == nil {
			delete(e.dir.names, e.name)
		} else {
			e.dir.names[e.name] = e.node
			e.node.links++
			e.node.path = name
		}
	}
	return d.count(kind, name)
}

// syncDir saves the changes of a directory, and what happened before them in the directories that they share.
func (d *Disk) syncDir(dir *node) {
	dirs := map[*node]bool{dir: true}
	saves := make([]bool, len(d.journal))
	for i := len(d.journal) - 1; i >= 0; i-- {
		for _, e := range d.journal[i].sets {
			saves[i] = saves[i] || dirs[e.dir]
		}
		if saves[i] {
			for _, e := range d.journal[i].sets {
				dirs[e.dir] = true
			}
		}
	}
	var rest []entryChange
	for i := range d.journal {
		if saves[i] {
			d.journal[i].apply()
		} else {
			rest = append(rest, d.journal[i])
		}
	}
	d.journal = rest
}

// saveEntries saves all changes of directories.
func (d *Disk) saveEntries() {
	for i := range d.journal {
		d.journal[i].apply()
	}
	d.journal = nil
}

// Create makes an empty file.
func (d *Disk) Create(dir uint64, name string, mode, uid, gid uint32) (Attr, error) {
	return d.create(dir, name, syscall.S_IFREG|mode&^syscall.S_IFMT, uid, gid)
}

// Mkdir makes an empty directory.
func (d *Disk) Mkdir(dir uint64, name string, mode, uid, gid uint32) (Attr, error) {
	return d.create(dir, name, syscall.S_IFDIR|mode&^syscall.S_IFMT, uid, gid)
}

func (d *Disk) create(dir uint64, name string, mode, uid, gid uint32) (Attr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	parent, err := d.getDir(dir)
	if err != nil {
		return Attr{}, err
	}
	if parent.names[name] != nil {
		return Attr{}, syscall.EEXIST
	}
	n := d.add(mode, uid, gid, "")
	if err := d.set(Create, entry{parent, name, n}); err != nil {
		return Attr{}, err
	}
	return n.found(), nil
}

// Link gives a file another name.
func (d *Disk) Link(id, dir uint64, name string) (Attr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.getFile(id)
	if err != nil {
		return Attr{}, err
	}
	parent, err := d.getDir(dir)
	if err != nil {
		return Attr{}, err
	}
	if parent.names[name] != nil {
		return Attr{}, syscall.EEXIST
	}
	if err := d.set(Create, entry{parent, name, n}); err != nil {
		return Attr{}, err
	}
	return n.found(), nil
}

// Unlink removes a name of a file.
func (d *Disk) Unlink(dir uint64, name string) error {
	return d.remove(dir, name, func(n *node) error {
		if n.isDir() {
			return syscall.EISDIR
		}
		return nil
	})
}

// Rmdir removes an empty directory.
func (d *Disk) Rmdir(dir uint64, name string) error {
	return d.remove(dir, name, func(n *node) error {
		switch {
		case !n.isDir():
			return syscall.ENOTDIR
		case len(n.names) > 0:
			return syscall.ENOTEMPTY
		}
		return nil
	})
}

func (d *Disk) remove(dir uint64, name string, check func(*node) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	parent, err := d.getDir(dir)
	if err != nil {
		return err
	}
	n := parent.names[name]
	if n == nil {
		return syscall.ENOENT
	}
	if err := check(n); err != nil {
		return err
	}
	return d.set(Remove, entry{parent, name, nil})
}

// Rename moves a file or directory. Unless keep is set, it replaces what has the new name.
func (d *Disk) Rename(fromDir uint64, from string, toDir uint64, to string, keep bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	source, err := d.getDir(fromDir)
	if err != nil {
		return err
	}
	target, err := d.getDir(toDir)
	if err != nil {
		return err
	}
	n, old := source.names[from], target.names[to]
	switch {
	case n == nil:
		return syscall.ENOENT
	case old == nil:
	case keep:
		return syscall.EEXIST
	case old == n:
		return nil
	case n.isDir() && !old.isDir():
		return syscall.ENOTDIR
	case !n.isDir() && old.isDir():
		return syscall.EISDIR
	case len(old.names) > 0:
		return syscall.ENOTEMPTY
	}
	return d.set(Rename, entry{source, from, nil}, entry{target, to, n})
}
