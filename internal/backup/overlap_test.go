package backup

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"
)

// Chains may overlap: a full backup takes a while, and 'sqlstore backup' may save the store of a server that makes
// backups. What is newest is then not in the chain that began last.
func TestOverlappingChains(t *testing.T) {
	r := directory(t)
	w := newWorld(t, onSQLite(t), 11)
	start := time.Now().Add(-time.Hour)
	w.change(10)
	c := w.full(r, milliseconds(start))
	w.change(10)
	middle := milliseconds(start.Add(10 * time.Minute))
	once := w.full(r, middle)
	once.close()
	w.change(10)
	name := w.changes(r, c, milliseconds(time.Now()))
	c.close()
	s := open(t, r, Point{})
	if at, _ := s.At(); at != w.Revision() || s.Chain() != name.Chain || !maps.Equal(stateOf(t, s), w.now) {
		t.Errorf("the newest state is that of %s at revision %d, want %s at %d", s.Chain(), at, name.Chain,
			w.Revision())
	}
	s = open(t, r, Point{Time: start.Add(30 * time.Minute), Keep: true})
	if s.Chain() != name.Chain {
		t.Errorf("a time that only %s covers is restored from %s", name.Chain, s.Chain())
	}
	x := w.export()
	defer x.Close()
	if resumed, err := r.resume(t.Context(), x); err != nil || resumed.name != name.Chain {
		t.Errorf("%+v goes on, want %s: %v", resumed, name.Chain, err)
	}
	removed, err := r.Prune(t.Context(), start.Add(30*time.Minute))
	if err != nil || len(removed) != 0 {
		t.Errorf("deleted %+v, which has changes after what is kept: %v", removed, err)
	}
	w.change(10)
	later := w.full(r, milliseconds(time.Now().Add(time.Second)))
	later.close()
	removed, err = r.Prune(t.Context(), time.Now().Add(time.Hour))
	if err != nil || len(removed) != 2 {
		t.Errorf("deleted %+v, want both that are older: %v", removed, err)
	}
	w.close()
}

// A time or revision between two chains is restored from the history that the later one has.
func TestBetweenChains(t *testing.T) {
	r := directory(t)
	w := newWorld(t, onSQLite(t), 12)
	w.change(10)
	c := w.full(r, milliseconds(time.Now()))
	c.close()
	last := w.Revision()
	for w.Revision() < last+10 {
		w.change(1)
	}
	c = w.full(r, milliseconds(time.Now().Add(time.Hour)))
	c.close()
	for _, revision := range []int64{last + 1, last + 5} {
		commit, _, err := w.WrittenAt(t.Context(), revision)
		if err != nil {
			t.Fatal(err)
		}
		current, _, err := w.CurrentAt(t.Context(), commit.At)
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, r, Point{Revision: revision, Keep: true})
		if got := stateOf(t, s); !maps.Equal(got, w.states[revision]) {
			t.Errorf("revision %d: %v", revision, got)
		}
		s = open(t, r, Point{Time: commit.At, Keep: true})
		if at, _ := s.At(); at != current.Revision {
			t.Errorf("at %v: revision %d, want %d", commit.At, at, current.Revision)
		}
	}
	w.close()
}

// Where the backups of several stores cover a point, the user has to say which.
func TestSeveralStores(t *testing.T) {
	r := directory(t)
	start := time.Now().Add(-time.Hour)
	var chains []*chain
	var worlds []*world
	for i := range 2 {
		w := newWorld(t, onSQLite(t), uint64(i))
		w.change(10)
		c := w.full(r, milliseconds(start.Add(time.Duration(i)*time.Minute)))
		w.change(10)
		w.changes(r, c, milliseconds(start.Add(10*time.Minute)))
		c.close()
		chains, worlds = append(chains, c), append(worlds, w)
	}
	both := min(worlds[0].Revision(), worlds[1].Revision())
	for _, p := range []Point{{}, {Time: start.Add(5 * time.Minute)}, {Revision: both}} {
		if _, err := r.Open(t.Context(), p, ""); !errors.Is(err, ErrSeveral) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	for i, c := range chains {
		s := open(t, r, Point{Chain: c.name})
		if !maps.Equal(stateOf(t, s), worlds[i].now) {
			t.Errorf("%s is not restored", c.name)
		}
	}
	// So it is not for a backup of a snapshot, whose store is not known, and which is older.
	err := r.remove(t.Context(), chainOf(t, r, chains[1].name))
	if err != nil {
		t.Fatal(err)
	}
	x := worlds[1].export()
	x.Settings.ClusterID = 0
	unknown, _, err := r.full(t.Context(), exported(t.Context(), x, "test", milliseconds(start.Add(time.Minute))))
	x.Close()
	if err != nil {
		t.Fatal(err)
	}
	if s := open(t, r, Point{}); s.Chain() != chains[0].name {
		t.Errorf("restored %s, want %s, which is newer than %s", s.Chain(), chains[0].name, unknown)
	}
	// A store that was restored from another, and saved since, follows it.
	successor := newWorld(t, onSQLite(t), 3)
	successor.change(10)
	c := successor.full(r, milliseconds(time.Now()))
	c.close()
	if s := open(t, r, Point{}); s.Chain() != c.name {
		t.Errorf("restored %s, want %s", s.Chain(), c.name)
	}
	for _, w := range append(worlds, successor) {
		w.close()
	}
}

func chainOf(t *testing.T, r *Repository, name string) *Chain {
	t.Helper()
	all, err := r.Chains(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(c Chain) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("there is no chain %s", name)
	}
	return &all[i]
}
