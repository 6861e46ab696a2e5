package restapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/restapi"
	"github.com/sqlstore/sqlstore/internal/store"
)

// leaseJSON is a lease, alone or in a list, as clients see it.
type leaseJSON struct {
	Kind, APIVersion, ID string

	Metadata                       struct{ ResourceVersion string }
	GrantedTTL, RemainingTTL, Keys int64
	AttachedKeys                   []struct{ Key, KeyBase64 string }
}

// chunkJSON is a chunk of leases, users or roles as clients see it.
type chunkJSON[T any] struct {
	Kind, APIVersion string

	Metadata struct {
		ResourceVersion, Continue string
		RemainingItemCount        int
	}
	Items []T
}

// listOf requests all chunks of a list, and returns what name makes of the items.
func listOf[T any](s *served, path string, limit int, name func(T) string, headers ...string) string {
	s.t.Helper()
	var all []string
	for token, rest := "", -1; ; {
		var l chunkJSON[T]
		s.do("GET", fmt.Sprintf("%s?limit=%d&continue=%s", path, limit, token), "", headers...).want(200, "").decode(&l)
		if !strings.HasSuffix(l.Kind, "List") || l.APIVersion != "sqlstore/v1" || l.Items == nil ||
			limit > 0 && len(l.Items) > limit || rest >= 0 && rest != len(l.Items)+l.Metadata.RemainingItemCount {
			s.t.Fatalf("%s: %+v", path, l)
		}
		for _, item := range l.Items {
			all = append(all, name(item))
		}
		if token, rest = l.Metadata.Continue, l.Metadata.RemainingItemCount; token == "" {
			return strings.Join(all, " ")
		}
	}
}

// grant grants a lease and attaches keys to it.
func (s *served) grant(id int64, ttl time.Duration, keys ...string) {
	s.t.Helper()
	if _, err := s.store.LeaseGrant(s.t.Context(), id, int64(ttl/time.Second)); err != nil {
		s.t.Fatal(err)
	}
	for _, key := range keys {
		s.attach(key, id)
	}
}

func (s *served) attach(key string, lease int64) {
	s.t.Helper()
	if _, err := s.store.Put(s.t.Context(), &store.PutRequest{
		Key: []byte(key), Value: []byte("1"), Lease: lease,
	}); err != nil {
		s.t.Fatal(err)
	}
}

func TestLeases(t *testing.T) {
	t.Parallel()
	for _, disabled := range []bool{false, true} {
		leases(t, serveOver(t, openSQLite(t), restapi.Options{}, store.Config{DisableIndex: disabled}, false))
	}
}

func leases(t *testing.T, s *served) {
	s.grant(0x694d80a1b2c3d4e5, time.Hour, "b", "a/\xff", "a/1") // at 2 to 4
	s.grant(16, 2*time.Hour)
	s.grant(-1, time.Hour, "c")
	name := func(l leaseJSON) string { return fmt.Sprintf("%s:%d:%d", l.ID, l.GrantedTTL, l.Keys) }
	const want = "-000000000000001:3600:1 0000000000000010:7200:0 694d80a1b2c3d4e5:3600:3"
	for _, limit := range []int{0, 1, 2, 3} {
		if got := listOf(s, "/v1/leases", limit, name); got != want {
			t.Errorf("limit %d: %s", limit, got)
		}
	}
	for _, id := range []string{"694d80a1b2c3d4e5", "694D80A1B2C3D4E5", "000694d80a1b2c3d4e5"} {
		var l leaseJSON
		s.do("GET", "/v1/leases/"+id, "").want(200, "").decode(&l)
		if l.Kind != "Lease" || l.ID != "694d80a1b2c3d4e5" || l.GrantedTTL != 3600 || l.RemainingTTL > 3600 ||
			l.RemainingTTL < 1800 || l.Keys != 3 || l.Metadata.ResourceVersion != "5" {
			t.Errorf("%s: %+v", id, l)
		}
		if k := l.AttachedKeys; len(k) != 3 || k[0].Key != "a/1" || k[0].KeyBase64 != "" || k[1].Key != "a/\uFFFD" ||
			k[1].KeyBase64 != "YS//" || k[2].Key != "b" {
			t.Errorf("%s: %+v", id, k)
		}
	}
	for query, want := range map[string]bool{"": true, "keys": true, "keys=true": true, "keys=false": false} {
		if r := s.do("GET", "/v1/leases/-1?"+query, "").want(200, ""); strings.Contains(r.body, `eys":`) != want {
			t.Errorf("%q: %s", query, r.body)
		}
	}
	s.do("GET", "/v1/leases/-1?keys=no", "").want(400, "BadRequest")
	s.do("HEAD", "/v1/leases", "").want(200, "")
	if st := s.do("GET", "/v1/leases/11", "").want(404, "NotFound").status(); st.Details.Name != "0000000000000011" {
		t.Errorf("%+v", st)
	}
	for _, path := range []string{
		"/v1/leases/x", "/v1/leases/0x10", "/v1/leases/10000000000000000", "/v1/leases/10%2F", "/v1/leases/%2e%2e",
	} {
		s.do("GET", path, "").want(400, "BadRequest")
	}
	s.do("GET", "/v1/leases/", "").want(404, "NotFound")
	for _, query := range []string{
		"watch=true", "resourceVersion=4", "resourceVersionMatch=Exact", "sendInitialEvents=true", "history=true",
		"at=2100-01-01T00:00:00Z", "limit=-1", "continue=*", "continue=eA", "labelSelector=x",
	} {
		s.do("GET", "/v1/leases?"+query, "").want(400, "BadRequest")
	}
	s.do("GET", "/v1/leases/10?watch=true", "").want(400, "BadRequest")
	s.do("GET", "/v1/leases?resourceVersion=0", "").want(200, "")
	s.do("GET", "/v1/leases", "", `If-None-Match: "5"`).want(400, "BadRequest")
	for _, method := range []string{"PUT", "POST", "DELETE"} {
		s.do(method, "/v1/leases/10", "").want(405, "MethodNotAllowed")
	}
}

