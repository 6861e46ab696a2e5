package load

import (
	"testing"

	"k8s.io/apimachinery/pkg/watch"
)

// TestChecksNotice passes the comparisons a history, and views of it with one error each.
func TestChecksNotice(t *testing.T) {
	a, b := Key{"pods", "ns", "a"}, Key{"pods", "ns", "b"}
	added, modified, deleted := Change{Type: watch.Added, Version: 2, Sum: "1"},
		Change{Type: watch.Modified, Version: 4, Sum: "2"}, Change{Type: watch.Deleted, Version: 7, Sum: "3"}
	ending := Change{Type: watch.Modified, Version: 6, Sum: "3", Ending: true}
	other := Change{Type: watch.Added, Version: 3, Sum: "4"}
	truth := map[Key][]Change{a: {added, modified, ending, deleted}, b: {other}}
	history := map[Key][]Change{a: {added, modified, {Type: watch.Deleted}}, b: {other}}
	scope := Scope{Kind: Pods, Prefix: "ns"}

	watches := []struct {
		name string
		seen map[Key][]Change
		ok   bool
	}{
		{"all", truth, true},
		{"lost", map[Key][]Change{a: {added, ending, deleted}, b: {other}}, false},
		{"lost deletion", map[Key][]Change{a: {added, modified}, b: {other}}, false},
		{"lost object", map[Key][]Change{a: truth[a]}, false},
		{"twice", map[Key][]Change{a: {added, modified, modified, ending, deleted}, b: {other}}, false},
		{"out of order", map[Key][]Change{a: {modified, added, ending, deleted}, b: {other}}, false},
		{"other content", map[Key][]Change{a: truth[a], b: {{Type: watch.Added, Version: 3, Sum: "5"}}}, false},
		{"other version", map[Key][]Change{a: truth[a], b: {{Type: watch.Added, Version: 5, Sum: "4"}}}, false},
		{"deletion of another state", map[Key][]Change{a: {added, modified, ending, {
			Type: watch.Deleted, Version: 7,
			Sum: "2",
		}}, b: {other}}, false},
		{"invented", map[Key][]Change{a: truth[a], b: {other}, {"pods", "ns", "c"}: {other}}, false},
	}
	for _, tc := range watches {
		w := &Watcher{Scope: scope, seen: tc.seen}
		if err := w.checkHistory(history); (err == nil) != tc.ok {
			t.Errorf("checkHistory of %s: %v", tc.name, err)
		}
		if err := w.checkTruth(truth); (err == nil) != tc.ok {
			t.Errorf("checkTruth of %s: %v", tc.name, err)
		}
	}
	late := &Watcher{Scope: scope, Manner: Manner{From: 4}, seen: map[Key][]Change{a: {ending, deleted}}}
	if err := late.checkTruth(truth); err != nil {
		t.Errorf("checkTruth of a later watch: %v", err)
	}
	relisted := &Watcher{Scope: scope, gaps: []gap{{after: 2, to: 6}}, seen: map[Key][]Change{a: {added, deleted}}}
	if err := relisted.checkTruth(truth); err != nil {
		t.Errorf("checkTruth of a watch with a gap: %v", err)
	}
	relisted.gaps[0].to = 5
	if err := relisted.checkTruth(truth); err == nil {
		t.Error("checkTruth accepts a loss after the gap")
	}
	begun := &Watcher{
		Scope: scope, Manner: Manner{From: 7},
		lists: []*List{{Scope: scope, Version: 7, Items: map[Key]Change{b: other}}},
	}
	if err := begun.checkTruth(truth); err != nil {
		t.Errorf("checkTruth of a watch with an initial state: %v", err)
	}
	begun.lists[0].Items[a] = ending
	if err := begun.checkTruth(truth); err == nil {
		t.Error("checkTruth accepts a wrong initial state")
	}

	lists := []struct {
		name    string
		version int64
		items   map[Key]Change
		ok      bool
	}{
		{"before all", 1, nil, true},
		{"between", 4, map[Key]Change{a: modified, b: other}, true},
		{"after deletion", 7, map[Key]Change{b: other}, true},
		{"missing", 4, map[Key]Change{b: other}, false},
		{"deleted shown", 7, map[Key]Change{a: ending, b: other}, false},
		{"from the future", 3, map[Key]Change{a: modified, b: other}, false},
		{"stale", 4, map[Key]Change{a: added, b: other}, false},
	}
	for _, tc := range lists {
		list := &List{Scope: scope, Version: tc.version, Items: tc.items}
		if err := list.Check(truth); (err == nil) != tc.ok {
			t.Errorf("Check of list %s: %v", tc.name, err)
		}
	}

	h := NewHistory()
	h.add(a, added)
	h.add(b, Change{Type: watch.Added, Version: added.Version})
	if h.Versions() == nil {
		t.Error("Versions allows one version for two objects")
	}
}
