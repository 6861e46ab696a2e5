package disk

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// history is what a test remembers of a disk: every state that each file and directory had since its last sync.
type history struct {
	files map[uint64][][]byte            // the contents
	dirs  map[uint64][]map[string]uint64 // the ids by name
}

func newHistory() *history {
	return &history{map[uint64][][]byte{}, map[uint64][]map[string]uint64{Root: {{}}}}
}

func last[T any](states []T) T { return states[len(states)-1] }

// change adds a state of a file.
func (h *history) change(id uint64, f func([]byte) []byte) {
	h.files[id] = append(h.files[id], f(slices.Clone(last(h.files[id]))))
}

// enter adds a state of a directory; id 0 removes the name.
func (h *history) enter(dir uint64, name string, id uint64) {
	names := maps.Clone(last(h.dirs[dir]))
	delete(names, name)
	if id != 0 {
		names[name] = id
	}
	h.dirs[dir] = append(h.dirs[dir], names)
}

// player makes random changes to a disk and remembers them.
type player struct {
	*rand.Rand
	*testing.T
	d *Disk
	h *history
}

func (p *player) name() string { return string(rune('a' + p.IntN(6))) }

func pick[V any](r *rand.Rand, m map[uint64]V) uint64 {
	ids := slices.Sorted(maps.Keys(m))
	return ids[r.IntN(len(ids))]
}

func (p *player) step() {
	const longest = 3000
	dir, name := pick(p.Rand, p.h.dirs), p.name()
	id, exists := last(p.h.dirs[dir])[name]
	_, isDir := p.h.dirs[id]
	switch n := p.IntN(20); {
	case !exists && n < 2 && len(p.h.dirs) < 4:
		a, err := p.d.Mkdir(dir, name, 0o700, 0, 0)
		must(p.T, err)
		p.h.enter(dir, name, a.ID)
		p.h.dirs[a.ID] = []map[string]uint64{{}}
	case !exists:
		a, err := p.d.Create(dir, name, 0o600, 0, 0)
		must(p.T, err)
		p.h.enter(dir, name, a.ID)
		p.h.files[a.ID] = [][]byte{nil}
	case n == 0:
		must(p.T, p.d.Sync(dir))
		p.h.dirs[dir] = p.h.dirs[dir][len(p.h.dirs[dir])-1:]
	case isDir:
	case n == 1:
		must(p.T, p.d.Unlink(dir, name))
		p.h.enter(dir, name, 0)
	case n == 2:
		p.rename(dir, name, id)
	case n < 5:
		must(p.T, p.d.Sync(id))
		p.h.files[id] = p.h.files[id][len(p.h.files[id])-1:]
	case n < 8:
		size := int64(p.IntN(longest))
		must(p.T, p.d.Resize(id, size))
		p.h.change(id, func(b []byte) []byte { return resized(b, size) })
	default:
		at, data := int64(p.IntN(longest)), make([]byte, 1+p.IntN(longest))
		for i := range data {
			data[i] = byte(1 + p.IntN(255))
		}
		must(p.T, p.d.Write(id, at, data))
		p.h.change(id, func(b []byte) []byte {
			b = resized(b, max(int64(len(b)), at+int64(len(data))))
			copy(b[at:], data)
			return b
		})
	}
}

func (p *player) rename(dir uint64, name string, id uint64) {
	toDir, to := pick(p.Rand, p.h.dirs), p.name()
	old := last(p.h.dirs[toDir])[to]
	if _, isDir := p.h.dirs[old]; isDir || old == id {
		return
	}
	must(p.T, p.d.Rename(dir, name, toDir, to, false))
	if dir == toDir { // one state
		p.h.enter(dir, name, 0)
		p.h.dirs[dir] = p.h.dirs[dir][:len(p.h.dirs[dir])-1]
	}
	names := maps.Clone(last(p.h.dirs[dir]))
	delete(names, name)
	if dir == toDir {
		names[to] = id
	}
	p.h.dirs[dir] = append(p.h.dirs[dir], names)
	if dir != toDir {
		p.h.enter(toDir, to, id)
	}
}

// check compares what a disk holds after a cut with the history.
func (h *history) check(d *Disk, id uint64) error {
	n := d.nodes[id]
	if !n.isDir() {
		return possible(n.content(), h.files[id])
	}
	ids := map[string]uint64{}
	for name, child := range n.names {
		ids[name] = child.id
		if err := h.check(d, child.id); err != nil {
			return fmt.Errorf("%s: %w", child.path, err)
		}
	}
	for _, state := range h.dirs[id] {
		if maps.Equal(ids, state) {
			return nil
		}
	}
	return fmt.Errorf("directory %s never held %v since its sync, but %v", n.path, ids, h.dirs[id])
}

// possible checks that each sector of a file is as it was in one of the states, and so is the size.
func possible(got []byte, states [][]byte) error {
	if !slices.ContainsFunc(states, func(s []byte) bool { return len(s) == len(got) }) {
		return fmt.Errorf("a file never had %d bytes since its sync", len(got))
	}
	for at := 0; at < len(got); at += Sector {
		sector := got[at:min(at+Sector, len(got))]
		if !slices.ContainsFunc(states, func(s []byte) bool {
			// Behind the end of a state there are zeros.
			return bytes.Equal(resized(slices.Clone(s), int64(at+Sector))[at:][:len(sector)], sector)
		}) && !tailOfSmaller(sector, at, states) {
			return fmt.Errorf("sector %d was never so since the sync", at/Sector)
		}
	}
	if len(states) == 1 && !bytes.Equal(got, states[0]) {
		return fmt.Errorf("a synced file has changed")
	}
	return nil
}

// tailOfSmaller reports whether a sector is one of a state, cut off with zeros behind by a smaller size in between.
func tailOfSmaller(sector []byte, at int, states [][]byte) bool {
	for _, cut := range states {
		end := len(cut) - at
		if end < 0 || end >= len(sector) {
			continue
		}
		for _, s := range states {
			whole := resized(slices.Clone(s), int64(at+Sector))[at:]
			if bytes.Equal(whole[:end], sector[:end]) && bytes.Equal(make([]byte, len(sector)-end), sector[end:]) {
				return true
			}
		}
	}
	return false
}

// Whatever happens before a cut, the disk then holds only what it can hold, and all that was synced.
func TestCutsLeaveWhatTheyMay(t *testing.T) {
	const seeds, steps = 3000, 60
	for seed := range uint64(seeds) {
		p := &player{seeded(seed), t, New(), newHistory()}
		for range p.IntN(steps) {
			p.step()
		}
		after, _ := p.d.Survive(p.Rand)
		if err := p.h.check(after, Root); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// The same operations and the same seed leave the same disk, so that a failure can be repeated.
func TestCutsRepeat(t *testing.T) {
	const seeds, steps = 100, 60
	for seed := range uint64(seeds) {
		var found []string
		for range 2 {
			p := &player{seeded(seed), t, New(), newHistory()}
			for range steps {
				p.step()
			}
			after, losses := p.d.Clone().Survive(p.Rand)
			found = append(found, fmt.Sprint(tree(after.nodes[Root]), losses))
		}
		if found[0] != found[1] {
			t.Fatalf("seed %d: %s, then %s", seed, found[0], found[1])
		}
	}
}

// tree describes everything below a node.
func tree(n *node) string {
	if !n.isDir() {
		return fmt.Sprintf("%x", n.content())
	}
	text := ""
	for _, name := range slices.Sorted(maps.Keys(n.names)) {
		text += name + "{" + tree(n.names[name]) + "}"
	}
	return text
}
