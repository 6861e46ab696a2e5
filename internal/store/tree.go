package store

import (
	"sort"

	"github.com/tidwall/btree"
)

// tree has items in key order. It must not be changed where others read it; a copy costs O(1) and shares its nodes.
type tree btree.Map[string, *item]

func newTree() *tree { return &tree{} }

func (t *tree) keys() *btree.Map[string, *item] { return (*btree.Map[string, *item])(t) }

// Len returns the number of keys.
func (t *tree) Len() int { return t.keys().Len() }

// Get returns the item of key.
func (t *tree) Get(key string) (it *item, ok bool) { return t.keys().Get(key) }

// Set makes it the item of its key, and returns the one before.
func (t *tree) Set(it *item) (old *item, replaced bool) { return t.keys().Set(keyString(it.Key), it) }

// Delete removes the item of key and returns it.
func (t *tree) Delete(key string) (old *item, deleted bool) { return t.keys().Delete(key) }

// copy shares nodes with t until one of them changes them.
func (t *tree) copy() *tree { return (*tree)(t.keys().Copy()) }

// Walk returns up to limit items of the span, in key order; more says that it has more.
func (t *tree) Walk(sp span, limit int) (items []*item, more bool) {
	t.keys().Ascend(sp.Start, func(key string, it *item) bool {
		if !sp.Open && key >= sp.End {
			return false
		}
		if len(items) == limit {
			more = true
			return false
		}
		if items == nil {
			items = make([]*item, 0, min(limit, 512))
		}
		items = append(items, it)
		return true
	})
	return items, more
}

// Count returns the number of keys of the span.
func (t *tree) Count(sp span) int64 {
	hi := t.Len()
	if !sp.Open {
		hi = t.rank(sp.End)
	}
	return int64(max(0, hi-t.rank(sp.Start)))
}

// Exceeds says whether the span has more than n keys. That of a single key never has.
func (t *tree) Exceeds(sp span, n int) bool {
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
func (t *tree) rank(key string) int {
	return sort.Search(t.Len(), func(i int) bool {
		k, _, _ := t.keys().GetAt(i)
		return k >= key
	})
}
