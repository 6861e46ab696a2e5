package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/load"
)

// TestControllerManager runs a real kube-controller-manager. Its Deployment and ReplicaSet controllers create, scale,
// roll out and roll back a Deployment, also while the store is killed and restarted (of several replicas one in turn).
// Its garbage collector removes the dependents of a deleted owner, and its namespace controller empties namespaces.
func TestControllerManager(t *testing.T) {
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			store := cluster.StartStore(t)
			c := cluster.Start(t, store, server.config)
			c.StartControllerManager(t)
			names, err := load.MakeNamespaces(ctx, c.Clients, "workloads", 1)
			if err != nil {
				t.Fatal(err)
			}
			w := &workload{clients: c.Clients, namespace: names[0]}
			defer w.runPods(ctx)()

			start := time.Now()
			w.roll(ctx, t, c, store)
			rolled := time.Since(start)
			w.collect(ctx, t)
			collected := time.Since(start)
			w.emptyNamespace(ctx, t)
			t.Logf("rolled after %s, collected after %s, emptied after %s", rolled, collected, time.Since(start))
		})
	}
}

// workload is the Deployment "web" and all that controllers make of it.
type workload struct {
	clients   kubernetes.Interface
	namespace string
}

// roll creates, scales, rolls out and rolls back the Deployment.
func (w *workload) roll(ctx context.Context, t *testing.T, c *cluster.Cluster, store cluster.Store) {
	t.Helper()
	start := time.Now()
	step := func(what string, replicas int32, image string, sets int, err error) {
		t.Helper()
		if err == nil {
			err = w.await(ctx, replicas, image, sets)
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		t.Logf("%s: done after %s", what, time.Since(start).Round(time.Millisecond))
	}
	_, err := w.clients.AppsV1().Deployments(w.namespace).Create(ctx, newDeployment("web", 10, "app:1"),
		metav1.CreateOptions{})
	step("create", 10, "app:1", 1, err)
	step("scale up", 25, "app:1", 1, w.patch(ctx, `{"spec":{"replicas":25}}`))
	step("scale down", 8, "app:1", 1, w.patch(ctx, `{"spec":{"replicas":8}}`))
	step("roll", 8, "app:2", 2, w.patch(ctx, image("app:2")))

	// Twice, so that with two replicas each is down once.
	for i, app := range []string{"app:3", "app:4"} {
		err := w.patch(ctx, image(app))
		store.Kill()
		if i == 1 && !store.Replicated() { // a longer outage
			err = errors.Join(err, c.Await(ctx, false))
		}
		store.Restart(t)
		step("roll while the store is killed", 8, app, 3+i, err)
	}
	out := c.Kubectl(t, nil, "-n", w.namespace, "rollout", "undo", "deployment/web")
	step(strings.TrimSpace(out), 8, "app:3", 4, nil)
	c.Kubectl(t, nil, "-n", w.namespace, "rollout", "status", "deployment/web", "--timeout=60s")
}

// collect deletes the Deployment and one that keeps its ReplicaSet, and leaves the rest to the garbage collector.
func (w *workload) collect(ctx context.Context, t *testing.T) {
	t.Helper()
	deployments := w.clients.AppsV1().Deployments(w.namespace)
	foreground, orphan := metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan
	if err := deployments.Delete(ctx, "web", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	if err := until(ctx, func(ctx context.Context) (bool, error) {
		_, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	}); err != nil {
		t.Fatalf("the Deployment does not go: %v", err)
	}
	// With foreground deletion it goes last.
	if sets, pods, err := w.list(ctx); err != nil || len(sets)+len(pods) > 0 {
		t.Errorf("%d ReplicaSets and %d Pods outlived the Deployment: %v", len(sets), len(pods), err)
	}

	if _, err := deployments.Create(ctx, newDeployment("web", 3, "app:1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.await(ctx, 3, "app:1", 1); err != nil {
		t.Fatal(err)
	}
	if err := deployments.Delete(ctx, "web", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		t.Fatal(err)
	}
	if err := until(ctx, func(ctx context.Context) (bool, error) {
		_, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	}); err != nil {
		t.Fatalf("the Deployment does not go: %v", err)
	}
	sets, pods, err := w.list(ctx)
	if err != nil || len(sets) != 1 || len(sets[0].OwnerReferences) != 0 || len(pods) != 3 {
		t.Errorf("an orphaning deletion left %d ReplicaSets %v and %d Pods: %v", len(sets), sets, len(pods), err)
	}
}

// emptyNamespace deletes the namespace, which contains the orphans of collect and some hundred objects.
func (w *workload) emptyNamespace(ctx context.Context, t *testing.T) {
	t.Helper()
	configMaps := configMaps{w.clients.CoreV1().ConfigMaps(w.namespace), w.namespace}
	if err := parallel(ctx, 300, func(ctx context.Context, i int) error {
		_, err := configMaps.Create(ctx, labelled(fmt.Sprintf("object-%d", i), "old"), metav1.CreateOptions{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.clients.CoreV1().ServiceAccounts(w.namespace).Get(ctx, "default", metav1.GetOptions{}); err != nil {
		t.Errorf("the default service account: %v", err)
	}
	if err := w.clients.CoreV1().Namespaces().Delete(ctx, w.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := until(ctx, func(ctx context.Context) (bool, error) {
		_, err := w.clients.CoreV1().Namespaces().Get(ctx, w.namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	}); err != nil {
		t.Fatalf("the namespace is not deleted: %v", err)
	}
	objects, err := configMaps.List(ctx, metav1.ListOptions{})
	sets, pods, errList := w.list(ctx)
	if err := errors.Join(err, errList); err != nil || len(objects.Items)+len(sets)+len(pods) > 0 {
		t.Errorf("%d ConfigMaps, %d ReplicaSets and %d Pods outlived the namespace: %v", len(objects.Items), len(sets),
			len(pods), err)
	}
}

// patch changes the Deployment, retrying through an outage: a merge patch may be repeated.
func (w *workload) patch(ctx context.Context, patch string) error {
	_, err := w.clients.AppsV1().Deployments(w.namespace).Patch(ctx, "web", types.StrategicMergePatchType,
		[]byte(patch), metav1.PatchOptions{})
	return err
}

// image is a patch that changes the image of the Deployment's Pods.
func image(name string) string {
	return fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"app","image":%q}]}}}}`, name)
}

// await waits until the Deployment has exactly that many Pods, all available and with the image, in the newest of that
// many ReplicaSets, and nothing else is left.
func (w *workload) await(ctx context.Context, replicas int32, image string, sets int) error {
	var last error
	err := until(ctx, func(ctx context.Context) (bool, error) {
		last = w.check(ctx, replicas, image, sets)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("want %d Pods of %s and %d ReplicaSets: %w (last: %w)", replicas, image, sets, err, last)
	}
	return nil
}

// check is await without waiting.
func (w *workload) check(ctx context.Context, replicas int32, image string, sets int) error {
	d, errGet := w.clients.AppsV1().Deployments(w.namespace).Get(ctx, "web", metav1.GetOptions{})
	all, pods, errList := w.list(ctx)
	if err := errors.Join(errGet, errList); err != nil {
		return err
	}
	s := d.Status
	if s.ObservedGeneration != d.Generation || s.Replicas != replicas || s.UpdatedReplicas != replicas ||
		s.AvailableReplicas != replicas || len(pods) != int(replicas) || len(all) != sets {
		return fmt.Errorf("generation %d, status of %d: %d replicas, %d updated, %d available; %d ReplicaSets, %d Pods",
			d.Generation, s.ObservedGeneration, s.Replicas, s.UpdatedReplicas, s.AvailableReplicas, len(all), len(pods))
	}
	used := slices.IndexFunc(all, func(s appsv1.ReplicaSet) bool { return *s.Spec.Replicas == replicas })
	for _, pod := range pods {
		owner := metav1.GetControllerOf(&pod)
		if got := pod.Spec.Containers[0].Image; got != image || used < 0 || owner == nil || owner.UID != all[used].UID {
			return fmt.Errorf("%s runs %s for %v", pod.Name, got, owner)
		}
	}
	return nil
}

// list returns the ReplicaSets and Pods of the namespace.
func (w *workload) list(ctx context.Context) ([]appsv1.ReplicaSet, []corev1.Pod, error) {
	sets, errSets := w.clients.AppsV1().ReplicaSets(w.namespace).List(ctx, metav1.ListOptions{})
	pods, errPods := w.clients.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{})
	if err := errors.Join(errSets, errPods); err != nil {
		return nil, nil, err
	}
	return sets.Items, pods.Items, nil
}

// runPods acts as a kubelet for the namespace's Pods: they become ready. It ends with the context or when the returned
// function is called.
func (w *workload) runPods(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	status := []byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
	var running sync.WaitGroup
	running.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			_, pods, err := w.list(ctx)
			if err != nil {
				return // the store is down: next time
			}
			for _, pod := range pods {
				if pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil {
					// An error is a deleted Pod, or the store's outage.
					_, _ = w.clients.CoreV1().Pods(w.namespace).Patch(ctx, pod.Name,
						types.StrategicMergePatchType, status, metav1.PatchOptions{}, "status")
				}
			}
		}, 200*time.Millisecond)
	})
	return func() {
		cancel()
		running.Wait()
	}
}

func newDeployment(name string, replicas int32, image string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	var grace int64 // otherwise the namespace controller would wait for it
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: &grace,
					Containers:                    []corev1.Container{{Name: "app", Image: image}},
				},
			},
		},
	}
}

// until polls until the condition holds, for as long as a controller may need after an outage.
func until(ctx context.Context, condition wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, 3*time.Minute, true, condition)
}
