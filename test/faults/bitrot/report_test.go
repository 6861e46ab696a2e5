package bitrot

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// report counts what happened in all rounds.
type report struct {
	rounds, running, refused, flips int
	right, errors, late             int
	spoiled                         int // rounds with an error
	hits                            map[string]int
	undetected                      int            // rounds with wrong answers that the docs allow
	undetectedBy                    map[string]int // by where the bits were
}

func newReport() *report { return &report{hits: map[string]int{}, undetectedBy: map[string]int{}} }

func (r *report) add(flips []*flip, a *answers) {
	r.rounds++
	r.flips += len(flips)
	for _, f := range flips {
		r.hits[f.where]++
	}
	if a == nil {
		r.refused++
		return
	}
	r.right, r.errors, r.late = r.right+a.right, r.errors+a.errors, r.late+a.late
	if a.errors > 0 {
		r.spoiled++
	}
}

func (r *report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d flips in %d rounds, %d of them while the server ran\n"+
		"%d right answers, %d errors (%d after a timeout) in %d rounds, %d refused starts\n"+
		"%d rounds with a documented wrong answer\n",
		r.flips, r.rounds, r.running, r.right, r.errors, r.late, r.spoiled, r.refused, r.undetected)
	for _, m := range []map[string]int{r.undetectedBy, r.hits} {
		for _, where := range slices.Sorted(maps.Keys(m)) {
			fmt.Fprintf(&b, "%6d  %s\n", m[where], where)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// enough checks that the flips had the usual effects. Without these, the test proves nothing.
func (r *report) enough(t *testing.T) {
	t.Helper()
	if r.flips < 50 {
		return
	}
	for what, n := range map[string]int{
		"right answer": r.right, "error": r.errors, "round while the server ran": r.running,
	} {
		if n == 0 {
			t.Errorf("no %s in %d flips", what, r.flips)
		}
	}
}
