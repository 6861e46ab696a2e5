package apiserver_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/load"
)

// TestEventStore gives Events a separate store with the flags of docs/kubernetes.md, as large clusters do. Events exist
// and expire only there, and an outage of that store affects nothing else.
func TestEventStore(t *testing.T) {
	flags := pages.Own(t, "kube-apiserver")
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			main, events := cluster.StartStore(t), cluster.StartStore(t)
			config := server.config
			config.Args = slices.Concat(config.Args, pages.Replace(t, flags,
				"http://127.0.0.1:2379", main.ClientURL(),
				// Semicolons separate the servers of one store here.
				"http://127.0.0.1:2479", strings.ReplaceAll(events.ClientURL(), ",", ";")))
			c := cluster.Start(t, nil, config)
			testEventsExpire(t, c)
			if n := countKeys(t, events, "/registry/configmaps/"); n > 0 {
				t.Errorf("%d ConfigMaps in the store of the Events", n)
			}

			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			names, err := load.MakeNamespaces(ctx, c.Clients, "own-store", 1)
			if err != nil {
				t.Fatal(err)
			}
			create := func(name string) error {
				_, err := c.Clients.CoreV1().Events(names[0]).Create(ctx, &corev1.Event{
					ObjectMeta:     metav1.ObjectMeta{Name: name},
					InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: names[0], Name: "pod"},
				}, metav1.CreateOptions{})
				return err
			}
			if err := create("before"); err != nil {
				t.Fatal(err)
			}
			if inMain, inOwn := countKeys(t, main, "/registry/events/"),
				countKeys(t, events, "/registry/events/"); inMain > 0 || inOwn == 0 {
				t.Errorf("%d Events in the main store, %d in their own", inMain, inOwn)
			}

			events.Kill()
			if !events.Replicated() { // entirely down: kube-apiserver reports that it is not ready, and yet
				if err := c.Await(ctx, false); err != nil {
					t.Error(err)
				}
			}
			if _, err := c.Clients.CoreV1().ConfigMaps(names[0]).Create(ctx, labelled("meanwhile", "fresh"),
				metav1.CreateOptions{}); err != nil {
				t.Errorf("a write to the main store while the Events' store is down: %v", err)
			}
			events.Restart(t)
			if err := until(ctx, func(context.Context) (bool, error) {
				return create("after") == nil,
					nil
			}); err != nil {
				t.Errorf("no Event can be written after the restart of their store: %v", err)
			}
			if err := c.Await(ctx, true); err != nil {
				t.Error(err)
			}
		})
	}
}

// countKeys counts the keys with the prefix in the store itself, over JSON.
func countKeys(t *testing.T, store cluster.Store, prefix string) int {
	t.Helper()
	end := prefix[:len(prefix)-1] + string(prefix[len(prefix)-1]+1)
	body := fmt.Sprintf(`{"key":%q,"range_end":%q,"count_only":true}`,
		base64.StdEncoding.EncodeToString([]byte(prefix)), base64.StdEncoding.EncodeToString([]byte(end)))
	url, _, _ := strings.Cut(store.ClientURL(), ",")
	resp, err := http.Post(url+"/v3/kv/range", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Count int `json:"count,string"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %v", url, resp.Status, err)
	}
	return answer.Count
}
