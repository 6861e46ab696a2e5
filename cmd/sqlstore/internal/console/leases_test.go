package console_test

import (
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// grant grants a lease, attaches keys to it, and returns its id as pages show it.
func (s *served) grant(ttl int64, keys ...string) (string, clientv3.LeaseID) {
	s.t.Helper()
	lease, err := s.client.Grant(s.within(), ttl)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, key := range keys {
		if _, err := s.client.Put(s.within(), key, "x", clientv3.WithLease(lease.ID)); err != nil {
			s.t.Fatal(err)
		}
	}
	return fmt.Sprintf("%016x", int64(lease.ID)), lease.ID
}

func TestLeases(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.get("/leases").want(200, "There are no leases").without("<table")
	for ttl, want := range map[int64]string{
		50: "50 s", 90: "1 min 30 s", 3600: "1 h", 3 * 86400: "3 d", 86400 + 3600: "1 d 1 h", 3661: "1 h 1 min",
	} {
		id, _ := s.grant(ttl)
		s.get("/lease?id="+id).want(200, "Lease "+id, "granted for "+want+";", "0 keys").without("<table")
	}
	const hostile = "a\xff</td><script>\u202e"
	id, lease := s.grant(5000, "k", hostile)
	s.get("/leases").want(200, "7 leases", `href="/lease?id=`+id+`"`, "1 h 23 min", "<td class=\"number\">2<",
		"/static/leases.js").without("Next page")
	s.get("/leases?at=1").want(200, "7 leases").without("as of")
	s.get("/lease?id="+id).want(200, "Expires in <span data-left=\"", "granted for 1 h 23 min; 2 keys",
		`href="/object?key=k"`, `href="/object?key=a%FF%3C%2Ftd`, `a\xff&lt;/td&gt;&lt;script&gt;\u202e`).without(
		"<script>\u202e", "not shown")
	s.get("/static/leases.js").want(200, "data-left")
	line := `Lease <a href="/lease?id=` + id + `">` + id + `</a>`
	s.get("/object?key=k").want(200, line+", expires in <span data-left=\"", "/static/leases.js")
	first := s.put("k", "y")
	s.get("/object?key=k").want(200, "the newest").without(line)
	s.get(fmt.Sprintf("/object?key=k&at=%d", first-1)).want(200, line).without("expires in")
	if _, err := s.client.Put(s.within(), "k", "y", clientv3.WithLease(lease)); err != nil {
		t.Fatal(err)
	}
	s.get("/object?key=k").want(200, "lease - → "+id)
	if _, err := s.client.Revoke(s.within(), lease); err != nil {
		t.Fatal(err)
	}
	s.get("/lease?id="+id).want(404, "not found")
	s.get(fmt.Sprintf("/object?key=k&at=%d", first+1)).want(200, line).without("expires in")
	s.get("/lease").want(400, "names no lease")
	for _, id := range []string{"x", "..", "1%2F..%2F2", "%00", strings.Repeat("f", 17)} {
		s.get("/lease?id=" + id).want(400)
	}
	s.get("/leases?continue=x").want(400, "continue token")
}

// Many leases come in pages, and of many keys a page shows the first ones.
func TestManyLeases(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for range 201 {
		s.grant(3600)
	}
	first := s.get("/leases").want(200, "201 leases", "Next page")
	if n := strings.Count(first.body, "/lease?id="); n != 200 {
		t.Errorf("%d leases on the first page", n)
	}
	_, rest, _ := strings.Cut(first.body, `rel="next" href="`)
	next, _, _ := strings.Cut(rest, `"`)
	last := s.get(next).want(200, "First page", "/lease?id=")
	if last.without("Next page", "201 leases"); strings.Count(last.body, "/lease?id=") != 1 {
		t.Errorf("the second page: %s", last.body)
	}
	var keys []string
	for i := range 501 {
		keys = append(keys, fmt.Sprintf("%03d", i))
	}
	id, _ := s.grant(3600, keys...)
	s.get("/lease?id="+id).want(200, "501 keys", "?key=499", "More keys are not shown").without("?key=500")
}

// Alarms are shown with what to do about them.
func TestAlarms(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.get("/alarms").want(200, "No alarm is raised")
	s.raise(10, 1)
	s.raise(10, 2)
	s.raise(11, 7)
	s.get("/alarms").want(200, "NOSPACE", "SqlstoreNoSpace", "CORRUPT", "SqlstoreCorrupt", "<td>b<",
		"etcdctl alarm disarm")
}
