package paging

import (
	"bytes"
	"context"
	"errors"

	"github.com/sqlstore/sqlstore/internal/store"
)

const (
	// separator ends a prefix of a tree.
	separator = '/'
	// treeEntries is the number of entries on a page of a tree unless the limit is lower. Each takes two reads.
	treeEntries = 500
	// treeBytes bounds the names on a page.
	treeBytes = 256 << 10
)

// TreeEntry is a key, or all keys with a longer prefix.
type TreeEntry struct {
	// Name is the key, or the prefix up to and including its last separator.
	Name []byte
	// Row is the key's, without its value; nil for a prefix.
	Row *store.Row
	// Keys is how many keys there are, 1 for a key.
	Keys int64
}

// TreePage is a page of one level of the tree of keys.
type TreePage struct {
	Entries  []TreeEntry
	Revision int64  // of all entries
	Keys     int64  // that begin with the prefix
	Continue string // the token for the next page, "" after the last one
}

// Tree returns one level of the keys that begin with prefix, in key order: the keys without a separator after the
// prefix, and the longer prefixes that end at the next separator. A separator right after the prefix does not count. No
// page has more than 500 entries, or many more than 256 KiB of names. The tokens of lists of the prefix continue a
// tree, and the reverse. Errors: the same as List, except for send's.
func (p *Pager) Tree(ctx context.Context, prefix []byte, o ListOptions) (TreePage, error) {
	l, err := p.plan(ctx, string(prefix), o)
	if err == nil && l.keys == nil { // a page may be full without a limit, too
		l.keys, err = p.keys.sealing(ctx)
	}
	if err != nil {
		return TreePage{}, err
	}
	if o.Limit <= 0 || o.Limit > treeEntries {
		o.Limit = treeEntries
	}
	t := &tree{list: l, end: store.PrefixEnd(prefix), revision: l.from.revision, epoch: p.engine.Epoch()}
	if l.more && t.revision != latest {
		t.epoch = l.from.epoch
	}
	page, err := t.page(ctx, o.Limit)
	if errors.Is(err, store.ErrCompacted) || errors.Is(err, store.ErrFutureRevision) ||
		err == nil && p.engine.Epoch() != t.epoch { // history was lost in the meantime
		return TreePage{}, l.expired()
	}
	return page, err
}

// tree reads one level, at one revision once that is known.
type tree struct {
	*list

	end      []byte // of the prefix
	revision int64
	epoch    int64
}

func (t *tree) page(ctx context.Context, limit int64) (page TreePage, err error) {
	if page.Keys, err = t.count(ctx, firstKey(t.prefix), t.end); err != nil {
		return page, err
	}
	page.Revision = t.revision
	start := firstKey(t.prefix + t.from.start)
	for names := 0; ; {
		row, err := t.first(ctx, start)
		if err != nil || row == nil {
			return page, err
		}
		if int64(len(page.Entries)) == limit || names > treeBytes {
			page.Continue = t.seal(place{
				epoch: t.epoch, revision: t.revision, rest: unknown, start: string(start[len(t.prefix):]),
			})
			return page, nil
		}
		entry := TreeEntry{Name: row.Key, Row: row, Keys: 1}
		start = append(bytes.Clone(row.Key), 0)
		if end := prefixLen(row.Key, len(t.prefix)); end > 0 {
			entry.Name, entry.Row = row.Key[:end], nil
			start = store.PrefixEnd(entry.Name)
			if entry.Keys, err = t.count(ctx, entry.Name, start); err != nil {
				return page, err
			}
		}
		page.Entries, names = append(page.Entries, entry), names+len(entry.Name)
	}
}

// prefixLen returns the length of the longer prefix that a key begins with, 0 if it has none. As in a directory, a
// separator right after the prefix does not count.
func prefixLen(key []byte, prefix int) int {
	from := prefix
	if from < len(key) && key[from] == separator {
		from++
	}
	cut := bytes.IndexByte(key[from:], separator)
	if cut < 0 {
		return 0
	}
	return from + cut + 1
}

// first returns the row of the first key from start, nil if there is none.
func (t *tree) first(ctx context.Context, start []byte) (*store.Row, error) {
	res, err := t.read(ctx, &store.RangeRequest{
		Key: start, End: t.end, Limit: 1, KeysOnly: true, KeepLease: true, NoCount: true,
	})
	if err != nil || len(res.Rows) == 0 {
		return nil, err
	}
	return res.Rows[0], nil
}

func (t *tree) count(ctx context.Context, start, end []byte) (int64, error) {
	res, err := t.read(ctx, &store.RangeRequest{Key: start, End: end, CountOnly: true})
	if err != nil {
		return 0, err
	}
	return res.Count, nil
}

// read reads at the tree's revision, which the first read decides.
func (t *tree) read(ctx context.Context, req *store.RangeRequest) (*store.RangeResult, error) {
	req.Revision, req.Serializable = t.revision, t.lag || t.revision != latest
	res, err := t.p.engine.Range(ctx, req)
	if err != nil {
		return nil, err
	}
	if t.revision == latest {
		t.revision = res.Revision
	}
	return res, nil
}

// firstKey returns the smallest key from start; the empty key does not exist.
func firstKey(start string) []byte {
	if start == "" {
		return []byte{0}
	}
	return []byte(start)
}