// The keys in an answer are bounded by their number and their size.
func TestLeaseOfManyKeys(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	var keys []string
	for i := range 510 {
		keys = append(keys, fmt.Sprintf("%03d", i))
	}
	s.grant(1, time.Hour, keys...)
	s.grant(2, time.Hour, strings.Repeat("a", 1<<17), strings.Repeat("b", 1<<17), strings.Repeat("c", 1<<17))
	for id, want := range map[string]int{"1": 500, "2": 2} {
		var l leaseJSON
		s.do("GET", "/v1/leases/"+id, "").want(200, "").decode(&l)
		if len(l.AttachedKeys) != want || l.Keys != map[string]int64{"1": 510, "2": 3}[id] {
			t.Errorf("%s: %d keys of %d", id, len(l.AttachedKeys), l.Keys)
		}
	}
	loading := serveOver(t, openSQLite(t), restapi.Options{}, store.Config{DisableIndex: true, TxnRows: 2}, false)
	loading.grant(1, time.Hour, "a", "b", "c")
	for _, path := range []string{"/v1/leases", "/v1/leases/1"} {
		loading.do("GET", path, "").want(503, "ServiceUnavailable")
	}
}

// The metadata of an object names its lease wherever it appears.
func TestObjectsNameTheirLease(t *testing.T) {
	t.Parallel()
	for _, disabled := range []bool{false, true} {
		s := serveOver(t, openSQLite(t), restapi.Options{}, store.Config{DisableIndex: disabled}, false)
		objectsNameTheirLease(t, s)
	}
}

func objectsNameTheirLease(t *testing.T, s *served) {
	s.grant(16, time.Hour, "p/k") // at 2
	const lease = `"lease":"0000000000000010"`
	for _, path := range []string{"objects/p/k", "objects/p/", "tree/p/", "objects/p/k?history=true"} {
		if r := s.do("GET", "/v1/"+path, "").want(200, ""); strings.Count(r.body, lease) != 1 {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	w := s.watch("/v1/objects/p/?watch=true")
	leases := func(want ...string) {
		t.Helper()
		for _, typ := range want {
			typ, lease, _ := strings.Cut(typ, " ")
			e, err := w.next()
			if err != nil || e.Type != typ || e.item(t).Metadata.Lease != lease {
				t.Errorf("%s with the lease %q, %v; want %s", e, e.item(t).Metadata.Lease, err, typ)
			}
		}
	}
	updated := s.do("PUT", "/v1/objects/p/k?resourceVersion=2", `{"metadata":{"lease":"x"},"value":2}`, jsonType)
	if got := updated.want(200, "").item().Metadata.Lease; got != "0000000000000010" {
		t.Errorf("an update says that the lease is %q", got)
	}
	s.remove("p/k")
	s.write("p/k", "1")
	s.attach("p/k", 16)
	s.attach("p/k", 0)
	leases("ADDED 0000000000000010", "MODIFIED 0000000000000010", "DELETED 0000000000000010", "ADDED",
		"MODIFIED 0000000000000010", "MODIFIED")
	if r := s.do("GET", "/v1/objects/p/k", "").want(200, ""); strings.Contains(r.body, "lease") {
		t.Errorf("without a lease: %s", r.body)
	}
}
