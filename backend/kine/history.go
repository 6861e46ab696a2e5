package kine

import (
	"bytes"
	"database/sql"
	"fmt"
	"hash/maphash"
	"strconv"

	"github.com/sqlstore/sqlstore/backend"
)

// compactKey is where kube-apiserver stores what it has compacted, and storedCompactKey is its name in the table.
const (
	compactKey       = "compact_rev_key"
	storedCompactKey = "compact_rev_key_apiserver"
)

// record is a row of the table.
type record struct {
	id                    int64
	name                  sql.NullString
	created, deleted      sql.NullInt64
	createRevision, lease sql.NullInt64
	value                 []byte
}

// row returns what kine shows of a record that is not deleted. CreateRevision is 0 if kine does not know it. Version is
// 0, except for the one version that kine knows.
func (r *record) row() *backend.Row {
	row := &backend.Row{
		Key: []byte(r.name.String), Value: r.value, ModRevision: r.id, CreateRevision: r.createRevision.Int64,
		Lease: max(r.lease.Int64, 0),
	}
	if r.created.Int64 != 0 {
		row.CreateRevision = r.id
	}
	if row.Value == nil {
		row.Value = []byte{}
	}
	if r.name.String == storedCompactKey {
		row.Key = []byte(compactKey)
		row.Version, row.Value = splitVersion(row.Value)
	}
	return row
}

// splitVersion takes the version off a value of kube-apiserver's compactKey. The first kine that stored it stored
// nothing else.
func splitVersion(stored []byte) (version int64, value []byte) {
	number, value, ok := bytes.Cut(stored, []byte("|"))
	if !ok {
		value = []byte("0")
	}
	version, _ = strconv.ParseInt(string(number), 10, 64) // kine shows 0, too, if it is not a number
	return version, value
}

// history gives records, in the order of ids, the numbers that they do not have, and finds contradictions.
type history struct {
	compacted int64
	same      func(name string) string
	seeds     [2]maphash.Seed
	live      map[[2]uint64]link
}

// link is the newest version of a live key. spelling is a hash of the name as it was written.
type link struct {
	created, version int64
	spelling         uint64
}

func newHistory(compacted int64, same func(string) string) *history {
	return &history{
		compacted: compacted, same: same, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		live: map[[2]uint64]link{},
	}
}

// next returns the row of a record, or nil if kine's clients cannot see it.
func (h *history) next(r *record) (*backend.Row, error) {
	if r.id < 1 || r.name.String == "" {
		return nil, fmt.Errorf("kine: %w: the row with id %d has the name %q", backend.ErrDamagedSource, r.id,
			r.name.String)
	}
	// Two hashes with random seeds stand for the name, which would take more memory.
	name := h.same(r.name.String)
	key := [2]uint64{maphash.String(h.seeds[0], name), maphash.String(h.seeds[1], name)}
	spelling := maphash.String(h.seeds[0], r.name.String)
	before, exists := h.live[key]
	if exists && before.spelling != spelling {
		return nil, h.damage(r, "replaces a key whose name differs in case or in spaces at its end")
	}
	if !r.deleted.Valid || r.deleted.Int64 != 0 {
		delete(h.live, key)
		if !exists {
			return nil, nil
		}
		return &backend.Row{Key: r.row().Key, ModRevision: r.id, Deleted: true}, nil
	}
	row := r.row()
	if err := h.number(r, row, before, exists); err != nil {
		return nil, err
	}
	h.live[key] = link{created: row.CreateRevision, version: row.Version, spelling: spelling}
	return row, nil
}

// number sets a row's create revision and version.
func (h *history) number(r *record, row *backend.Row, before link, exists bool) error {
	switch {
	case exists && row.CreateRevision == row.ModRevision:
		return h.damage(r, "creates a key that exists")
	case exists && row.CreateRevision != before.created:
		return h.damage(r, fmt.Sprintf("says that its key was created at revision %d, and an earlier one says %d",
			row.CreateRevision, before.created))
	case exists:
		row.Version = before.version + 1
	case row.CreateRevision == 0, row.CreateRevision == row.ModRevision:
		// kine lets a client update a deleted key that it knows, and shows 0 at first, but the row's id later.
		row.CreateRevision, row.Version = row.ModRevision, 1
	case row.CreateRevision < 0 || row.CreateRevision > row.ModRevision:
		return h.damage(r, fmt.Sprintf("says that its key was created at revision %d", row.CreateRevision))
	case row.ModRevision > h.compacted:
		return h.damage(r, "changes a key that does not exist")
	default: // what is before it was compacted
		row.Version = max(row.Version, 2)
	}
	return nil
}

func (h *history) damage(r *record, what string) error {
	return fmt.Errorf("kine: %w: the row with id %d, of key %q, %s: let kine compact the revisions up to it, or move "+
		"the key away and back", backend.ErrDamagedSource, r.id, r.name.String, what)
}
