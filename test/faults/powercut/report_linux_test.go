package powercut

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/test/faults/powercut/disk"
)

// report counts what happened in all lives.
type report struct {
	lives, cuts int
	starts      int // cuts before the server was ready
	loaded      int // cuts after writes were acknowledged in the same round
	writes      int // acknowledged in those rounds
	failed      int // syncs
	hits        map[string]int
	losses      disk.Losses
}

func newReport() *report { return &report{hits: map[string]int{}} }

func (r *report) add(hit string, l disk.Losses) {
	r.cuts++
	r.losses.Add(l)
	if strings.HasPrefix(hit, "failed ") {
		r.failed++
	}
	if i := strings.LastIndex(hit, " of /"); i >= 0 {
		name := i + len(" of ")
		hit = hit[:name] + path.Base(hit[name:])
	}
	r.hits[hit]++
}

func (r *report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d cuts in %d lives, %d of them during a start, %d after an acknowledged load (%d writes); %s\n",
		r.cuts, r.lives, r.starts, r.loaded, r.writes, r.losses)
	var hits []string
	for hit, n := range r.hits {
		hits = append(hits, fmt.Sprintf("%6d at %s", n, hit))
	}
	slices.Sort(hits)
	slices.Reverse(hits)
	b.WriteString(strings.Join(hits[:min(len(hits), 40)], "\n"))
	return b.String()
}

// enough checks that the cuts have produced the usual kinds of losses, and whatever else is named: without, they prove
// nothing.
func (r *report) enough(t *testing.T, others map[string]int) {
	t.Helper()
	const few = 50
	if r.cuts < few {
		return
	}
	kinds := map[string]int{
		"lost write": r.losses.Writes, "torn write": r.losses.Torn, "cut start": r.starts, "cut after load": r.loaded,
	}
	maps.Copy(kinds, others)
	for what, n := range kinds {
		if n == 0 {
			t.Errorf("no %s in %d cuts", what, r.cuts)
		}
	}
}
