package snapshot

import "fmt"

// maxKey is the greatest size of a key in bbolt, in bytes.
const maxKey = 32768

// fanout is the greatest number of children of a branch page: with the keys of rows, one page has that many.
const fanout = (pageSize - headerSize) / (elementSize + revisionSize)

// fill finds where the leaf pages of a bucket end.
type fill struct {
	size          int64 // of the page that is being filled; 0 if there is none
	leaves, pages int64 // of those before
}

// add adds an entry whose key and value have that size, and reports whether it begins a page.
func (f *fill) add(size int64) bool {
	size += elementSize
	if f.size > 0 && f.size+size <= pageSize {
		f.size += size
		return false
	}
	f.end()
	f.size = headerSize + size
	return true
}

// end ends the page.
func (f *fill) end() {
	if f.size > 0 {
		f.leaves++
		f.pages += pagesFor(f.size)
	}
	f.size = 0
}

// tree writes the pages of a bucket, whose entries are added in the order of their keys: each page as soon as it is
// full.
type tree struct {
	pages *pages
	fill  fill
	leaf  leaf
	// levels are the children of the branch pages that are being filled, from the bottom.
	levels [][]child
}

// leaf has the entries of the page that is being filled.
type leaf struct {
	sizes []sizes
	data  []byte // keys and values
	page  []byte // the memory of its elements
}

type sizes struct{ key, value, flags uint32 }

// child is a page, with its first key.
type child struct {
	key []byte
	id  int64
}

// errKey is returned for a key that bbolt does not accept.
var errKey = fmt.Errorf("etcd's format has keys of 1 to %d bytes, and the name of a user or role is not of such a size",
	maxKey)

// add adds an entry. Errors: errKey, those of the writer.
func (t *tree) add(key, value []byte, flags uint32) error {
	if len(key) == 0 || len(key) > maxKey {
		return errKey
	}
	if t.fill.add(int64(len(key) + len(value))) {
		if err := t.flush(); err != nil {
			return err
		}
	}
	t.leaf.data = append(append(t.leaf.data, key...), value...)
	t.leaf.sizes = append(t.leaf.sizes, sizes{uint32(len(key)), uint32(len(value)), flags})
	return nil
}

// endLeaf ends the leaf page: the next entry begins another.
func (t *tree) endLeaf() error {
	t.fill.end()
	return t.flush()
}

// flush writes the leaf page.
func (t *tree) flush() error {
	l := &t.leaf
	if len(l.sizes) == 0 {
		return nil
	}
	l.page = l.page[:0]
	at := len(l.sizes) * elementSize // where the entry's key is, seen from its element
	for _, s := range l.sizes {
		for _, v := range []uint32{s.flags, uint32(at), s.key, s.value} {
			l.page = order.AppendUint32(l.page, v)
		}
		at += int(s.key+s.value) - elementSize
	}
	id, err := t.pages.write(leafPage, len(l.sizes), l.page, l.data)
	if err != nil {
		return err
	}
	first := append([]byte(nil), l.data[:l.sizes[0].key]...)
	l.data, l.sizes = l.data[:0], l.sizes[:0]
	return t.child(0, child{first, id})
}

// child adds a page to those of a level. bbolt requires that each branch page has at least two children, so that a full
// page is written only when two more have come.
func (t *tree) child(level int, c child) error {
	if level == len(t.levels) {
		t.levels = append(t.levels, nil)
	}
	t.levels[level] = append(t.levels[level], c)
	if len(t.levels[level]) < fanout+2 {
		return nil
	}
	return t.branch(level, fanout)
}

// branch writes a branch page with the first n children of a level.
func (t *tree) branch(level, n int) error {
	children := t.levels[level][:n]
	var elements, keys []byte
	for i, c := range children {
		elements = order.AppendUint32(elements, uint32((n-i)*elementSize+len(keys)))
		elements = order.AppendUint32(elements, uint32(len(c.key)))
		elements = order.AppendUint64(elements, uint64(c.id))
		keys = append(keys, c.key...)
	}
	id, err := t.pages.write(branchPage, n, elements, keys)
	if err != nil {
		return err
	}
	first := children[0].key
	t.levels[level] = append([]child(nil), t.levels[level][n:]...)
	return t.child(level+1, child{first, id})
}

// end writes the pages that are not full, and returns the root; 0 if there is no entry.
func (t *tree) end() (root int64, err error) {
	if err := t.endLeaf(); err != nil {
		return 0, err
	}
	for level := 0; level < len(t.levels); level++ {
		left := len(t.levels[level])
		if left == 1 && level == len(t.levels)-1 {
			return t.levels[level][0].id, nil
		}
		if left > fanout {
			if err := t.branch(level, left-2); err != nil {
				return 0, err
			}
		}
		if err := t.branch(level, len(t.levels[level])); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// branches returns how many branch pages a tree with that many leaf pages has.
func branches(leaves int64) (n int64) {
	for leaves > 1 {
		leaves = (leaves + fanout - 1) / fanout
		n += leaves
	}
	return n
}
