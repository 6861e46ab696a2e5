package moves

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/kine"
	"github.com/sqlstore/sqlstore/test/moves/server"
)

// prefix is of all keys that the tests list. Old versions of kine list nothing but directories.
const prefix = "/registry/"

// lists are what kine lists at each revision from the compacted one on.
type lists struct {
	compacted, current int64
	at                 map[int64][]*mvccpb.KeyValue
	compact            *mvccpb.KeyValue // kube-apiserver's compact_rev_key
}

// record lists everything at every revision.
func record(t *testing.T, client *clientv3.Client, compacted int64) *lists {
	t.Helper()
	now := list(t, client, 0)
	l := &lists{compacted: compacted, current: now.Header.Revision, at: map[int64][]*mvccpb.KeyValue{}}
	for r := max(compacted, 1); r <= l.current; r++ {
		l.at[r] = list(t, client, r).Kvs
	}
	if resp, err := client.Get(t.Context(), "compact_rev_key"); err != nil {
		t.Fatal(err)
	} else if len(resp.Kvs) > 0 && resp.Kvs[0].Version > 0 { // old versions show their own row, without one
		l.compact = resp.Kvs[0]
	}
	if compacted > 1 {
		_, err := client.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithRev(compacted-1))
		if !errors.Is(err, rpctypes.ErrCompacted) {
			t.Fatalf("kine lists at %d, below the compacted revision: %v", compacted-1, err)
		}
	}
	return l
}

func list(t *testing.T, client *clientv3.Client, revision int64) *clientv3.GetResponse {
	t.Helper()
	resp, err := client.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithRev(revision))
	if err != nil {
		t.Fatalf("list at %d: %v", revision, err)
	}
	slices.SortFunc(resp.Kvs, func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) })
	return resp
}

// A source has what kine answers, at every revision, whatever clients did.
func TestSource(t *testing.T) {
	for _, d := range databases(t) {
		for _, v := range server.Versions {
			t.Run(d.name+"/"+v.Name, func(t *testing.T) {
				endpoint, url := d.create(t)
				k := v.Start(t, endpoint)
				h := newHistory(t, k.Client, v.Compacts)
				h.write(writes(t) / 2)
				if len(d.gap) > 0 {
					execute(t, d.open(t, endpoint), d.gap...)
				}
				h.write(writes(t) / 2)
				h.settle()
				want := record(t, k.Client, h.compacted)
				checkSource(t, url, want, h) // beside the running kine
				k.Stop(t)
				checkSource(t, url, want, h)
			})
		}
	}
}

// So it has after an upgrade of kine, whose versions delete keys with different rows.
func TestSourceAfterUpgrade(t *testing.T) {
	for _, d := range databases(t) {
		t.Run(d.name, func(t *testing.T) {
			endpoint, url := d.create(t)
			older, newer := server.Versions[len(server.Versions)-1], server.Versions[0]
			k := older.Start(t, endpoint)
			h := newHistory(t, k.Client, older.Compacts)
			h.write(writes(t) / 2)
			k.Stop(t)
			k = newer.Start(t, endpoint)
			h = h.fork(t, k.Client)
			h.compacts = newer.Compacts
			h.write(writes(t) / 2)
			h.settle()
			want := record(t, k.Client, h.compacted)
			k.Stop(t)
			checkSource(t, url, want, h)
		})
	}
}

