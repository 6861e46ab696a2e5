package bitrot

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// tidNumber is the offset in an index entry of the row's number in the page to which the entry leads.
const tidNumber = 4

// TestEntriesThatLeadElsewhere damages what no scan of an index alone reads: which row an entry leads to. A search then
// finds another row or none.
func TestEntriesThatLeadElsewhere(t *testing.T) {
	pg, p := newPostgresPlace(t)
	// VACUUM removes entries of dead rows, which may lead anywhere without harm.
	if err := pg.up(); err != nil {
		t.Fatal(err)
	}
	pg.execute(t, "VACUUM object_versions")
	if err := errors.Join(pg.down(), os.RemoveAll(p.sound), copyFiles(p.dir, p.sound)); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // repeatable
	for name, bit := range map[string]int{"another row": 0, "no row": 6} {
		for _, index := range []string{"object_versions_pkey", keyIndex, "object_versions_lease"} {
			t.Run(index+" to "+name, func(t *testing.T) {
				for range 3 {
					entry, err := chooseEntry(rng, p, index)
					if err != nil {
						t.Fatal(err)
					}
					entry.bit = bit
					a := p.round(t, 1, false, func() error { return entry.apply(p.dir) })
					switch {
					case a == nil: // the server does not start
					case len(a.wrong) > 0:
						t.Errorf("%v: %d wrong answers, the first: %s", entry, len(a.wrong), a.wrong[0])
					case a.errors == 0:
						t.Errorf("%v: nothing noticed the damage", entry)
					}
				}
			})
		}
	}
}

const keyIndex = "object_versions_namespace_name_resource_version_deleted"

// chooseEntry draws an entry of a leaf of an index.
func chooseEntry(rng *rand.Rand, p *place, index string) (*flip, error) {
	f := p.files[slices.IndexFunc(p.files, func(f *file) bool { return f.name == index })]
	info, err := os.Stat(filepath.Join(p.sound, f.path))
	if err != nil {
		return nil, err
	}
	for {
		at := rng.Int64N(info.Size()/page) * page
		parsed, err := parse(filepath.Join(p.sound, f.path), at)
		if err != nil {
			return nil, err
		}
		if parsed.leaf && len(parsed.tuples) > 2 {
			tuple := parsed.tuples[1+rng.IntN(len(parsed.tuples)-1)] // the first may be the page's upper bound
			return &flip{file: f, offset: at + tuple[0] + tidNumber}, nil
		}
	}
}
