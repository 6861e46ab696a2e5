package index

import (
	"sort"

	"github.com/tidwall/btree"
)

// Tree holds items in key order. It must not be changed while others read it. A copy takes O(1) and shares its nodes.
type Tree btree.Map[string, *Item]

// NewTree returns an empty tree, which the caller may change.
func NewTree() *Tree { return &Tree{} }

func (t *Tree) keys() *btree.Map[string, *Item] { return (*btree.Map[string, *Item])(t) }

// Len returns the number of keys.
func (t *Tree) Len() int { return t.keys().Len() }

// Get returns the item of key.
func (t *Tree) Get(key string) (it *Item, ok bool) { return t.keys().Get(key) }

// Set makes it the item of its key, and returns the previous one.
func (t *Tree) Set(it *Item) (old *Item, replaced bool) { return t.keys().Set(KeyString(it.Key), it) }

// Delete removes the item of key and returns it.
func (t *Tree) Delete(key string) (old *Item, deleted bool) { return t.keys().Delete(key) }

// copy returns a copy, which shares nodes with t until either tree changes them.
func (t *Tree) copy() *Tree { return (*Tree)(t.keys().Copy()) }

// Walk returns up to limit items of the span, in key order. more is true if the span has further ones.
func (t *Tree) Walk(sp Span, limit int) (items []*Item, more bool) {
	t.keys().Ascend(sp.Start, func(key string, it *Item) bool {
		if !sp.Open && key >= sp.End {
			return false
		}
		if len(items) == limit {
			more = true
			return false
		}
		if items == nil {
			items = make([]*Item, 0, min(limit, 512))
		}
		items = append(items, it)
		return true
	})
	return items, more
}

// Count returns the number of keys in the span.
func (t *Tree) Count(sp Span) int64 {
	hi := t.Len()
	if !sp.Open {
		hi = t.rank(sp.End)
	}
	return int64(max(0, hi-t.rank(sp.Start)))
}

// Exceeds reports whether the span has more than n keys. A span of a single key never does.
func (t *Tree) Exceeds(sp Span, n int) bool {
	if sp.Empty || sp.Single {
		return false
	}
	at := 0
	if sp.Start != "" {
		at = t.rank(sp.Start)
	}
	key, _, ok := t.keys().GetAt(at + n)
	return ok && (sp.Open || key < sp.End)
}

// rank returns how many keys are below key.
func (t *Tree) rank(key string) int {
	return sort.Search(t.Len(), func(i int) bool {
		k, _, _ := t.keys().GetAt(i)
		return k >= key
	})
}
