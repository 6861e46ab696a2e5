package backend

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"
)

// TestSearchCommits compares the search with a scan, over histories with holes and times that repeat.
func TestSearchCommits(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	for range 500 {
		n := random.Int64N(200)
		var known []Commit
		now := int64(1000)
		for r := int64(1); r <= n; r++ {
			now += max(0, random.Int64N(6)-3)
			if random.IntN(3) > 0 {
				known = append(known, Commit{r, at(now)})
			}
		}
		for ms := int64(995); ms < now+5; ms++ {
			var want Commit
			for _, c := range known {
				if !c.At.After(at(ms)) {
					want = c
				}
			}
			asked := 0
			got, err := SearchCommits(n, at(ms), func(revision int64) (Commit, error) {
				asked++
				for _, c := range known {
					if c.Revision >= revision {
						return c, nil
					}
				}
				return Commit{}, nil
			})
			if got != want || (err != nil) != (want == Commit{}) || err != nil && !errors.Is(err, ErrUnknownTime) {
				t.Fatalf("at %d: %+v, %v, want %+v of %v", ms, got, err, want, known)
			}
			if most := bits.Len64(uint64(n)) + 1; asked > most {
				t.Fatalf("%d lookups in %d revisions, want at most %d", asked, n, most)
			}
		}
	}
}

func TestSearchCommitsFails(t *testing.T) {
	broken := errors.New("broken")
	_, err := SearchCommits(10, time.Now(), func(int64) (Commit, error) { return Commit{}, broken })
	if !errors.Is(err, broken) {
		t.Error(err)
	}
}
