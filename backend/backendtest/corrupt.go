package backendtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sqlstore/sqlstore/backend"
)

// damages change one column of a row, in SQL that every database understands.
var damages = map[string]string{
	"version":          "version = version + 1",
	"create revision":  "create_revision = create_revision - 1",
	"lease":            "lease = lease + 4",
	"previous version": "previous_version = previous_version + 1",
	"checksum":         "checksum = checksum + 1",
	"time":             "written_at = written_at + 1",
	"value":            "value = (SELECT o.value FROM object_versions AS o WHERE o.resource_version = 2)",
	"tombstone":        "deleted = NOT deleted, value = NULL",
}

// valueReads are all ways to read a key's only row with its value.
func (f *fixture) valueReads(key string, id backend.RowID) map[string]error {
	ctx := context.Background()
	now := f.m.clock.Revision
	_, _, get := f.b.Range(ctx, backend.RangeQuery{Span: only(key), Revision: now, Limit: 1})
	_, _, list := f.b.Range(ctx, backend.RangeQuery{Span: span(key, key+"\xff"), Revision: now, Limit: 100})
	_, _, open := f.b.Range(ctx, backend.RangeQuery{Span: from(key), Revision: now, Limit: 100, Bytes: 1 << 20})
	_, _, rows := f.b.Rows(ctx, []backend.RowID{id}, 0)
	_, _, some := f.b.Rows(ctx, []backend.RowID{id}, 1<<20)
	_, all := f.b.History(ctx, backend.HistoryQuery{After: id.ModRevision - 1, Limit: 100})
	_, ofKey := f.b.History(ctx, backend.HistoryQuery{Span: only(key), Limit: 100})
	_, ofSpan := f.b.History(ctx, backend.HistoryQuery{Span: span(key, key+"\xff"), Limit: 100})
	_, prev := f.b.History(ctx, backend.HistoryQuery{After: id.ModRevision - 1, Limit: 100, WithPrev: true})
	return map[string]error{
		"get": get, "list": list, "open list": open, "rows": rows, "rows within bytes": some, "history": all,
		"history of the key": ofKey, "history of a span": ofSpan, "history with superseded rows": prev,
		"key of a transaction":  f.load(backend.Needs{Keys: [][]byte{[]byte(key)}}),
		"span of a transaction": f.load(backend.Needs{Spans: []backend.Span{span(key, key+"\xff")}, SpanLimit: 10}),
	}
}

// checkDamagedDigest reads the digest of a damaged row. It is left to the checksums of pages to notice a damaged value,
// or the half of a checksum that covers it.
func (f *fixture) checkDamagedDigest(damage string, id backend.RowID) {
	f.Helper()
	_, err := f.b.Digests(context.Background(), backend.DigestQuery{After: id.ModRevision - 1, Limit: 100})
	if !errors.Is(err, backend.ErrCorrupt) && (err != nil || damage != "value" && damage != "checksum") {
		f.Errorf("%s damaged, digests: %v", damage, err)
	}
}

// load begins a transaction and returns the error of that.
func (f *fixture) load(n backend.Needs) error {
	tx, err := f.b.Begin(context.Background(), n)
	if err == nil {
		tx.Rollback()
	}
	return err
}

// A damaged row is never returned with its value, whatever column is damaged and however the row is read. Other rows
// are not affected.
func testCorruptRows(f *fixture) {
	f.commit([]op{put("other", "another value")})
	for i, name := range slices.Sorted(maps.Keys(damages)) {
		key := fmt.Sprintf("key%02d", i) // after the keys that are damaged already
		f.commit([]op{put(key, "v1")})
		id := backend.RowID{ModRevision: f.m.clock.Revision}
		for read, err := range f.valueReads(key, id) {
			if err != nil {
				f.Errorf("%s, not damaged yet, by %s: %v", name, read, err)
			}
		}
		f.hooks.Execute(f.T, f.b, fmt.Sprintf("UPDATE object_versions SET %s WHERE resource_version = %d",
			damages[name], id.ModRevision))
		reads := f.valueReads(key, id)
		if name == "tombstone" { // the index says so, too
			for _, read := range []string{"list", "open list", "span of a transaction"} {
				delete(reads, read)
			}
		}
		for read, err := range reads {
			var row *backend.CorruptRow
			if !errors.As(err, &row) || !errors.Is(err, backend.ErrCorrupt) || row.ID != id {
				f.Errorf("%s damaged, by %s: %v", name, read, err)
			}
		}
		f.checkDamagedDigest(name, id)
		f.checkRange(backend.RangeQuery{Span: only("other"), Revision: f.m.clock.Revision, Limit: 1})
		if name != "tombstone" {
			f.commit([]op{put(key, "v2")})
			f.checkRange(backend.RangeQuery{Span: only(key), Revision: f.m.clock.Revision, Limit: 1})
			_, err := f.b.History(context.Background(),
				backend.HistoryQuery{After: id.ModRevision, Limit: 100, WithPrev: true})
			f.wantErr(name+" damaged, as the superseded row", err, backend.ErrCorrupt)
		}
	}
}

// A damaged row that names a newer version as the one that it superseded does not make the purge remove that, and the
// version that it should name does not reappear.
func testCorruptPurge(f *fixture) {
	for i := range 5 {
		key := "k"
		if i%2 == 1 {
			key = "other"
		}
		f.commit([]op{put(key, fmt.Sprint(i))})
	}
	newest := f.m.clock.Revision
	f.hooks.Execute(f.T, f.b, fmt.Sprintf("UPDATE object_versions SET previous_version = %d "+
		"WHERE resource_version = %d", newest, newest-2))
	f.commit([]op{put("last", "v")})
	f.compact(f.m.clock.Revision)
	if n := f.purge(100); n != 2 { // nothing names the oldest version any more
		f.Errorf("%d rows removed", n)
	}
	f.checkRange(backend.RangeQuery{Span: from(""), Revision: f.m.clock.Revision, Limit: 10})
	f.commit([]op{del("k")}, []op{put("last", "v")})
	f.compact(f.m.clock.Revision)
	f.purge(100)
	f.checkRange(backend.RangeQuery{Span: from(""), Revision: f.m.clock.Revision, Limit: 10})
}

// Damaged rows may leave many older versions behind. None of them reappears when the tombstone above them is removed.
func testCorruptPurgeOfMany(f *fixture) {
	for i := range 300 {
		f.commit([]op{put("k", fmt.Sprint(i))})
	}
	newest := f.m.clock.Revision
	f.hooks.Execute(f.T, f.b, fmt.Sprintf("UPDATE object_versions SET previous_version = %d", newest))
	f.commit([]op{del("k"), put("other", "v")}, []op{put("k", "v"), del("k")}, []op{put("last", "v")})
	f.compact(f.m.clock.Revision)
	f.purge(8)
	f.checkRange(backend.RangeQuery{Span: from(""), Revision: f.m.clock.Revision, Limit: 10})
	f.checkRetained()
}
