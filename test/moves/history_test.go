package moves

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/env"
)

// writes is the length of a random history.
func writes(t *testing.T) int { return env.Length.Count(t, 300) }

// history writes to kine what its clients can write, at random.
type history struct {
	t        *testing.T
	client   *clientv3.Client
	random   *rand.Rand
	compacts bool
	leases   []clientv3.LeaseID
	ttl      map[int64]int64 // of leases

	compacted int64
	mod       map[string]int64 // the revision of a key's last write, which may be its deletion
	deleted   map[string]bool
	version   map[string]int64
	versions  map[int64]int64 // of the row of each revision
	apiserver int64           // version of compact_rev_key
}

func newHistory(t *testing.T, client *clientv3.Client, compacts bool) *history {
	seed := env.Seed.Uint(t, uint64(time.Now().UnixNano()))
	t.Logf("SQLSTORE_TEST_SEED=%d", seed)
	h := &history{
		t: t, client: client, random: rand.New(rand.NewPCG(seed, 0)), compacts: compacts, mod: map[string]int64{},
		deleted: map[string]bool{}, ttl: map[int64]int64{}, version: map[string]int64{}, versions: map[int64]int64{},
	}
	h.grant()
	return h
}

// grant makes leases that last longer than the test.
func (h *history) grant() {
	h.leases = nil
	for _, ttl := range []int64{3600, 7200, 100_000} {
		lease, err := h.client.Grant(h.t.Context(), ttl)
		if err != nil {
			h.t.Fatal(err)
		}
		h.leases = append(h.leases, lease.ID)
		h.ttl[int64(lease.ID)] = ttl
	}
}

func (h *history) write(n int) {
	for range n {
		dir := []string{"pods/default", "leases/kube-system", "things"}[h.random.IntN(3)]
		h.one(fmt.Sprintf("%s%s/item-%d", prefix, dir, h.random.IntN(12)))
	}
}

// one writes to a key, or compacts.
func (h *history) one(key string) {
	exists := h.mod[key] != 0 && !h.deleted[key]
	switch kind := h.random.IntN(100); {
	case kind < 3 && h.compacts:
		h.compact()
	case kind < 6 && h.compacts:
		h.bump()
	case kind < 12:
		h.put(key)
	case kind < 15: // unconditional, and it leaves a tombstone even where there is no key
		h.removeAny(key)
	case h.deleted[key] && kind < 50 && h.compacts:
		h.revive(key)
	case !exists:
		h.create(key)
	case kind < 75:
		h.update(key)
	case kind < 80: // of a version that is not the newest
		h.commit(key, false, clientv3.Compare(clientv3.ModRevision(key), "=", h.mod[key]+1000), h.value(key))
	default:
		h.remove(key)
	}
}

func (h *history) value(key string) clientv3.Op {
	b := make([]byte, h.random.IntN(400))
	for i := range b {
		b[i] = byte(h.random.Uint32())
	}
	var options []clientv3.OpOption
	if h.random.IntN(4) == 0 {
		options = append(options, clientv3.WithLease(h.leases[h.random.IntN(len(h.leases))]))
	}
	return clientv3.OpPut(key, string(b), options...)
}

// commit runs a transaction in the form that kube-apiserver uses.
func (h *history) commit(key string, want bool, compare clientv3.Cmp, then clientv3.Op) int64 {
	resp, err := h.client.Txn(h.t.Context()).If(compare).Then(then).Else(clientv3.OpGet(key)).Commit()
	if err != nil || resp.Succeeded != want {
		h.t.Fatalf("%v of %s: %v, %v", compare, key, resp, err)
	}
	return resp.Header.Revision
}

func (h *history) wrote(key string, revision int64) {
	if h.mod[key] == 0 || h.deleted[key] {
		h.version[key] = 0
	}
	h.version[key]++
	h.mod[key], h.deleted[key] = revision, false
	h.versions[revision] = h.version[key]
}

func (h *history) create(key string) {
	resp, err := h.client.Txn(h.t.Context()).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).
		Then(h.value(key)).Commit()
	if err != nil || !resp.Succeeded {
		h.t.Fatalf("create %s: %v, %v", key, resp, err)
	}
	h.wrote(key, resp.Header.Revision)
}

func (h *history) put(key string) {
	if !h.compacts { // old versions refuse puts
		return
	}
	op := h.value(key)
	resp, err := h.client.Do(h.t.Context(), op)
	for errors.Is(err, rpctypes.ErrCompacted) { // kine reads the key first, sometimes at a revision just compacted
		resp, err = h.client.Do(h.t.Context(), op)
	}
	if err != nil {
		h.t.Fatalf("put %s: %v", key, err)
	}
	h.wrote(key, resp.Put().Header.Revision)
}

