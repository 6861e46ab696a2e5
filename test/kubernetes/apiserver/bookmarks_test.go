package apiserver_test

import (
	"errors"
	"io"
	"strconv"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/semantics"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/load"
)

// testBookmarks watches until kube-apiserver ends the stream. From its watch cache it sends a bookmark shortly before,
// if the version has advanced; without a watch cache it sends none. The next watch continues after the last event or
// bookmark. The loads do the same while objects are being written.
func testBookmarks(t *testing.T, c *cluster.Cluster) {
	names, err := load.MakeNamespaces(t.Context(), c.Clients, "bookmarks", 2)
	if err != nil {
		t.Fatal(err)
	}
	url := c.REST.Host + "/api/v1/namespaces/" + names[0] + "/configmaps"
	list, err := semantics.GetList(t.Context(), c.HTTP, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	createIn := func(namespace, name string) {
		create(t, c.Dynamic.Resource(load.ConfigMaps.GroupVersionResource).Namespace(namespace), namespace, name)
	}
	watch := func(from int64) *semantics.Stream {
		q := query("watch", "true", "allowWatchBookmarks", "true", "timeoutSeconds", "5", "resourceVersion",
			strconv.FormatInt(from, 10))
		stream, err := semantics.OpenWatch(t.Context(), c.HTTP, url+"?"+q.Encode())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stream.Close() })
		return stream
	}

	createIn(names[0], "first")
	last, events, bookmarks := list.Revision, 0, 0
	for stream := watch(last); ; {
		event, err := stream.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case event.Type == "BOOKMARK" && !event.End && event.Revision >= last:
			bookmarks++
		case event.Type == "ADDED" && event.Name == "first" && event.Revision > last:
			events++
			createIn(names[1], "elsewhere") // not watched, but moves the version
		default:
			t.Fatalf("%+v after %d", event, last)
		}
		last = event.Revision
	}
	if events != 1 || (bookmarks > 0) != c.WatchCache {
		t.Errorf("%d events and %d bookmarks", events, bookmarks)
	}
	createIn(names[0], "second")
	if event, err := watch(last).Next(); err != nil || event.Type != "ADDED" || event.Name != "second" {
		t.Errorf("after %d: %+v, %v", last, event, err)
	}
}
