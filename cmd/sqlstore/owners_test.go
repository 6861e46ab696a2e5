package main

import (
	"fmt"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// Objects follow all of their owners that are put back, too, and owners that own each other end.
func TestOwners(t *testing.T) {
	o := owners{}
	for i, owned := range []struct{ uid, owners string }{
		{"pod", `{"uid":"set"},{"uid":"node"}`},
		{"set", `{"uid":"deployment"}`},
		{"deployment", ""},
		{"node", ""},
		{"a", `{"uid":"b"}`},
		{"b", `{"uid":"a"}`},
		{"orphan", `{"uid":"gone"}`},
	} {
		o.add(10*i, &backend.Row{Value: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"uid":%q,`+
			`"ownerReferences":[%s]}}`, owned.uid, owned.owners)})
	}
	o.add(70, &backend.Row{Value: []byte("no object")})
	got := map[int]int{}
	o.rank(func(i, rank int) { got[i] = rank })
	if pod, set := got[0], got[10]; pod != 2 || set != 1 || got[20]+got[30]+got[60] != 0 {
		t.Errorf("%v", got)
	}
}
