package clients

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// Replicas have the same hash at each revision, also after a compaction: etcdctl finds them by their member list.
func TestHashesOfReplicas(t *testing.T) {
	const n = 3
	replicas := servers.Replicas(t, n, "--unsafe-no-fsync")
	for i := range 12 {
		ctl(t, replicas[i%n].Endpoint(), "", "put", fmt.Sprint("key-", i%5), fmt.Sprint(i)).must(t)
	}
	ctl(t, replicas[1].Endpoint(), "", "del", "key-3").must(t)
	hashes := func(revision int64) map[string]uint32 {
		t.Helper()
		var answers []struct {
			Endpoint string
			HashKV   struct {
				Hash     uint32
				Revision int64 `json:"hash_revision"`
			}
		}
		out := ctl(t, replicas[0].Endpoint(), "", "endpoint", "hashkv", "--cluster", "-w", "json", "--rev",
			fmt.Sprint(revision)).must(t)
		if err := json.Unmarshal([]byte(out), &answers); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		found := map[string]uint32{}
		for _, a := range answers {
			if a.HashKV.Hash == 0 || a.HashKV.Revision != revision {
				t.Errorf("revision %d: %s", revision, out)
			}
			found[a.Endpoint] = a.HashKV.Hash
		}
		if len(found) != n {
			t.Fatalf("hashes of %d replicas: %s", len(found), out)
		}
		return found
	}
	check := func(revision int64) (hash uint32) {
		t.Helper()
		found := hashes(revision)
		for _, hash = range found {
			break
		}
		for endpoint, other := range found {
			if other != hash {
				t.Errorf("revision %d: the hash of %s differs: %v", revision, endpoint, found)
			}
		}
		return hash
	}
	const last = 14
	if check(last) == check(last-1) {
		t.Error("the hash of another revision is the same")
	}
	ctl(t, replicas[2].Endpoint(), "", "compact", "10").must(t)
	check(last)
	check(last - 2)
}
