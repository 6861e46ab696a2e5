package paging

import (
	"errors"
	"fmt"
	"testing"
)

func TestWatchStart(t *testing.T) {
	yes, no := true, false
	state := func(version string, end bool) WatchStart {
		return WatchStart{State: true, List: ListOptions{ResourceVersion: version}, EndBookmark: end}
	}
	type row map[string]WatchStart
	table := map[*bool]row{
		nil:  {"": state("", false), "0": state("0", false), "7": {After: 7}},
		&yes: {"": state("", true), "0": state("0", true), "7": state("7", true)},
		&no:  {"": {}, "0": {}, "7": {After: 7}},
	}
	for initial, want := range table {
		for version := range want {
			for _, match := range []string{"", "Exact", "NotOlderThan", "garbage"} {
				for _, bookmarks := range []bool{false, true} {
					for _, limit := range []int64{0, 3, -3} {
						for _, token := range []string{"", "x"} {
							o := WatchOptions{
								ResourceVersion: version, ResourceVersionMatch: match, SendInitialEvents: initial,
								AllowWatchBookmarks: bookmarks,
								Limit:               limit, Continue: token,
							}
							wanted := want[version]
							wanted.EndBookmark = wanted.EndBookmark && bookmarks
							fits := token == "" && (initial == nil) == (match == "") &&
								(initial == nil || match == "NotOlderThan")
							got, err := new(Pager).Watch(o)
							if fits && (err != nil || got != wanted) || !fits && !errors.Is(err, ErrInvalid) {
								t.Errorf("%+v, initial events %s: %+v, %v; want %+v, valid: %t", o, given(initial), got,
									err, wanted, fits)
							}
						}
					}
				}
			}
		}
	}
}

func given(b *bool) string {
	if b == nil {
		return "not given"
	}
	return fmt.Sprint(*b)
}

// TestWatchStates checks that the table for lists accepts each list with which a watch begins, with the intended
// meaning.
func TestWatchStates(t *testing.T) {
	yes := true
	for version, want := range map[string]rule{"": mostRecent, "0": anyVersion, "7": notOlderThan} {
		start, err := new(Pager).Watch(WatchOptions{
			ResourceVersion: version, ResourceVersionMatch: "NotOlderThan",
			SendInitialEvents: &yes,
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := decide(start.List); err != nil || got != want {
			t.Errorf("from %q: %d, %v; want %d", version, got, err, want)
		}
	}
}
