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
