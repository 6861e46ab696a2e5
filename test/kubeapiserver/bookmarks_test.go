package kubeapiserver_test

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"testing"

	"github.com/sqlstore/sqlstore/test/kubeapiserver/cluster"
	"github.com/sqlstore/sqlstore/test/kubeapiserver/load"
	"github.com/sqlstore/sqlstore/test/semantics"
)

// testBookmarks watches until kube-apiserver ends the stream. From its watch cache it sends a bookmark
// shortly before; without one it sends none. The next watch goes on behind the last event or bookmark.
// The loads do the same while objects are being written.
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
	last := list.Revision
	for turn := range 2 {
		want := fmt.Sprintf("object-%d", turn)
		for _, namespace := range names { // the other's is not watched, but moves the version
			create(t, c.Dynamic.Resource(load.ConfigMaps.GroupVersionResource).Namespace(namespace), namespace, want)
		}
		q := query("watch", "true", "allowWatchBookmarks", "true", "timeoutSeconds", "5", "resourceVersion", strconv.FormatInt(last, 10))
		stream, err := semantics.OpenWatch(t.Context(), c.HTTP, url+"?"+q.Encode())
		if err != nil {
			t.Fatal(err)
		}
		events, bookmarks := 0, 0
		for {
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
			case event.Type == "ADDED" && event.Name == want && event.Revision > last:
				events++
			default:
				t.Fatalf("%+v after %d", event, last)
			}
			last = event.Revision
		}
		stream.Close()
		if events != 1 || (bookmarks > 0) != c.WatchCache {
			t.Errorf("watch %d had %d events and %d bookmarks", turn, events, bookmarks)
		}
	}
}
