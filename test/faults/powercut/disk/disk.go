package disk

import (
	"maps"
	"path"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Root is the id of the root directory.
const Root = 1

// Disk is a file system. Its methods are safe for concurrent use; their errors are of type [syscall.Errno].
type Disk struct {
	// Journaled makes the sync of a file save all entries as well, as ext4 and XFS do. Set it before the disk is used.
	Journaled bool
	// Free is the space in bytes that the file system says is free, whatever the files take. Set it before the disk is
	// used.
	Free int64

	mu    sync.Mutex
	nodes map[uint64]*node
	next  uint64 // the id of the next node
	// journal holds the changes of directories that are not synced, oldest first.
	journal []entryChange

	aim  Aim
	left int // operations that match the aim until the cut; 0 without an aim
	hit  string
	down chan struct{} // closed by the cut
	// faulty is closed by the cut or a failed sync.
	faulty chan struct{}
	ops    int // changes and syncs so far
}

// node is a file or a directory.
type node struct {
	id        uint64
	mode      uint32 // including the type
	uid, gid  uint32
	path      string // its newest one, for aims
	links     int
	lookups   uint64 // references that the kernel holds
	modified  time.Time
	file      // of a file
	directory // of a directory
}

func (n *node) isDir() bool { return n.mode&syscall.S_IFMT == syscall.S_IFDIR }

// Attr describes a file or directory. Its owner is UID and GID.
type Attr struct {
	ID       uint64
	Mode     uint32 // including the type
	UID, GID uint32
	Size     int64
	Links    int
	Modified time.Time
}

// New returns an empty disk, whose root directory belongs to the caller.
func New() *Disk {
	const free = 16 << 30
	d := &Disk{
		Free: free, nodes: map[uint64]*node{}, next: Root, down: make(chan struct{}), faulty: make(chan struct{}),
	}
	root := d.add(syscall.S_IFDIR|0o755, uint32(syscall.Getuid()), uint32(syscall.Getgid()), "/")
	root.links = 1
	return d
}

// add makes a node without a name.
func (d *Disk) add(mode, uid, gid uint32, path string) *node {
	n := &node{id: d.next, mode: mode, uid: uid, gid: gid, path: path, modified: time.Now()}
	if n.isDir() {
		n.directory = directory{names: map[string]*node{}, synced: map[string]*node{}}
	}
	d.next++
	d.nodes[n.id] = n
	return n
}

// get returns a node, unless the power is off.
func (d *Disk) get(id uint64) (*node, error) {
	if d.off() {
		return nil, syscall.EIO
	}
	n := d.nodes[id]
	if n == nil {
		return nil, syscall.ESTALE
	}
	return n, nil
}

func (d *Disk) getDir(id uint64) (*node, error) {
	n, err := d.get(id)
	if err == nil && !n.isDir() {
		err = syscall.ENOTDIR
	}
	return n, err
}

func (d *Disk) getFile(id uint64) (*node, error) {
	n, err := d.get(id)
	if err == nil && n.isDir() {
		err = syscall.EISDIR
	}
	return n, err
}

func (n *node) attr() Attr {
	return Attr{
		ID: n.id, Mode: n.mode, UID: n.uid, GID: n.gid, Size: int64(len(n.content())), Links: n.links,
		Modified: n.modified,
	}
}

// found is the answer to the kernel about an entry, to which it keeps a reference until Forget.
func (n *node) found() Attr {
	n.lookups++
	return n.attr()
}

// Lookup finds an entry of a directory.
func (d *Disk) Lookup(dir uint64, name string) (Attr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.getDir(dir)
	if err != nil {
		return Attr{}, err
	}
	if n = n.names[name]; n == nil {
		return Attr{}, syscall.ENOENT
	}
	return n.found(), nil
}

// Forget takes back references that Lookup, Create, Mkdir and Link have given.
func (d *Disk) Forget(id, references uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.nodes[id]; n != nil {
		n.lookups -= min(references, n.lookups)
		d.drop(n)
	}
}

// drop forgets a node that has no name and is not in use. The journal still holds it if the disk may have it.
func (d *Disk) drop(n *node) {
	if n.links == 0 && n.lookups == 0 {
		delete(d.nodes, n.id)
	}
}

// Stat describes a file or directory.
func (d *Disk) Stat(id uint64) (Attr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.get(id)
	if err != nil {
		return Attr{}, err
	}
	return n.attr(), nil
}

// Change sets mode bits, owner and time of modification; nil leaves one as it is.
func (d *Disk) Change(id uint64, mode, uid, gid *uint32, modified *time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.get(id)
	if err != nil {
		return err
	}
	if mode != nil {
		n.mode = n.mode&syscall.S_IFMT | *mode&^syscall.S_IFMT
	}
	if uid != nil {
		n.uid = *uid
	}
	if gid != nil {
		n.gid = *gid
	}
	if modified != nil {
		n.modified = *modified
	}
	return nil
}

// Read copies content at an offset and returns its length.
func (d *Disk) Read(id uint64, at int64, into []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.getFile(id)
	if err != nil {
		return 0, err
	}
	content := n.content()
	return copy(into, content[min(at, int64(len(content))):]), nil
}

// Write changes content at an offset. It copies data.
func (d *Disk) Write(id uint64, at int64, data []byte) error {
	return d.alter(id, Write, func(f *file) { f.write(at, data) })
}

// Resize truncates a file, or extends it with zeros.
func (d *Disk) Resize(id uint64, size int64) error {
	return d.alter(id, Resize, func(f *file) { f.resize(size) })
}

func (d *Disk) alter(id uint64, kind Kind, change func(*file)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.getFile(id)
	if err != nil {
		return err
	}
	change(&n.file)
	n.modified = time.Now()
	return d.count(kind, n.path)
}

// Sync saves the content and size of a file, or the entries of a directory.
func (d *Disk) Sync(id uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.get(id)
	if err != nil {
		return err
	}
	if n.isDir() {
		if err := d.count(SyncDir, n.path); err != nil {
			return err
		}
		d.syncDir(n)
		return nil
	}
	if err := d.count(Sync, n.path); err != nil {
		if !d.off() {
			n.lose()
		}
		return err
	}
	n.sync()
	if d.Journaled {
		d.saveEntries()
	}
	return nil
}

// List returns the names in a directory, in order.
func (d *Disk) List(dir uint64) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.getDir(dir)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(n.names)), nil
}

// Find returns what has a path, which begins with a slash.
func (d *Disk) Find(name string) (Attr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.find(name)
	if err != nil {
		return Attr{}, err
	}
	return n.attr(), nil
}

func (d *Disk) find(name string) (*node, error) {
	if name = path.Clean(name); name == "/" {
		return d.get(Root)
	}
	dir, base := path.Split(name)
	n, err := d.find(dir)
	if err != nil {
		return nil, err
	}
	if n = n.names[base]; n == nil {
		return nil, syscall.ENOENT
	}
	return n, nil
}
