package tally

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

var errTest = errors.New("test")

// paged returns rows in pages of two, then an error if that is not nil.
func paged(g *Growth, failure error, rows ...backend.Row) func() (*Sized, error) {
	return Pages(func() (page []*Sized, more bool, err error) {
		for ; len(rows) > 0 && len(page) < 2; rows = rows[1:] {
			page = append(page, g.Size(&rows[0]))
		}
		if len(page) == 0 {
			return nil, false, failure
		}
		return page, true, nil
	})
}

func at(revision int64, key, value string) backend.Row {
	return backend.Row{Key: []byte(key), Value: []byte(value), ModRevision: revision}
}

func TestGrowth(t *testing.T) {
	pod := func(padding int) string {
		return `{"apiVersion":"v1","kind":"Pod","spec":"` + strings.Repeat("x", padding) + `"}`
	}
	g := NewGrowth(0, Whole(ByPrefix("/", 1)), Whole(ByKind), ByField("v1 Pod"), ByField(""))
	before := []backend.Row{
		at(2, "/a/1", "12345"), at(3, "/a/2", "1"), at(4, "/b/1", pod(1)), at(5, "/b/2", pod(9)), at(6, "/c/1", pod(1)),
	}
	after := []backend.Row{
		at(2, "/a/1", "12345"), at(7, "/b/1", pod(4)), at(8, "/b/2", pod(8)), at(9, "/c/1", "no pod"),
		at(10, "/d/1", pod(1)), at(11, "/d/2", pod(1)),
	}
	if err := g.Compare(paged(g, nil, before...), paged(g, nil, after...)); err != nil {
		t.Fatal(err)
	}
	one := int64(4 + len(pod(1)))
	want := []Grown{
		{Name: "/d/", Keys: 2, KeysAdded: 2, Bytes: 2 * one, BytesAdded: 2 * one},
		{Name: "/b/", Bytes: 2, BytesAdded: 3, BytesRemoved: 1},
		{Name: "/a/", Keys: -1, KeysRemoved: 1, Bytes: -5, BytesRemoved: 5},
		{Name: "/c/", Bytes: 10 - one, BytesRemoved: one - 10},
	}
	if got := g.Largest(0, 0); !slices.Equal(got, want) {
		t.Errorf("by prefix\n%+v, want\n%+v", got, want)
	}
	want = []Grown{
		{
			Name: "v1 Pod", Keys: 1, KeysAdded: 2, KeysRemoved: 1, Bytes: one + 2, BytesAdded: 2*one + 3,
			BytesRemoved: one + 1,
		},
		{Name: Other, KeysAdded: 1, KeysRemoved: 1, Bytes: 5, BytesAdded: 10, BytesRemoved: 5},
	}
	if got := g.Largest(1, 0); !slices.Equal(got, want) {
		t.Errorf("by kind\n%+v, want\n%+v", got, want)
	}
	// Fields are those of a row of the kind; together they are as much as the other groupings have.
	sums := make([]int64, 4)
	for i := range sums {
		for _, grown := range g.Largest(i, 0) {
			sums[i] += grown.Bytes
		}
	}
	if sums[1] != sums[0] || sums[3] != sums[0] || sums[2] != one+2 {
		t.Errorf("sums %d", sums)
	}
	spec := Grown{Name: "spec", Keys: 1, KeysAdded: 2, KeysRemoved: 1, Bytes: 13, BytesAdded: 25, BytesRemoved: 12}
	if got := g.Largest(2, 0); !slices.Contains(got, spec) {
		t.Errorf("by field\n%+v, want %+v", got, spec)
	}
	if got := g.Largest(1, 1); len(got) != 1 {
		t.Errorf("not limited: %+v", got)
	}
	for i, errs := range [][2]error{{errTest, nil}, {nil, errTest}} {
		if err := g.Compare(paged(g, errs[0], before...), paged(g, errs[1], after...)); !errors.Is(err, errTest) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// Groups that do not differ take no place of those that do.
func TestBoundedGrowth(t *testing.T) {
	g := NewGrowth(2, Whole(ByPrefix("/", 1)))
	before := []backend.Row{at(2, "/a/1", "x"), at(3, "/b/1", "x"), at(4, "/c/1", "x")}
	long := "/" + strings.Repeat("d", 2*longestName) + "/"
	after := append(slices.Clone(before),
		at(5, long, "xxxx"), at(6, "/e/1", "xxx"), at(7, "/f/1", "x"), at(8, "/g/1", "xxxxx"))
	if s := g.Size(&after[3]); len(s.parts[0]) != 1 || s.parts[0][0] != (Part{Others, after[3].Size()}) {
		t.Errorf("a long name: %+v", s.parts)
	}
	if err := g.Compare(paged(g, nil, before...), paged(g, nil, after...)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, grown := range g.Largest(0, 0) {
		got = append(got, grown.Name)
	}
	if want := []string{Others, "/e/", "/f/"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
