package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/sqlstore/sqlstore/internal/testing/semantics"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/load"
)

// TestCompaction makes kube-apiserver compact the store as usual, only sooner. A request for a compacted version is
// answered 410 Expired. A list in progress continues after the same key with the token of that answer, at the latest
// version, and a watch that is too old gets an ERROR event.
func TestCompaction(t *testing.T) {
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			store := cluster.StartStore(t)
			config := server.config
			config.Args = append(slices.Clone(config.Args), "--etcd-compaction-interval=5s")
			c := cluster.Start(t, store, config)
			o := newOvertaken(t, c)
			o.await(t)
			o.check(t)
			// The later events are still in a watch cache, but not in that of a kube-apiserver started afterwards.
			if c.WatchCache {
				c.Kill()
				c.Restart(t)
				o.check(t)
			}
			o.checkWatches(t)
		})
	}
}

// overtaken is a list in progress that a compaction overtakes.
type overtaken struct {
	*cluster.Cluster
	url   string          // of the collection
	first *semantics.Page // before the changes
	after []string        // the names after that page, after the changes
}

const overtakenLimit = 10

// newOvertaken reads the first page of a list, then changes what follows.
func newOvertaken(t *testing.T, c *cluster.Cluster) *overtaken {
	t.Helper()
	ctx := t.Context()
	names, err := load.MakeNamespaces(ctx, c.Clients, "compaction", 1)
	if err != nil {
		t.Fatal(err)
	}
	client := c.Dynamic.Resource(load.ConfigMaps.GroupVersionResource).Namespace(names[0])
	var behind []string
	for i := range 3 * overtakenLimit {
		name := fmt.Sprintf("name-%02d", i)
		create(t, client, names[0], name)
		if i >= overtakenLimit {
			behind = append(behind, name)
		}
	}
	o := &overtaken{Cluster: c, url: c.REST.Host + "/api/v1/namespaces/" + names[0] + "/configmaps"}
	o.first, err = o.list(ctx, "limit", strconv.Itoa(overtakenLimit))
	if err != nil {
		t.Fatal(err)
	}
	// In its first page, directly after it, and further down.
	for _, name := range []string{"name-03", "name-10", "name-25"} {
		if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"name-03-new", "name-09-new", "name-99"} {
		create(t, client, names[0], name)
	}
	o.after = slices.DeleteFunc(append(behind, "name-09-new", "name-99"), func(name string) bool {
		return name == "name-10" || name == "name-25"
	})
	slices.Sort(o.after)
	return o
}

func create(t *testing.T, client dynamic.ResourceInterface, namespace, name string) {
	t.Helper()
	if _, err := client.Create(t.Context(), load.ConfigMaps.New(namespace, name, ""),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// list lists the collection with options, as alternating names and values.
func (o *overtaken) list(ctx context.Context, options ...string) (*semantics.Page, error) {
	return semantics.GetList(ctx, o.HTTP, o.url, query(options...))
}

func query(options ...string) url.Values {
	q := url.Values{}
	for pair := range slices.Chunk(options, 2) {
		q.Set(pair[0], pair[1])
	}
	return q
}

// version is the version of the first page.
func (o *overtaken) version() string { return strconv.FormatInt(o.first.Revision, 10) }

// await waits until kube-apiserver has compacted the version of the first page, and has dropped its copy in memory,
// which it checks for every 15 s.
func (o *overtaken) await(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := o.list(ctx, "resourceVersion", o.version(), "resourceVersionMatch", "Exact")
		if err != nil {
			isExpired(t, "Exact", err)
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the version was not compacted")
		}
	}
}

// check requests compacted and available revisions.
func (o *overtaken) check(t *testing.T) {
	t.Helper()
	ctx, limit := t.Context(), strconv.Itoa(overtakenLimit)
	_, err := o.list(ctx, "resourceVersion", o.version(), "resourceVersionMatch", "Exact", "limit", limit)
	isExpired(t, "Exact with a limit", err)
	_, err = o.list(ctx, "resourceVersion", o.version(), "limit", limit)
	isExpired(t, "a version with a limit", err)
	for _, options := range [][]string{
		{"resourceVersion", o.version()},
		{"resourceVersion", o.version(), "resourceVersionMatch", "NotOlderThan", "limit", limit},
	} {
		page, err := o.list(ctx, options...)
		if err != nil {
			t.Errorf("list with %v: %v", options, err)
		} else if page.Revision <= o.first.Revision {
			t.Errorf("list with %v is at %d", options, page.Revision)
		}
	}

	_, err = o.list(ctx, "continue", o.first.Continue, "limit", limit)
	token := isExpired(t, "continue", err)
	if token == "" {
		t.Fatal("no token to continue with")
	}
	var got []string
	var version int64
	for token != "" {
		page, err := o.list(ctx, "continue", token, "limit", limit)
		if err != nil {
			t.Fatalf("continue inconsistently, after %v: %v", got, err)
		}
		if version == 0 && page.Revision <= o.first.Revision || version != 0 && page.Revision != version {
			t.Errorf("continued at %d, after %d at %d", page.Revision, len(got), max(version, o.first.Revision))
		}
		version = page.Revision
		for _, item := range page.Items {
			got = append(got, item.Name)
		}
		if page.Continue != "" && (page.Remaining == nil || *page.Remaining != int64(len(o.after)-len(got))) {
			t.Errorf("remainingItemCount %v with %d of %d", page.Remaining, len(got), len(o.after))
		}
		token = page.Continue
	}
	// ConfigMaps that kube-apiserver or a controller makes have other names.
	if got = slices.DeleteFunc(got, func(name string) bool { return name < "name-" }); !slices.Equal(got, o.after) {
		t.Errorf("continued with %v, want %v", got, o.after)
	}
}

// checkWatches watches from the compacted version.
func (o *overtaken) checkWatches(t *testing.T) {
	t.Helper()
	for _, options := range [][]string{
		{"resourceVersion", o.version()},
		{"resourceVersion", o.version(), "resourceVersionMatch", "NotOlderThan", "sendInitialEvents", "false"},
	} {
		q := query(options...)
		q.Set("watch", "true")
		stream, err := semantics.OpenWatch(t.Context(), o.HTTP, o.url+"?"+q.Encode())
		if err != nil {
			t.Fatalf("watch with %v: %v", options, err)
		}
		event, err := stream.Next()
		if err != nil || event.Type != "ERROR" {
			t.Fatalf("watch with %v: %+v, %v, want an ERROR", options, event, err)
		}
		isExpired(t, "watch", event.Failure)
		if event, err := stream.Next(); err == nil {
			t.Errorf("%+v after the ERROR", event)
		}
		stream.Close()
	}
}

// isExpired checks that the answer to a request reports a compacted version, and returns the token that the answer may
// have.
func isExpired(t *testing.T, what string, err error) (token string) {
	t.Helper()
	failure, ok := errors.AsType[*semantics.Failure](err)
	if !ok || failure.Code != http.StatusGone || failure.Status.Reason != string(metav1.StatusReasonExpired) {
		t.Fatalf("%s: %v, want 410 Expired", what, err)
	}
	t.Logf("%s: %v", what, failure)
	return failure.Continue
}
