package paging

import (
	"errors"
	"fmt"
	"math"
	"testing"
)

// TestMatch compares every combination of a list's options with Kubernetes' documentation, implemented a second time:
// the rules in the order in which k8s.io/apiserver and apimachinery apply them.
func TestMatch(t *testing.T) {
	for _, version := range []string{"", "0", "00", "1", "5", "9223372036854775807"} {
		for _, match := range []string{"", "Exact", "NotOlderThan", "exact", "Newest", "0"} {
			for _, limit := range []int64{0, 1, 500, math.MaxInt64, -1, math.MinInt64} {
				for _, token := range []string{"", "x"} {
					o := ListOptions{
						ResourceVersion: version, ResourceVersionMatch: match, Limit: limit,
						Continue: token,
					}
					want := kubernetes(o)
					got, n, err := decide(o)
					if got != want || (want == invalid) != errors.Is(err, ErrInvalid) ||
						(want != invalid) != (err == nil) {
						t.Errorf("%+v: %d, %v; want %d", o, got, err, want)
					}
					if err == nil && version != "" && version != "00" && fmt.Sprint(n) != version {
						t.Errorf("%+v: at %d", o, n)
					}
				}
			}
		}
	}
}

func kubernetes(o ListOptions) rule {
	zero := o.ResourceVersion == "0" || o.ResourceVersion == "00"
	switch {
	case o.Limit < 0:
		return invalid
	case o.ResourceVersionMatch != "" && (o.ResourceVersion == "" || o.Continue != ""):
		return invalid
	case o.Continue != "":
		if o.ResourceVersion != "" && !zero {
			return invalid
		}
		return continueToken
	}
	switch o.ResourceVersionMatch {
	case "Exact":
		if zero {
			return invalid
		}
		return exact
	case "NotOlderThan":
		if zero {
			return anyVersion
		}
		return notOlderThan
	case "":
		switch {
		case o.ResourceVersion == "":
			return mostRecent
		case zero:
			return anyVersion
		case o.Limit > 0:
			return exact
		}
		return notOlderThan
	}
	return invalid
}

var garbage = []string{
	"x", "-1", "+1", "1.0", " 1", "1 ", "0x1", "1_0", "9223372036854775808", "99999999999999999999",
	"٣", "\x00",
}

func TestVersionsThatAreNone(t *testing.T) {
	for _, version := range garbage {
		o := ListOptions{ResourceVersion: version}
		if _, err := new(Pager).List(t.Context(), []byte("k"), o, nil); !errors.Is(err, ErrInvalid) {
			t.Errorf("list at %q: %v", version, err)
		}
		if _, err := new(Pager).Watch(WatchOptions{ResourceVersion: version}); !errors.Is(err, ErrInvalid) {
			t.Errorf("watch from %q: %v", version, err)
		}
		if _, _, err := new(Pager).Get(t.Context(), []byte("k"), GetOptions{ResourceVersion: version}); !errors.Is(err,
			ErrInvalid) {
			t.Errorf("get at %q: %v", version, err)
		}
	}
}