func (h *history) update(key string) {
	h.wrote(key, h.commit(key, true, clientv3.Compare(clientv3.ModRevision(key), "=", h.mod[key]), h.value(key)))
}

func (h *history) remove(key string) {
	h.mod[key] = h.commit(key, true, clientv3.Compare(clientv3.ModRevision(key), "=", h.mod[key]),
		clientv3.OpDelete(key))
	h.deleted[key] = true
}

// removeAny deletes a key whatever its version is, which kine does only for keys that do not exist.
func (h *history) removeAny(key string) {
	if _, err := h.client.Txn(h.t.Context()).Then(clientv3.OpGet(key), clientv3.OpDelete(key)).Commit(); err != nil {
		h.t.Fatalf("delete %s: %v", key, err)
	}
	resp, err := h.client.Get(h.t.Context(), key)
	if err != nil {
		h.t.Fatal(err)
	}
	if len(resp.Kvs) == 0 && h.mod[key] != 0 {
		h.deleted[key] = true
	}
}

// revive updates or deletes a deleted key at the revision of its deletion, which kine allows until it is compacted.
func (h *history) revive(key string) {
	op := clientv3.OpDelete(key)
	if h.random.IntN(2) == 0 {
		op = h.value(key)
	}
	resp, err := h.client.Txn(h.t.Context()).If(clientv3.Compare(clientv3.ModRevision(key), "=", h.mod[key])).
		Then(op).Else(clientv3.OpGet(key)).Commit()
	switch {
	case err != nil:
		h.t.Fatalf("revive %s: %v", key, err)
	case resp.Succeeded && op.IsPut():
		h.wrote(key, resp.Header.Revision)
	case resp.Succeeded:
		h.mod[key] = resp.Header.Revision
	}
}

// bump writes compact_rev_key, as kube-apiserver does after a compaction.
func (h *history) bump() {
	key := "compact_rev_key"
	resp, err := h.client.Txn(h.t.Context()).If(clientv3.Compare(clientv3.Version(key), "=", h.apiserver)).
		Then(clientv3.OpPut(key, fmt.Sprint(h.compacted))).Else(clientv3.OpGet(key)).Commit()
	if err != nil || !resp.Succeeded {
		h.t.Fatalf("write %s: %v, %v", key, resp, err)
	}
	h.apiserver++
	h.wrote(key, resp.Header.Revision)
}

// compact compacts up to a revision of the last hundred.
func (h *history) compact() {
	resp, err := h.client.Get(h.t.Context(), prefix+"health")
	if err != nil {
		h.t.Fatal(err)
	}
	revision := resp.Header.Revision - h.random.Int64N(100)
	if revision <= h.compacted {
		return
	}
	if _, err := h.client.Compact(h.t.Context(), revision); err != nil {
		h.t.Fatalf("compact to %d: %v", revision, err)
	}
	h.compacted = revision
}

// settle ends with a write, so that the newest row is one that compaction keeps.
func (h *history) settle() {
	key := prefix + "last"
	if h.mod[key] == 0 {
		h.create(key)
	}
}

// checkVersions compares the versions of rows with those that were written.
func (h *history) checkVersions(rows []*backend.Row) {
	h.t.Helper()
	last := map[string]*backend.Row{}
	for _, r := range rows {
		before := last[string(r.Key)]
		last[string(r.Key)] = r
		if r.Deleted {
			delete(last, string(r.Key))
			continue
		}
		want := h.versions[r.ModRevision]
		switch {
		case want == 0 && r.ModRevision > 10: // kine's own rows
			h.t.Errorf("nobody wrote %+v", r)
		case want == 0:
		case before != nil && r.Version != before.Version+1,
			(r.Version == 1) != (r.CreateRevision == r.ModRevision), r.Version < 1, r.Version > want,
			r.ModRevision > h.compacted && before == nil && r.Version != 1:
			h.t.Errorf("revision %d of %s has version %d, after %v, and was written as %d", r.ModRevision, r.Key,
				r.Version, before, want)
		}
	}
}

// fork returns a history that goes on with another server of the same store.
func (h *history) fork(t *testing.T, client *clientv3.Client) *history {
	f := *h
	f.t, f.client, f.ttl = t, client, map[int64]int64{}
	f.mod, f.deleted, f.version, f.versions = maps.Clone(h.mod), maps.Clone(h.deleted), maps.Clone(h.version),
		maps.Clone(h.versions)
	f.grant()
	return &f
}
