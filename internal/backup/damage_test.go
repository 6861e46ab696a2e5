package backup

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A file with a byte changed, or cut off, is noticed wherever that is: by verifying, and before anything is restored.
func TestDamage(t *testing.T) {
	t.Parallel()
	r := directory(t)
	w := newWorld(t, onSQLite(t), 6)
	w.change(40)
	c := w.full(r, time.Now())
	w.change(10)
	w.changes(r, c, time.Now())
	c.close()
	last := w.Revision()
	w.close()
	all, err := r.Chains(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all[0].Files {
		path := filepath.Join(r.Dir, filepath.FromSlash(f.String()))
		sound, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		damaged := func(what string, at int, content []byte) {
			t.Helper()
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if s, err := r.Open(t.Context(), Point{}, ""); err == nil {
				t.Errorf("%s %d of %s: restored, %v", what, at, f.Name, maps.Equal(stateOf(t, s), w.now))
			} else if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
				t.Errorf("%s %d of %s: %v", what, at, f.Name, err)
			}
			v := verify(t, r)
			want := int64(0)
			if !f.Full {
				want = all[0].Full().Revision
			}
			if len(v.Problems) != 1 || v.Through != want {
				t.Errorf("%s %d of %s: %+v", what, at, f.Name, v)
			}
		}
		for at := 0; at < len(sound); at += 3 { // each bit of a byte in turn, as 3 and 8 are coprime
			changed := bytes.Clone(sound)
			changed[at] ^= 1 << (at % 8)
			damaged("byte", at, changed)
			damaged("length", at, sound[:at])
		}
		damaged("length", len(sound)+1, append(bytes.Clone(sound), '\n'))
		if err := os.WriteFile(path, sound, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if v := verify(t, r); len(v.Problems) != 0 || v.Through != last {
		t.Errorf("what is whole: %+v", v)
	}
}

// A missing file ends what can be restored. What is saved after it is not silently left out.
func TestMissingFile(t *testing.T) {
	r := directory(t)
	w := newWorld(t, onSQLite(t), 8)
	c := w.full(r, time.Now())
	var names []Name
	for range 4 {
		w.change(10)
		names = append(names, w.changes(r, c, milliseconds(time.Now())))
	}
	c.close()
	if err := os.Remove(filepath.Join(r.Dir, filepath.FromSlash(names[2].String()))); err != nil {
		t.Fatal(err)
	}
	if v := verify(t, r); len(v.Problems) != 1 || v.Through != names[1].Revision {
		t.Errorf("%+v", v)
	}
	chain := names[0].Chain
	for name, p := range map[string]Point{
		"the newest state":  {},
		"the chain":         {Chain: chain},
		"a missing one":     {Revision: names[2].Revision},
		"one behind it":     {Revision: names[3].Revision},
		"one of the chain":  {Revision: names[3].Revision, Chain: chain},
		"a time behind it":  {Time: names[3].At},
		"a time, the chain": {Time: names[3].At, Chain: chain},
	} {
		if s, err := r.Open(t.Context(), p, ""); !errors.Is(err, ErrMissing) {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	all, err := r.Chains(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if from, to := all[0].Missing(); from != names[1].Revision+1 || to != names[2].Revision {
		t.Errorf("revisions %d to %d are missing, want %d to %d", from, to, names[1].Revision+1, names[2].Revision)
	}
	s := open(t, r, Point{Revision: names[1].Revision, Keep: true})
	if got, want := stateOf(t, s), w.states[names[1].Revision]; !maps.Equal(got, want) {
		t.Errorf("restored %v, want %v", got, want)
	}

	// A later chain has everything again.
	w.full(r, time.Now().Add(time.Second)).close()
	s = open(t, r, Point{})
	if got := stateOf(t, s); !maps.Equal(got, w.now) {
		t.Errorf("restored %v, want %v", got, w.now)
	}
	w.close()
}

func FuzzParseName(f *testing.F) {
	f.Add("20261125T171300Z-8e9d4c5b6a7f1023/0000000000000001234-full-20261125T171300.123Z.zst")
	f.Add("20261125T171300Z-8e9d4c5b6a7f1023/0000000000000001299-after-0000000000000001234-20261125T171305.120Z.zst" +
		sealed)
	f.Add("a/b")
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseName(text)
		if err == nil && (n.String() != text || n.After > n.Revision || n.Full && n.After != 0) {
			t.Errorf("%q is read as %+v", text, n)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{recordEnd})
	f.Add([]byte{recordEnd, recordEnd})
	f.Add(append([]byte{recordEnded}, bytes.Repeat([]byte{0xff}, 11)...)) // a number that is too large
	f.Add([]byte{recordAuth, 0xff, 0xff, 0xff, 0xff, 3, '{'})             // a length near the limit, without content
	f.Add([]byte{recordRow, 0, 4, 0, 2, 1, 'k', 2, 2, 0, 1, 'v', recordLeases, recordGranted, 2, 4, recordEnd})
	f.Fuzz(func(t *testing.T, payload []byte) {
		if err := decode(bytes.NewReader(payload), &visitor{}); err != nil && !errors.Is(err, ErrDamaged) {
			t.Error(err)
		}
	})
}
