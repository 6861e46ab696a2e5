package semantics

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// kep is the table of KEP-2523, and of the API's contract, as text: match, paging, then the outcome for resourceVersion
// unset, "0", N.
const kep = `
-            whole           MostRecent    Any           NotOlderThan
-            limit           MostRecent    Any           Exact
-            continue        ContinueToken ContinueToken Invalid
-            limit+continue  ContinueToken ContinueToken Invalid
Exact        whole           Invalid       Invalid       Exact
Exact        limit           Invalid       Invalid       Exact
Exact        continue        Invalid       Invalid       Invalid
Exact        limit+continue  Invalid       Invalid       Invalid
NotOlderThan whole           Invalid       Any           NotOlderThan
NotOlderThan limit           Invalid       Any           NotOlderThan
NotOlderThan continue        Invalid       Invalid       Invalid
NotOlderThan limit+continue  Invalid       Invalid       Invalid
`

func TestListsAreTheKEPs(t *testing.T) {
	found := map[string]Case{}
	for _, c := range Lists() {
		match := c.Match
		if match == "" {
			match = "-"
		}
		key := fmt.Sprintf("%s %s %s", match, c.Paging, c.Version)
		if _, twice := found[key]; twice {
			t.Errorf("%s appears twice", key)
		}
		found[key] = c
	}
	if len(found) != 4*4*len(allVersions) {
		t.Errorf("%d cases, want each match with each paging and version", len(found))
	}
	for line := range strings.Lines(strings.TrimSpace(kep)) {
		f := strings.Fields(line)
		for i, versions := range [][]Version{{Unset}, {Zero}, {Current, Old, Compacted, Above}} {
			for _, v := range versions {
				if c := found[fmt.Sprintf("%s %s %s", f[0], f[1], v)]; string(c.Outcome) != f[2+i] {
					t.Errorf("%s %s with version %s is %s, the KEP says %s", f[0], f[1], v, c.Outcome, f[2+i])
				}
			}
		}
	}
	for _, c := range found {
		garbage := c.Version == Garbage || c.Version == Negative || c.Match == unknownMatch
		if garbage && c.Want != badRequest {
			t.Errorf("%+v: want %+v", c, badRequest)
		}
		if !slices.Contains([]Answer{ok, badRequest, expired, tooLarge}, c.Want) {
			t.Errorf("%+v is no answer to a list", c.Want)
		}
	}
}
