package kine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// Rows that contradict each other, and that sqlstore could not show as kine does, are refused.
func TestDamage(t *testing.T) {
	for name, test := range map[string]struct {
		rows []raw
		want string
	}{
		"created twice":            {[]raw{compacted(0), created(2, "/a"), created(3, "/a")}, "creates a key"},
		"another create revision":  {[]raw{created(2, "/a"), updated(3, "/a", 1, 2)}, "created at revision 1"},
		"no create revision":       {[]raw{created(2, "/a"), {3, "/a", 0, 0, nil, 2, 0, nil}}, "created at revision 0"},
		"nothing before":           {[]raw{compacted(3), updated(4, "/a", 2, 3)}, "a key that does not exist"},
		"created in the future":    {[]raw{compacted(9), updated(4, "/a", 5, 3)}, "created at revision 5"},
		"a negative revision":      {[]raw{created(-5, "/a"), created(2, "/b")}, "the row with id -5"},
		"an empty name":            {[]raw{created(2, "")}, "the row with id 2"},
		"updated after a deletion": {[]raw{created(2, "/a"), deleted(3, "/a", 2, 2), updated(4, "/a", 2, 2)}, "exist"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := collect(t, open(t, table(t, test.rows...)).Rows)
			if !errors.Is(err, backend.ErrDamagedSource) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// Other contradictions have the result that kine's lists show.
func TestOddRows(t *testing.T) {
	for name, test := range map[string]struct {
		rows []raw
		want string
	}{
		"a wrong predecessor": {
			[]raw{created(2, "/a"), updated(5, "/a", 2, 4)},
			"/a@2 2/1 /a@5 2/2",
		},
		"compacted before": {
			[]raw{compacted(6), updated(5, "/a", 2, 4), updated(7, "/a", 2, 5)},
			"/a@5 2/2 /a@7 2/3",
		},
		"compaction left rows": {
			[]raw{compacted(6), created(2, "/a"), updated(3, "/a", 2, 2), created(4, "/b"), deleted(5, "/b", 4, 4)},
			"/a@3 2/2",
		},
		"compaction left what a tombstone had hidden": {
			[]raw{compacted(6), created(2, "/a"), updated(8, "/a", 2, 2)},
			"/a@2 2/1 /a@8 2/2",
		},
		"tombstones of nothing": {
			[]raw{
				{2, "gap-2", 0, 1, 0, 0, 0, nil},
				deleted(3, "/a", 0, 0), created(4, "/a"), deleted(5, "/a", 4, 4),
				deleted(6, "/a", 0, 5),
			},
			"/a@4 4/1 /a@5 gone",
		},
		"no name, which no range of keys has": {[]raw{{2, nil, 1, 0, 0, 0, 0, nil}, created(3, "/a")}, "/a@3 3/1"},
		"a key that looks like a gap": {
			[]raw{created(2, "gap-7"), {3, "gap-3", 0, 1, 0, 0, 0, nil}},
			"gap-7@2 2/1",
		},
		"an update of a deleted key": {
			[]raw{created(2, "/a"), deleted(3, "/a", 2, 2), {4, "/a", 0, 0, nil, 3, 0, nil}, updated(5, "/a", 4, 4)},
			"/a@2 2/1 /a@3 gone /a@4 4/1 /a@5 4/2",
		},
		"kube-apiserver's compact_rev_key": {
			[]raw{
				{2, storedCompactKey, 1, 0, 0, 0, 0, []byte("1|77")},
				{3, storedCompactKey, 0, 0, 2, 2, 0, []byte("2|8|9")},
			},
			"compact_rev_key@2 2/1 compact_rev_key@3 2/2",
		},
		"its version, with the value of an old kine": {
			[]raw{compacted(7), {6, storedCompactKey, 0, 0, 2, 5, 0, []byte("40")}},
			"compact_rev_key@6 2/40",
		},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := collect(t, open(t, table(t, test.rows...)).Rows)
			if err != nil {
				t.Fatal(err)
			}
			if got := shown(rows); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// shown describes rows: key@revision, and for live ones, create revision/version.
func shown(rows []backend.Row) string {
	var parts []string
	for _, r := range rows {
		if r.Deleted {
			parts = append(parts, fmt.Sprintf("%s@%d gone", r.Key, r.ModRevision))
		} else {
			parts = append(parts, fmt.Sprintf("%s@%d %d/%d", r.Key, r.ModRevision, r.CreateRevision, r.Version))
		}
	}
	return strings.Join(parts, " ")
}

// Compaction may delete the newest row. The revision does not go back.
func TestContents(t *testing.T) {
	c := open(t, table(t, compacted(9), raw{3, "/a", 1, 0, 0, 0, 60, nil}, raw{4, "/b", 1, 0, 0, 0, -1, nil},
		raw{5, "/c", 1, 0, 0, 0, 20_000_000_000, nil})).Contents()
	if c.Revision != 9 || c.Compacted != 9 || !c.Gaps || c.Rows != 3 {
		t.Errorf("the contents are %+v", c)
	}
	if len(c.Leases) != 2 || c.Leases[0].ID != 60 || c.Leases[0].TTL.Seconds() != 60 ||
		c.Leases[1].ID != 20_000_000_000 || c.Leases[1].TTL.Seconds() != maxTTL {
		t.Errorf("the leases are %+v", c.Leases)
	}
}

// MySQL does not distinguish names by their case.
func TestSpellings(t *testing.T) {
	h := newHistory(0, maria{}.same)
	next := func(r raw) error {
		rec := &record{id: r.id}
		for dest, v := range map[interface{ Scan(any) error }]any{
			&rec.name: r.name, &rec.created: r.created, &rec.deleted: r.deleted, &rec.createRevision: r.create,
		} {
			if err := dest.Scan(v); err != nil {
				t.Fatal(err)
			}
		}
		_, err := h.next(rec)
		return err
	}
	if err := errors.Join(next(created(2, "/a")), next(deleted(3, "/a", 2, 2)), next(created(4, "/A "))); err != nil {
		t.Errorf("another spelling after a deletion: %v", err)
	}
	if err := next(updated(5, "/a", 4, 4)); !errors.Is(err, backend.ErrDamagedSource) {
		t.Errorf("another spelling: %v", err)
	}
}
