package store

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// A hash covers the same rows whatever a purge has removed, with and without the index.
func TestHashed(t *testing.T) {
	for _, physical := range []bool{true, false} {
		for _, disabled := range []bool{true, false} {
			t.Run(fmt.Sprintf("physical=%t,index=%t", physical, !disabled), func(t *testing.T) {
				w := newWorld(t, small(Config{DisableIndex: disabled}), false, 0, randomBytes(5, 2000))
				for !w.g.done() {
					w.txn(within(t))
				}
				compacted := w.m.rev / 2
				if _, err := w.s.Compact(within(t), compacted, physical); err != nil {
					t.Fatal(err)
				}
				for _, revision := range []int64{compacted, compacted + 1, w.m.rev - 2, w.m.rev} {
					wantHashed(t, w, revision)
				}
				// Without any key, what existed at the compacted revision counts.
				all := &Txn{Success: []Op{{Delete: &DeleteRequest{Key: []byte{0}, End: []byte{0}}}}}
				if _, err := w.s.Txn(within(t), all); err != nil {
					t.Fatal(err)
				}
				if _, err := w.m.txn(all); err != nil {
					t.Fatal(err)
				}
				wantHashed(t, w, w.m.rev)
			})
		}
	}
}

func wantHashed(t *testing.T, w *world, revision int64) {
	t.Helper()
	x, err := w.s.Export(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	var got, want []string
	hashed, err := x.Hashed(within(t), revision)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][2]int64{{0, revision / 3}, {revision / 3, revision}} {
		if err := hashed.Rows(within(t), part[0], part[1], func(d *backend.Digested) error {
			got = append(got, digestText(&d.Row, d.Digest))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	kept := w.m.at(revision)
	if len(kept) == 0 {
		kept = w.m.at(x.Compacted)
	}
	for i := range w.m.rows {
		r := &w.m.rows[i]
		now, ok := kept[string(r.Key)]
		if r.ModRevision <= revision && (r.ModRevision > x.Compacted || ok && now.ID() == r.ID()) {
			want = append(want, digestText(r, backend.DigestOf(r.Value)))
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("at revision %d, compacted at %d:\n%v\nwant\n%v", revision, x.Compacted, got, want)
	}
	for wrong, want := range map[int64]error{x.Compacted - 1: ErrCompacted, x.Revision + 1: ErrFutureRevision} {
		if _, err := x.Hashed(within(t), wrong); !errors.Is(err, want) {
			t.Errorf("revision %d of %d to %d returned %v", wrong, x.Compacted, x.Revision, err)
		}
	}
}

// digestText is rowText of a row without its value.
func digestText(r *backend.Row, d backend.Digest) string {
	bare := *r
	bare.Value = nil
	return fmt.Sprint(rowText(&bare), d)
}
