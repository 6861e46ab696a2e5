package chaos

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func dealt(seed uint64, turns int) (names []string, pairs int, seen map[string]int) {
	s := &schedule{Rand: rand.New(rand.NewPCG(seed, 0)), kinds: kinds()}
	seen = map[string]int{}
	for range turns {
		turn := s.next()
		if len(turn) > 1 {
			pairs++
		}
		for _, k := range turn {
			names = append(names, k.name)
			seen[k.name]++
		}
	}
	return names, pairs, seen
}

// A seed determines the faults, and no kind is left out for long.
func TestSchedule(t *testing.T) {
	all := kinds()
	first, pairs, seen := dealt(7, 3*len(all))
	if again, _, _ := dealt(7, 3*len(all)); !slices.Equal(first, again) {
		t.Errorf("the same seed deals %q and %q", first, again)
	}
	if other, _, _ := dealt(8, 3*len(all)); slices.Equal(first, other) {
		t.Error("another seed deals the same faults")
	}
	for _, k := range all {
		if n := seen[k.name]; n < 3 || n > 5 {
			t.Errorf("%s comes %d times in %d turns", k.name, n, 3*len(all))
		}
	}
	if pairs == 0 {
		t.Error("no turn has two faults")
	}
}

func TestPairsTouchDifferentThings(t *testing.T) {
	s := &schedule{Rand: rand.New(rand.NewPCG(1, 0)), kinds: kinds()}
	for range 1000 {
		turn := s.next()
		if len(turn) == 2 && (turn[0].touches == turn[1].touches || turn[0].touches == everything ||
			turn[1].touches == everything) {
			t.Fatalf("%s and %s at the same time", turn[0].name, turn[1].name)
		}
	}
}
