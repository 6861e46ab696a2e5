package store

import (
	"fmt"
	"sync"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// Operations that together write or scan many rows run in several transactions, in order, even if each seems short.
// Pages and counts do not scan the rows that they leave out.
func TestBatchesAreBoundedByRows(t *testing.T) {
	t.Parallel()
	const objects = "object"
	putAndRead := func(r RangeRequest) func(s *Store, i int) error {
		r.Key, r.End = []byte(objects), []byte("objecu")
		return func(s *Store, i int) error {
			key := fmt.Appendf(nil, "%s%04d", objects, i)
			_, err := s.Txn(within(t), &Txn{Success: []Op{{Put: &PutRequest{Key: key}}, {Range: &r}}})
			return err
		}
	}
	for _, test := range []struct {
		name         string
		calls, lease int // lease is the number of keys of each lease
		most, least  int // rows of the largest transaction
		call         func(s *Store, i int) error
	}{
		{"revocations", 250, longRead, 10_000 + longRead - 1, 1, func(s *Store, i int) error {
			_, err := s.LeaseRevoke(within(t), int64(i+1))
			return err
		}},
		{"ranges", 1000, 0, 150, 1, putAndRead(RangeRequest{})},
		{"pages", 1000, 0, 1000, 1000, putAndRead(RangeRequest{Limit: 1})},
		{"counts", 1000, 0, 1000, 1000, putAndRead(RangeRequest{CountOnly: true})},
	} {
		t.Run(test.name, func(t *testing.T) {
			gate := newBlocked()
			conflicts, most, rows := 0, 0, 0
			f := &faults{Backend: openSQLite(t)}
			s := openStore(t, f, Config{})
			eventually(t, "the index is complete", s.index.Complete)
			for i := range test.calls {
				if test.lease == 0 {
					break
				}
				keys := make([]string, test.lease)
				for j := range keys {
					keys[j] = fmt.Sprint("leased/", i, "/", j)
				}
				grant(t, s, int64(i+1), 60, keys...)
			}
			f.commit = func(e *backend.Effects, through func() error) error {
				gate.first()
				if conflicts++; conflicts%3 == 2 { // a batch that gives way keeps its end
					return fmt.Errorf("%w: %w", backend.ErrConflict, backend.ErrUnavailable)
				}
				most, rows = max(most, len(e.Rows)), rows+len(e.Rows)
				return through()
			}
			var wg sync.WaitGroup
			wg.Go(func() { put(t, s, "first", "") })
			<-gate.entered
			for i := range test.calls {
				wg.Go(func() {
					if err := test.call(s, i); err != nil {
						t.Error(err)
					}
				})
			}
			waiting(t, s, test.calls)
			close(gate.release)
			wg.Wait()
			if want := 1 + test.calls*max(1, test.lease); rows != want || most > test.most || most < test.least {
				t.Errorf("%d rows written, want %d; up to %d in one transaction, want %d to %d", rows, want, most,
					test.least, test.most)
			}
		})
	}
}