func checkSource(t *testing.T, url string, want *lists, h *history) {
	t.Helper()
	s, err := kine.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if c := s.Contents(); c.Revision != want.current || c.Compacted != want.compacted || !c.Gaps {
		t.Errorf("the contents are %+v, want revision %d and compacted revision %d", c, want.current, want.compacted)
	}
	rows := all(t, s.Rows)
	if again := all(t, s.Rows); !slices.EqualFunc(rows, again, equal) {
		t.Error("the second call returns other rows")
	}
	h.checkVersions(rows)
	checkLists(t, rows, want)
	newest := all(t, s.Newest)
	slices.SortFunc(newest, func(a, b *backend.Row) int { return bytes.Compare(a.Key, b.Key) })
	newest = slices.DeleteFunc(newest, func(r *backend.Row) bool { return !bytes.HasPrefix(r.Key, []byte(prefix)) })
	compare(t, "now", newest, want.at[want.current])
	leases := map[int64]bool{}
	for _, l := range s.Contents().Leases {
		leases[l.ID] = true
		if l.TTL.Seconds() != float64(l.ID) {
			t.Errorf("lease %+v", l)
		}
	}
	for _, kv := range want.at[want.current] {
		if kv.Lease != 0 && !leases[kv.Lease] {
			t.Errorf("lease %d of %s is missing", kv.Lease, kv.Key)
		}
	}
}

// all collects rows.
func all(t *testing.T, rows func(context.Context, func(*backend.Row) error) error) (found []*backend.Row) {
	t.Helper()
	if err := rows(t.Context(), func(r *backend.Row) error {
		kept := *r
		found = append(found, &kept)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

func equal(a, b *backend.Row) bool { return fmt.Sprint(*a) == fmt.Sprint(*b) }

// checkLists replays rows and compares the state at each revision with what kine has listed.
func checkLists(t *testing.T, rows []*backend.Row, want *lists) {
	t.Helper()
	live := map[string]*backend.Row{}
	next := 0
	for revision := int64(1); revision <= want.current; revision++ {
		for ; next < len(rows) && rows[next].ModRevision == revision; next++ {
			r := rows[next]
			if r.Ordinal != 0 || r.PrevRevision != 0 {
				t.Errorf("revision %d: %+v", revision, r)
			}
			if r.Deleted {
				if live[string(r.Key)] == nil {
					t.Errorf("revision %d deletes %s, which does not exist", revision, r.Key)
				}
				delete(live, string(r.Key))
				continue
			}
			live[string(r.Key)] = r
		}
		if revision < want.compacted {
			continue
		}
		var got []*backend.Row
		for key, r := range live {
			if key != "compact_rev_key" {
				got = append(got, r)
			}
		}
		slices.SortFunc(got, func(a, b *backend.Row) int { return bytes.Compare(a.Key, b.Key) })
		compare(t, fmt.Sprint("at ", revision), got, want.at[revision])
	}
	if next < len(rows) {
		t.Errorf("%+v is out of order or too new", rows[next])
	}
	if got, kv := live["compact_rev_key"], want.compact; (got == nil) != (kv == nil) {
		t.Errorf("compact_rev_key is %+v, and kine has %v", got, kv)
	} else if kv != nil && (got.Version != kv.Version || !bytes.Equal(got.Value, kv.Value) ||
		got.ModRevision != kv.ModRevision) {
		t.Errorf("compact_rev_key is %+v, and kine has %v", got, kv)
	}
}

// compare compares rows, in the order of keys, with a list.
func compare(t *testing.T, when string, got []*backend.Row, want []*mvccpb.KeyValue) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d keys, and kine has %d", when, len(got), len(want))
	}
	for i, r := range got {
		kv := want[i]
		create := kv.CreateRevision
		if create == 0 { // an update of a deleted key, see package kine
			create = kv.ModRevision
		}
		if !bytes.Equal(r.Key, kv.Key) || !bytes.Equal(r.Value, kv.Value) || r.ModRevision != kv.ModRevision ||
			r.CreateRevision != create || r.Lease != kv.Lease || r.Deleted {
			t.Fatalf("%s: %+v, and kine has %v", when, r, kv)
		}
	}
}

// shown describes keys, except for their versions, which kine does not know.
func shown(kvs []*mvccpb.KeyValue) string {
	var b strings.Builder
	for _, kv := range kvs {
		fmt.Fprintf(&b, "%s@%d of %d lease %d = %x\n", kv.Key, kv.ModRevision, kv.CreateRevision, kv.Lease, kv.Value)
	}
	return b.String()
}
