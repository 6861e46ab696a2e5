package apiserver_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/load"
)

// moveSpectators watch the ConfigMaps of a namespace while the store moves: an informer, and kubectl get --watch.
type moveSpectators struct {
	namespace string
	kubectl   string // its output: a name and a resource version for each change
	lists     *listCounter
	informer  cache.SharedIndexInformer

	mu       sync.Mutex
	versions map[string]int64 // by name, of the informer's objects
	back     []string         // changes with a lower resource version than the one before
}

// listCounter counts the lists that a client asks for, also those at the beginning of a watch.
type listCounter struct {
	http.RoundTripper

	lists atomic.Int64
}

func (l *listCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	if q := r.URL.Query(); q.Get("watch") != "true" || q.Get("sendInitialEvents") == "true" {
		l.lists.Add(1)
	}
	return l.RoundTripper.RoundTrip(r)
}

// watchMove starts to watch a namespace.
func watchMove(t *testing.T, c *cluster.Cluster, namespace string) *moveSpectators {
	t.Helper()
	m := &moveSpectators{namespace: namespace, lists: &listCounter{}, versions: map[string]int64{}}
	config := rest.CopyConfig(c.REST)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		m.lists.RoundTripper = next
		return m.lists
	})
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	m.informer = informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(namespace)).
		Core().V1().ConfigMaps().Informer()
	_, err = m.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { m.saw(object) },
		UpdateFunc: func(_, object any) { m.saw(object) },
		DeleteFunc: func(object any) { m.saw(object) },
	})
	if err != nil {
		t.Fatal(err)
	}
	go m.informer.Run(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), m.informer.HasSynced) {
		t.Fatal("the informer has not synced")
	}
	m.kubectl = c.WatchKubectl(t, "get", "configmaps", "--namespace", namespace, "--watch-only",
		"--output", `jsonpath={.metadata.name} {.metadata.resourceVersion}{"\n"}`)
	// The watch has begun once kubectl shows a change.
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			_, err := c.Clients.CoreV1().ConfigMaps(namespace).Create(ctx,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "began-"}}, metav1.CreateOptions{})
			return len(m.printed(t)) > 0, err
		})
	if err != nil {
		t.Fatal(err)
	}
	// Those are not the load's.
	err = c.Clients.CoreV1().ConfigMaps(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// saw notes a change that the informer has seen.
func (m *moveSpectators) saw(object any) {
	o, ok := object.(metav1.Object)
	if !ok {
		return // a deletion that a list has shown, which the count of lists reports
	}
	version, _ := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	m.mu.Lock()
	defer m.mu.Unlock()
	if version <= m.versions[o.GetName()] {
		m.back = append(m.back, fmt.Sprintf("%s: %d after %d", o.GetName(), version, m.versions[o.GetName()]))
	}
	m.versions[o.GetName()] = version
}

// printed returns the lines of kubectl, a name and a resource version in each.
func (m *moveSpectators) printed(t *testing.T) (lines []string) {
	t.Helper()
	out, err := os.ReadFile(m.kubectl)
	if err != nil {
		t.Fatal(err)
	}
	whole, _, _ := cutLast(string(out), "\n")
	return strings.Fields(strings.ReplaceAll(whole, " ", "@"))
}

// cutLast cuts around the last separator.
func cutLast(s, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(s, separator); i >= 0 {
		return s[:i], s[i+len(separator):], true
	}
	return "", s, false
}

// check compares what the spectators have seen with what the load's watches have.
func (m *moveSpectators) check(t *testing.T, result load.Result) {
	t.Helper()
	var want []string
	newest := map[string]int64{}
	for key, changes := range result.Truth {
		if key.Resource != load.ConfigMaps.Resource || key.Namespace != m.namespace {
			continue
		}
		for _, c := range changes {
			want = append(want, fmt.Sprintf("%s@%d", key.Name, c.Version))
			newest[key.Name] = max(newest[key.Name], c.Version)
		}
	}
	slices.Sort(want)
	var missing []string
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			seen := m.printed(t)
			slices.Sort(seen)
			missing = slices.DeleteFunc(slices.Clone(want), func(line string) bool {
				_, ok := slices.BinarySearch(seen, line)
				return ok
			})
			return len(missing) == 0 && m.holds(newest), nil
		})
	if err != nil {
		t.Errorf("kubectl has not shown %q of %d changes; the informer holds the newest: %v", missing, len(want),
			m.holds(newest))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if lists := m.lists.lists.Load(); lists != 1 || len(m.back) > 0 {
		t.Errorf("the informer has listed %d times, and saw resource versions go back: %q", lists, m.back)
	}
	t.Logf("kubectl and an informer have seen %d changes of %d objects", len(want), len(newest))
}

// holds reports whether the informer has seen the newest version of all objects.
func (m *moveSpectators) holds(newest map[string]int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := maps.Clone(m.versions)
	maps.DeleteFunc(seen, func(name string, version int64) bool { return newest[name] != version })
	return len(seen) == len(newest)
}
