package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/load"
)

// journey is a namespace whose store goes back in time, and those who follow it. The names of its objects, of both
// kinds, say what happens to them: "stays" is as it was, "changed" and "deleted" are so after the point in time, "lost"
// exists only after it, "new" is written after the restore, and so are many that begin with "later". The ReplicaSet
// "web" has 1 Pod at the point, 3 after it, and wants 2 after the restore.
type journey struct {
	*timeMachine

	namespace string
	followers []*follower
	point     int64 // the revision to restore
	seen      int64 // a later one
	later     int   // how many are written
}

// followed are the kinds with informers.
var followed = []load.Kind{load.ConfigMaps, load.Pods}

// depart writes objects, the point, and changes that every informer sees.
func (m *timeMachine) depart(t *testing.T, name string) *journey {
	t.Helper()
	names, err := load.MakeNamespaces(t.Context(), m.direct.Clients, name, 1)
	if err != nil {
		t.Fatal(err)
	}
	j := &journey{timeMachine: m, namespace: names[0]}
	for _, c := range m.clusters {
		for _, kind := range followed {
			j.followers = append(j.followers, follow(t, c, kind, j.namespace))
		}
	}
	for _, kind := range followed {
		for _, name := range []string{"stays", "changed", "deleted"} {
			j.create(t, kind, name)
		}
	}
	j.createSet(t, "web")
	j.awaitPods(t, "web", 1)
	j.awaitEqual(t)
	j.point = j.revision(t)

	for _, kind := range followed {
		j.create(t, kind, "lost")
		if err := j.objects(kind).Delete(t.Context(), "deleted", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		// Often enough that what is written directly after the restore gets revisions that have been seen.
		for i := range 50 {
			if err := j.annotate(t.Context(), kind, "changed", strconv.Itoa(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	j.scale(t, 3)
	j.awaitPods(t, "web", 3)
	j.awaitEqual(t)
	j.seen = j.revision(t)
	return j
}

// arrive writes the first changes after the restore.
func (j *journey) arrive(t *testing.T) {
	t.Helper()
	for _, kind := range followed {
		j.create(t, kind, "new")
	}
	j.scale(t, 2)
}

// arrived returns the revisions of the objects that arrive has written.
func (j *journey) arrived(t *testing.T) []int64 {
	t.Helper()
	set, err := j.direct.Clients.AppsV1().ReplicaSets(j.namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	revisions := []int64{parseVersion(t, set.ResourceVersion)}
	for _, kind := range followed {
		stored, err := j.list(t.Context(), j.direct, kind)
		if err != nil {
			t.Fatal(err)
		}
		revisions = append(revisions, parseVersion(t, stored["new"]))
	}
	return revisions
}

// checkEqual checks that everybody knows what the store has, now and after further changes.
func (j *journey) checkEqual(t *testing.T) {
	t.Helper()
	j.awaitPods(t, "web", 2)
	j.awaitEqual(t)
	for _, kind := range followed {
		if err := errors.Join(
			j.objects(kind).Delete(t.Context(), "deleted", metav1.DeleteOptions{}),
			j.annotate(t.Context(), kind, "changed", "again"),
		); err != nil {
			t.Fatal(err)
		}
	}
	j.writeLater(t)
	j.awaitEqual(t)
}

// checkDamage waits until each informer has seen a later write: what it has not seen by then, it never sees. It checks
// that what each has differs from the store, in every way that it can. With a watch cache, that is so for new lists,
// too.
func (j *journey) checkDamage(t *testing.T) {
	t.Helper()
	await(t, "every informer has a later write", func(context.Context) error {
		j.writeLater(t)
		for _, f := range j.followers {
			for view, held := range f.views() {
				if !containsLater(held) {
					return fmt.Errorf("%s: none among %d", f.name(view), len(held))
				}
			}
		}
		return nil
	})
	for _, f := range j.followers {
		views, errViews := j.views(t.Context(), f)
		stored, errStored := j.list(t.Context(), j.direct, f.kind)
		if err := errors.Join(errViews, errStored); err != nil {
			t.Fatal(err)
		}
		if f.c == j.direct {
			delete(views, "list") // it is what the store has
		}
		for view, held := range views {
			for name, damaged := range map[string]bool{
				"lost":    held["lost"] != "" && stored["lost"] == "",
				"deleted": held["deleted"] == "" && stored["deleted"] != "",
				"changed": held["changed"] != "" && stored["changed"] != "" && held["changed"] != stored["changed"],
				"new":     held["new"] == "" && stored["new"] != "",
			} {
				if !damaged {
					t.Errorf("%s: %q is undamaged: version %q, in the store %q", f.name(view), name, held[name],
						stored[name])
				}
			}
		}
	}
	// kube-controller-manager still works, but does not know that "web" wants a second Pod.
	j.createSet(t, "other")
	j.awaitPods(t, "other", 1)
	if err := j.checkPods(t.Context(), "web", 1); err != nil {
		t.Errorf("kube-controller-manager acted on what it should have missed: %v", err)
	}
}

func (f *follower) name(view string) string {
	return fmt.Sprintf("%s of %s, watch cache %t", view, f.kind.Resource, f.c.WatchCache)
}

func containsLater(held map[string]string) bool {
	for name := range held {
		if strings.HasPrefix(name, "later") {
			return true
		}
	}
	return false
}
