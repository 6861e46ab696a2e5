package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/load"
)

// objects is the client of a kind, which writes to the store without asking a watch cache.
func (j *journey) objects(kind load.Kind) dynamic.ResourceInterface {
	return j.direct.Dynamic.Resource(kind.GroupVersionResource).Namespace(j.namespace)
}

// create repeats what fails, because kube-apiserver's connections to a new store come back one by one.
func (j *journey) create(t *testing.T, kind load.Kind, name string) {
	t.Helper()
	await(t, name+" is created", func(ctx context.Context) error {
		_, err := j.objects(kind).Create(ctx, kind.New(j.namespace, name, ""), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// writeLater creates a few objects of each kind.
func (j *journey) writeLater(t *testing.T) {
	t.Helper()
	for range 20 {
		for _, kind := range followed {
			j.create(t, kind, fmt.Sprintf("later-%d", j.later))
		}
		j.later++
	}
}

func (j *journey) annotate(ctx context.Context, kind load.Kind, name, value string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"sqlstore.example/changed":%q}}}`, value)
	_, err := j.objects(kind).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// createSet creates a ReplicaSet of one Pod.
func (j *journey) createSet(t *testing.T, name string) {
	t.Helper()
	d := newDeployment(name, 1, "app:1")
	set := &appsv1.ReplicaSet{ObjectMeta: d.ObjectMeta, Spec: appsv1.ReplicaSetSpec{
		Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template,
	}}
	if _, err := j.direct.Clients.AppsV1().ReplicaSets(j.namespace).Create(t.Context(), set,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// scale makes the ReplicaSet "web" want that many Pods.
func (j *journey) scale(t *testing.T, replicas int) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	await(t, fmt.Sprintf("the ReplicaSet is scaled to %d", replicas), func(ctx context.Context) error {
		_, err := j.direct.Clients.AppsV1().ReplicaSets(j.namespace).Patch(ctx, "web", types.MergePatchType, patch,
			metav1.PatchOptions{})
		return err
	})
}

// awaitPods waits until kube-controller-manager has made that many Pods of a ReplicaSet, and has said so.
func (j *journey) awaitPods(t *testing.T, set string, want int) {
	t.Helper()
	await(t, "the ReplicaSet has its Pods", func(ctx context.Context) error { return j.checkPods(ctx, set, want) })
}

func (j *journey) checkPods(ctx context.Context, name string, want int) error {
	set, errGet := j.direct.Clients.AppsV1().ReplicaSets(j.namespace).Get(ctx, name, metav1.GetOptions{})
	pods, errList := j.direct.Clients.CoreV1().Pods(j.namespace).List(ctx,
		metav1.ListOptions{LabelSelector: "app=" + name})
	if err := errors.Join(errGet, errList); err != nil {
		return err
	}
	if got := set.Status.Replicas; len(pods.Items) != want || int(got) != want {
		return fmt.Errorf("ReplicaSet %s has %d Pods, %d by its status, want %d", name, len(pods.Items), got, want)
	}
	return nil
}

// list returns the resource versions by name that a kube-apiserver returns.
func (j *journey) list(ctx context.Context, c *cluster.Cluster, kind load.Kind) (map[string]string, error) {
	list, err := c.Dynamic.Resource(kind.GroupVersionResource).Namespace(j.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, item := range list.Items {
		versions[item.GetName()] = item.GetResourceVersion()
	}
	return versions, nil
}

// views are those of an informer, and the list of its kube-apiserver.
func (j *journey) views(ctx context.Context, f *follower) (map[string]map[string]string, error) {
	views := f.views()
	var err error
	views["list"], err = j.list(ctx, f.c, f.kind)
	return views, err
}

// awaitEqual waits until every informer and every kube-apiserver has what the store has.
func (j *journey) awaitEqual(t *testing.T) {
	t.Helper()
	await(t, "everybody has what the store has", func(ctx context.Context) error {
		for _, f := range j.followers {
			views, errViews := j.views(ctx, f)
			stored, errStored := j.list(ctx, j.direct, f.kind)
			if err := errors.Join(errViews, errStored); err != nil {
				return err
			}
			for view, held := range views {
				if !maps.Equal(held, stored) {
					return fmt.Errorf("%s: %v, in the store: %v", f.name(view), held, stored)
				}
			}
		}
		return nil
	})
}

// revision returns the store's revision.
func (j *journey) revision(t *testing.T) int64 {
	t.Helper()
	list, err := j.objects(load.ConfigMaps).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return parseVersion(t, list.GetResourceVersion())
}

func parseVersion(t *testing.T, version string) int64 {
	t.Helper()
	v, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
