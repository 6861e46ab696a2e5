package backendtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sqlstore/sqlstore/backend"
)

// recorder is a [backend.Verifier] that records what it receives.
type recorder struct {
	clock  backend.Clock
	rows   map[backend.RowID]backend.Row
	all    bool
	refuse error
}

func (s *recorder) Begin(c backend.Clock) error {
	*s = recorder{clock: c, rows: map[backend.RowID]backend.Row{}, refuse: s.refuse}
	return nil
}

func (s *recorder) Row(r *backend.Row) error {
	s.rows[r.ID()] = *r
	return s.refuse
}

func (s *recorder) Rows() error {
	s.all = true
	return nil
}

// A verification passes all rows of the clock's revision without their values, and finds damage to any column but the
// value.
func testVerify(f *fixture) {
	v, ok := f.b.(backend.Verifying)
	if !ok {
		return
	}
	ctx := context.Background()
	long := string(bytes.Repeat([]byte("long"), 1000))
	f.commit([]op{put("a", "1"), put("b", "1"), put(long, "1")}, []op{put("a", "2"), del("b")}, []op{put("b", "")})
	f.commit([]op{put("k", "v"), put("l", "v")}, []op{del("k"), put("k", "v")}, []op{del("a"), del(long)})
	var s recorder
	if err := v.Verify(ctx, &s); err != nil {
		f.Fatal(err)
	}
	want := f.m.history(from(""), 0, f.m.clock.Revision)
	if !s.all || s.clock != f.m.clock || len(s.rows) != len(want) {
		f.Errorf("%d rows at %+v, want %d at %+v; all: %t", len(s.rows), s.clock, len(want), f.m.clock, s.all)
	}
	for _, w := range want {
		w.Value = nil
		if got := s.rows[w.ID()]; fmt.Sprint(got) != fmt.Sprint(w) {
			f.Errorf("got %v, want %v", got, w)
		}
	}
	s.refuse = errors.New("enough")
	if err := v.Verify(ctx, &s); !errors.Is(err, s.refuse) || len(s.rows) != 1 || s.all {
		f.Errorf("after an error of the verifier: %v after %d rows", err, len(s.rows))
	}
	for _, name := range slices.Sorted(maps.Keys(damages)) {
		if name == "value" || name == "checksum" { // the damaged half of the checksum is the value's
			continue
		}
		f.hooks.Execute(f.T, f.b, "CREATE TABLE intact AS SELECT * FROM object_versions WHERE resource_version = 4")
		f.hooks.Execute(f.T, f.b, "UPDATE object_versions SET "+damages[name]+" WHERE resource_version = 4")
		f.wantErr(name+" damaged", v.Verify(ctx, &recorder{}), backend.ErrCorrupt)
		column, _, _ := strings.Cut(damages[name], " ")
		f.hooks.Execute(f.T, f.b, "UPDATE object_versions SET "+column+" = (SELECT "+column+" FROM intact), "+
			"value = (SELECT value FROM intact) WHERE resource_version = 4")
		f.hooks.Execute(f.T, f.b, "DROP TABLE intact")
		if err := v.Verify(ctx, &recorder{}); err != nil {
			f.Errorf("%s restored: %v", name, err)
		}
	}
	f.compact(f.m.clock.Revision - 1)
	f.purge(100)
	if err := v.Verify(ctx, &recorder{}); err != nil {
		f.Error(err)
	}
}
