package index

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// A loading finds the newest rows at its revision in whatever order they come, and the index keeps what was applied
// since.
func TestFill(t *testing.T) {
	rows := []backend.Row{
		{Key: []byte("deleted"), ModRevision: 3, Version: 1},
		{Key: []byte("deleted"), ModRevision: 5, Deleted: true},
		{Key: []byte("again"), ModRevision: 6, Deleted: true},
		{Key: []byte("again"), ModRevision: 6, Ordinal: 1, Version: 1},
		{Key: []byte("leased"), ModRevision: 7, Version: 1, Lease: 1},
		{Key: []byte("leased"), ModRevision: 8, Version: 2, Lease: 2},
		{Key: []byte("kept"), ModRevision: 4, Version: 1},
		{Key: []byte("kept"), ModRevision: 11, Version: 2},
		{Key: []byte("overwritten"), ModRevision: 9, Version: 1, Lease: 2},
		{Key: []byte("gone"), ModRevision: 10, Version: 1, Lease: 2},
	}
	for order, arrange := range map[string]func([]backend.Row){
		"in order": func([]backend.Row) {}, "reversed": slices.Reverse[[]backend.Row],
	} {
		x := New(backend.Clock{Revision: 10, Epoch: 1}, 1<<20, false)
		l, at := x.NewLoading()
		if at.Revision != 10 || at.Complete {
			t.Fatalf("%+v", at)
		}
		x.Apply([]*Item{
			NewItem(backend.Row{Key: []byte("overwritten"), ModRevision: 12, Version: 2, Lease: 3, Value: []byte("v")}),
			NewItem(backend.Row{Key: []byte("gone"), ModRevision: 12, Ordinal: 1, Deleted: true}),
		}, 12, 0)
		some := slices.Clone(rows)
		arrange(some)
		for i := range some {
			l.Add(&some[i])
		}
		if !x.Fill(l) || !x.Complete() {
			t.Fatalf("%s: not complete", order)
		}
		items, _ := x.Walk(Span{Open: true}, 100)
		got := ""
		for _, it := range items {
			got += fmt.Sprintf("%s %d.%d ", it.Key, it.ModRevision, it.Ordinal)
		}
		if want := "again 6.1 kept 4.0 leased 8.0 overwritten 12.0 "; got != want {
			t.Errorf("%s: %s, want %s", order, got, want)
		}
		for lease, want := range map[int64]string{1: "[]", 2: "[leased]", 3: "[overwritten]"} {
			if keys, _, _ := x.LeaseKeys(lease); fmt.Sprint(keys) != want {
				t.Errorf("%s: lease %d has %v, want %s", order, lease, keys, want)
			}
		}
		stale, _ := x.NewLoading()
		x.Reset(backend.Clock{Revision: 10, Epoch: 2})
		if x.Fill(stale) || x.Complete() {
			t.Errorf("%s: filled with what was loaded before a reset", order)
		}
	}
}

// A loading that ends after another one has completed the index brings back nothing that was deleted meanwhile.
func TestSecondLoadingOfACompleteIndex(t *testing.T) {
	row := backend.Row{Key: []byte("k"), ModRevision: 2, CreateRevision: 2, Version: 1}
	deleted := backend.Row{Key: []byte("k"), ModRevision: 3, Deleted: true, PrevRevision: 2}
	for name, late := range map[string]func(x *Index, l *Loading){
		"Fill": func(x *Index, l *Loading) { x.Fill(l) },
		"Load": func(x *Index, l *Loading) { x.Load(x.Position().Generation, []backend.Row{row}) },
	} {
		t.Run(name, func(t *testing.T) {
			x := New(backend.Clock{Revision: 2, Epoch: 1}, 1<<20, false)
			first, _ := x.NewLoading()
			second, _ := x.NewLoading()
			first.Add(&row)
			second.Add(&row)
			if !x.Fill(first) {
				t.Fatal("not filled")
			}
			x.Apply([]*Item{NewItem(deleted)}, 3, 0)
			late(x, second)
			if n := x.Position().Keys; n != 0 {
				t.Errorf("%d keys", n)
			}
		})
	}
}
