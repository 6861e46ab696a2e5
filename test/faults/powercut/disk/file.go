package disk

import (
	"math/rand/v2"
	"slices"
)

// Sector is what a disk writes whole, in bytes.
const Sector = 512

// file is the content of a file: on the disk, and as programs see it.
type file struct {
	saved   []byte   // as of the last sync
	current []byte   // nil while nothing has changed since
	changes []change // since the last sync, oldest first
}

// change is a write, or a new size.
type change struct {
	at   int64
	data []byte // empty for a new size alone
	size int64  // of the file afterwards
}

func (f *file) content() []byte {
	if f.current == nil {
		return f.saved
	}
	return f.current
}

func (f *file) write(at int64, data []byte) {
	f.apply(change{at, slices.Clone(data), max(int64(len(f.content())), at+int64(len(data)))})
}

func (f *file) resize(size int64) {
	if size != int64(len(f.content())) {
		f.apply(change{size: size})
	}
}

func (f *file) apply(c change) {
	if f.current == nil {
		f.current = append([]byte{}, f.saved...)
	}
	f.current = c.apply(f.current)
	f.changes = append(f.changes, c)
}

func (c *change) apply(content []byte) []byte {
	content = resized(content, c.size)
	copy(content[c.at:], c.data)
	return content
}

// resized truncates content, or extends it with zeros.
func resized(content []byte, size int64) []byte {
	had := int64(len(content))
	if size <= had {
		return content[:size]
	}
	content = slices.Grow(content, int(size-had))[:size]
	clear(content[had:])
	return content
}

func (f *file) sync() {
	for i := range f.changes {
		f.saved = f.changes[i].apply(f.saved)
	}
	f.changes = nil
}

// lose makes later syncs leave out what is not saved, although it can be read.
func (f *file) lose() { f.changes = nil }

// sectors returns the sectors that a change writes to.
func (c *change) sectors() (first, end int64) {
	if len(c.data) == 0 {
		return 0, 0
	}
	return c.at / Sector, (c.at + int64(len(c.data)) + Sector - 1) / Sector
}

// survive returns what the disk holds after a cut, and counts what is missing. It destroys the file.
func (f *file) survive(r *rand.Rand, l *Losses) []byte {
	if len(f.changes) == 0 {
		return f.saved
	}
	k := keepSome(r, len(f.changes))
	size := int64(len(f.saved)) // of the newest size that is kept
	all, out := slices.Clone(f.saved), f.saved
	closed := int64(-1) // the first sector behind a truncation that is lost
	for i, c := range f.changes {
		shrinks := c.size < int64(len(all))
		all = c.apply(all)
		switch {
		case shrinks && i < k.sizes:
			out = resized(out, min(int64(len(out)), c.size))
		case shrinks && (closed < 0 || c.size/Sector < closed):
			closed = c.size / Sector
		}
		first, end := c.sectors()
		kept := int64(0)
		for s := first; s < end; s++ {
			if closed >= 0 && s >= closed || !k.keeps(i) {
				continue
			}
			kept++
			from, to := s*Sector, min((s+1)*Sector, int64(len(all)))
			out = resized(out, max(int64(len(out)), to))
			copy(out[from:to], all[from:to])
		}
		l.changed(kept, end-first, i < k.sizes)
	}
	if k.sizes > 0 {
		size = f.changes[k.sizes-1].size
	}
	return resized(out, size)
}
