package store

import (
	"errors"
	"testing"
	"time"
)

func TestPutGetDelete(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		s := openStore(t, openSQLite(t), cfg)
		if rev := s.Revision(); rev != 1 {
			t.Fatalf("a fresh store is at revision %d", rev)
		}
		if rev := put(t, s, "a", "1"); rev != 2 {
			t.Fatalf("first put at revision %d", rev)
		}
		put(t, s, "a", "2")
		put(t, s, "b", "")
		r := get(t, s, "a", 0)
		if r == nil || string(r.Value) != "2" || r.Version != 2 || r.CreateRevision != 2 || r.ModRevision != 3 {
			t.Fatalf("got %+v", r)
		}
		if r := get(t, s, "a", 2); r == nil || string(r.Value) != "1" || r.Version != 1 {
			t.Fatalf("got %+v at revision 2", r)
		}
		if r := get(t, s, "b", 0); r == nil || len(r.Value) != 0 {
			t.Fatalf("an empty value came back as %+v", r)
		}
		res, err := s.Delete(within(t), &DeleteRequest{Key: []byte("a"), End: []byte("c"), PrevKV: true})
		if err != nil || res.Deleted != 2 || len(res.Prev) != 2 || res.Revision != 5 {
			t.Fatalf("delete returns %+v, %v", res, err)
		}
		if r := get(t, s, "a", 0); r != nil {
			t.Fatalf("read after the delete: %+v", r)
		}
		if _, err := s.Range(within(t), &RangeRequest{Key: []byte("a"), Revision: 6}); !errors.Is(err,
			ErrFutureRevision) {
			t.Fatalf("read of a future revision: %v", err)
		}
	})
}

func TestTxnBranches(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		s := openStore(t, openSQLite(t), cfg)
		create := func(value string) *TxnResult {
			key := []byte("k")
			res, err := s.Txn(within(t), &Txn{
				Compare: []Compare{{Key: key, Target: CompareMod}},
				Success: []Op{{Put: &PutRequest{Key: key, Value: []byte(value)}}},
				Failure: []Op{{Range: &RangeRequest{Key: key}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		if res := create("1"); !res.Succeeded || res.Revision != 2 || res.Results[0].Put == nil {
			t.Fatalf("the first create returns %+v", res)
		}
		res := create("2")
		if res.Succeeded || res.Revision != 2 {
			t.Fatalf("the second create returns %+v", res)
		}
		if rows := res.Results[0].Range.Rows; len(rows) != 1 || string(rows[0].Value) != "1" {
			t.Fatalf("the second create found %+v", rows)
		}
	})
}

func TestWatchShowsChanges(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		s := openStore(t, openSQLite(t), cfg)
		put(t, s, "a", "1")
		st := s.NewWatchStream()
		defer st.Close()
		st.Watch(WatchRequest{Key: []byte("a"), PrevKV: true})
		st.Watch(WatchRequest{Key: []byte("a"), End: []byte("b"), StartRevision: 2})
		for id := range int64(2) {
			if r := next(t, st); !r.Created || r.ID != id {
				t.Fatalf("the watch was created as %+v", r)
			}
		}
		if r := next(t, st); r.ID != 1 || len(r.Events) != 1 || string(r.Events[0].Row.Value) != "1" {
			t.Fatalf("the past events arrived as %+v", r)
		}
		put(t, s, "a", "2")
		for range 2 {
			r := next(t, st)
			if len(r.Events) != 1 || r.Revision != 3 || string(r.Events[0].Row.Value) != "2" {
				t.Fatalf("the change arrived as %+v", r)
			}
			if prev := r.Events[0].Prev; r.ID == 0 && (prev == nil || string(prev.Value) != "1") {
				t.Fatalf("the superseded row arrived as %+v", prev)
			}
		}
		st.RequestProgress()
		if r := next(t, st); r.ID != -1 || r.Revision != 3 || r.Events != nil {
			t.Fatalf("progress arrived as %+v", r)
		}
		st.Cancel(0)
		if r := next(t, st); r.ID != 0 || !r.Canceled {
			t.Fatalf("the cancellation arrived as %+v", r)
		}
	})
}

func TestCompactHidesThePast(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		s := openStore(t, openSQLite(t), cfg)
		for _, v := range []string{"1", "2", "3"} {
			put(t, s, "a", v)
		}
		if rev, err := s.Compact(within(t), 3, true); err != nil || rev != 4 {
			t.Fatalf("compact returns %d, %v", rev, err)
		}
		if _, err := s.Range(within(t), &RangeRequest{Key: []byte("a"), Revision: 2}); !errors.Is(err, ErrCompacted) {
			t.Fatalf("read below the compacted revision: %v", err)
		}
		if r := get(t, s, "a", 3); r == nil || string(r.Value) != "2" {
			t.Fatalf("read at the compacted revision: %+v", r)
		}
		if _, err := s.Compact(within(t), 3, false); !errors.Is(err, ErrCompacted) {
			t.Fatalf("second compaction: %v", err)
		}
		if _, err := s.Compact(within(t), 5, false); !errors.Is(err, ErrFutureRevision) {
			t.Fatalf("compaction of a future revision: %v", err)
		}
		st := s.NewWatchStream()
		defer st.Close()
		st.Watch(WatchRequest{Key: []byte("a"), StartRevision: 2})
		if r := next(t, st); !r.Created {
			t.Fatalf("got %+v", r)
		}
		if r := next(t, st); !r.Canceled || r.CompactRevision != 3 || r.Revision != 0 {
			t.Fatalf("got %+v", r)
		}
	})
}

func TestRevokeDeletesTheKeys(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		s := openStore(t, openSQLite(t), cfg)
		l, err := s.LeaseGrant(within(t), 0, 60)
		if err != nil || l.Granted != time.Minute {
			t.Fatalf("granted %+v, %v", l, err)
		}
		for _, k := range []string{"b", "a"} {
			if _, err := s.Put(within(t), &PutRequest{Key: []byte(k), Lease: l.ID}); err != nil {
				t.Fatal(err)
			}
		}
		put(t, s, "b", "detached")
		if _, err := s.Put(within(t), &PutRequest{Key: []byte("c"), Lease: l.ID + 1}); !errors.Is(err,
			ErrLeaseNotFound) {
			t.Fatalf("put with an unknown lease: %v", err)
		}
		if _, keys, err := s.LeaseTimeToLive(within(t), l.ID, true); err != nil || len(keys) != 1 ||
			string(keys[0]) != "a" {
			t.Fatalf("the lease has keys %q, %v", keys, err)
		}
		if ttl, err := s.LeaseRenew(within(t), l.ID); err != nil || ttl != 60 {
			t.Fatalf("renewed for %d, %v", ttl, err)
		}
		if _, err := s.LeaseRevoke(within(t), l.ID); err != nil {
			t.Fatal(err)
		}
		if r := get(t, s, "a", 0); r != nil {
			t.Fatalf("a key outlives its lease: %+v", r)
		}
		if r := get(t, s, "b", 0); r == nil {
			t.Fatal("a key is gone with a lease that it had left")
		}
		if _, err := s.LeaseRevoke(within(t), l.ID); !errors.Is(err, ErrLeaseNotFound) {
			t.Fatalf("second revoke: %v", err)
		}
	})
}
