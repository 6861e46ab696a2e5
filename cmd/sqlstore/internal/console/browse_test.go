package console_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestBrowse(t *testing.T) {
	t.Parallel()
	s := serve(t)
	before := s.put(web, configMap(3))
	s.put("/registry/pods/default/a", "x")
	s.put("/registry/pods/default/b", "x")
	s.get("/browse").want(200, "3 keys", `href="/browse?prefix=%2Fregistry%2F"`)
	level := s.get("/browse?prefix=/registry/").want(200, "3 keys", "configmaps/", "pods/", "class=\"number\">2\n",
		`href="/browse?prefix=%2Fregistry%2Fpods%2F"`)
	level.without("/object?")
	s.get("/browse?prefix=/registry/pods/default/").want(200, `href="/object?key=%2Fregistry%2Fpods%2Fdefault%2Fa"`)
	s.get("/browse?prefix=/none/").want(200, "No key begins with this")
	s.get(fmt.Sprintf("/browse?prefix=/registry/&at=%d", before)).want(200, "1 key", "configmaps/",
		fmt.Sprint("as of revision ", before), "&amp;prefix=%2Fregistry%2Fconfigmaps%2F").without("pods/")
	s.get("/browse?prefix=/registry/&at=2100-01-01").want(200, "3 keys")
	s.get("/browse?at=yesterday").want(400, "no revision and no time")
	s.get("/browse?at=2000-01-01").want(410)
	s.get("/browse?at=1000000").want(504)
}

// A level of many entries comes in pages, all at the revision of the first one.
func TestBrowsePages(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var all []clientv3.Op
	for i := range 100 {
		all = append(all, clientv3.OpPut(fmt.Sprintf("a%03d", i), "x"), clientv3.OpPut(fmt.Sprintf("b%03d/x", i), "x"),
			clientv3.OpPut(fmt.Sprintf("c%03d", i), "x"))
	}
	for part := range slices.Chunk(all, 100) {
		if _, err := s.client.Txn(s.within()).Then(part...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	first := s.get("/browse").want(200, "300 keys", "a000", "b099/", "Next page")
	first.without("c000", "First page")
	s.put("a", "new")
	_, rest, _ := strings.Cut(first.body, `rel="next" href="`)
	next, _, _ := strings.Cut(rest, `"`)
	s.get(strings.ReplaceAll(next, "&amp;", "&")).want(200, "300 keys", "c000", "c099", "First page").without("b099/",
		"Next page")
}
