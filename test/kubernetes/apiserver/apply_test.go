package apiserver_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apply "k8s.io/client-go/applyconfigurations/core/v1"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"

	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/load"
)

// testServerSideApply lets two managers share an object: one manager takes over another's field only by force, and a
// field that no manager applies any more is removed.
func testServerSideApply(t *testing.T, c *cluster.Cluster) {
	client := newConfigMaps(t, c, "apply")
	do := func(manager string, force bool, data map[string]string) (*corev1.ConfigMap, error) {
		return client.Apply(t.Context(), apply.ConfigMap("shared", client.namespace).WithData(data),
			metav1.ApplyOptions{FieldManager: manager, Force: force})
	}
	for _, step := range []struct {
		manager  string
		force    bool
		apply    map[string]string
		conflict string            // the field that the answer names, "" for success
		want     map[string]string // afterwards
		owners   map[string]string // of the fields, by manager, afterwards
	}{
		{
			manager: "a", apply: map[string]string{"both": "1", "own-a": "1"},
			want:   map[string]string{"both": "1", "own-a": "1"},
			owners: map[string]string{"a": "both own-a"},
		},
		{
			manager: "b", apply: map[string]string{"both": "2", "own-b": "1"}, conflict: ".data.both",
			want:   map[string]string{"both": "1", "own-a": "1"},
			owners: map[string]string{"a": "both own-a"},
		},
		{
			manager: "b", apply: map[string]string{"both": "1", "own-b": "1"}, // the same value: both own it
			want:   map[string]string{"both": "1", "own-a": "1", "own-b": "1"},
			owners: map[string]string{"a": "both own-a", "b": "both own-b"},
		},
		{
			manager: "b", force: true, apply: map[string]string{"both": "2", "own-b": "1"},
			want:   map[string]string{"both": "2", "own-a": "1", "own-b": "1"},
			owners: map[string]string{"a": "own-a", "b": "both own-b"},
		},
		{
			manager: "a", apply: map[string]string{"both": "1", "own-a": "2"}, conflict: ".data.both",
			want:   map[string]string{"both": "2", "own-a": "1", "own-b": "1"},
			owners: map[string]string{"a": "own-a", "b": "both own-b"},
		},
		{
			manager: "a", apply: map[string]string{"new-a": "1"},
			want:   map[string]string{"both": "2", "new-a": "1", "own-b": "1"},
			owners: map[string]string{"a": "new-a", "b": "both own-b"},
		},
	} {
		_, err := do(step.manager, step.force, step.apply)
		if step.conflict == "" && err != nil {
			t.Fatal(err)
		}
		if step.conflict != "" && (!apierrors.IsConflict(err) || !strings.Contains(err.Error(), step.conflict)) {
			t.Errorf("apply %v by %s: %v, want a conflict over %s", step.apply, step.manager, err, step.conflict)
		}
		got, err := client.Get(t.Context(), "shared", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if owners := dataOwners(got); !maps.Equal(got.Data, step.want) || !maps.Equal(owners, step.owners) {
			t.Errorf("after %v by %s (force: %t): %v owned by %v, want %v owned by %v",
				step.apply, step.manager, step.force, got.Data, owners, step.want, step.owners)
		}
	}
}

// dataOwners returns the data keys that each manager owns, in order and separated by spaces.
func dataOwners(object *corev1.ConfigMap) map[string]string {
	owners := map[string]string{}
	for _, entry := range object.ManagedFields {
		var keys []string
		for _, key := range []string{"both", "new-a", "own-a", "own-b"} {
			if strings.Contains(entry.FieldsV1.GetRawString(), `"f:`+key+`"`) {
				keys = append(keys, key)
			}
		}
		owners[entry.Manager] = strings.Join(keys, " ")
	}
	return owners
}

// testConcurrentApply lets many managers apply one key each to one object at the same time, while others increment a
// counter in it by updates at the resource version that they read: in no version that the watch shows does one write
// undo another.
func testConcurrentApply(t *testing.T, c *cluster.Cluster) {
	const managers, applies, counters, additions = 8, 12, 4, 10
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	client := newConfigMaps(t, c, "concurrent")
	written := newLedger()
	object, err := client.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "shared"},
		Data:       map[string]string{"counter": "0"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: object.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()

	// Many clients collide on one object, and most have to retry: that is the point.
	err = parallel(ctx, managers+counters, func(ctx context.Context, i int) error {
		if i >= managers {
			return client.add(ctx, written, additions)
		}
		return client.applyInTurn(ctx, written, fmt.Sprintf("manager-%d", i), applies)
	})
	if err != nil {
		t.Fatal(err)
	}

	want := map[string]string{"counter": strconv.Itoa(counters * additions)}
	for i := range managers {
		want[fmt.Sprintf("manager-%d", i)] = strconv.Itoa(applies)
	}
	last := map[string]int{}
	err = written.check(ctx, stream, func(object runtime.Object) error {
		for key, value := range object.(*corev1.ConfigMap).Data {
			number, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			if number < last[key] {
				return fmt.Errorf("%s went back from %d to %d", key, last[key], number)
			}
			last[key] = number
		}
		return nil
	})
	if err != nil {
		t.Errorf("watch: %v", err)
	}
	got, err := client.Get(ctx, "shared", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got.Data, want) {
		t.Errorf("in the end %v, want %v", got.Data, want)
	}
	if writes := counters*additions + managers*applies; len(written.writes) != writes {
		t.Errorf("%d resource versions for %d writes", len(written.writes), writes)
	}
	for i := range managers {
		manager := fmt.Sprintf("manager-%d", i)
		if !slices.ContainsFunc(got.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply &&
				strings.Contains(e.FieldsV1.GetRawString(), `"f:`+manager+`"`)
		}) {
			t.Errorf("managedFields do not show what %s owns: %v", manager, got.ManagedFields)
		}
	}
}

// configMaps is a client for the ConfigMaps of a namespace.
type configMaps struct {
	typed.ConfigMapInterface
	namespace string
}

func newConfigMaps(t *testing.T, c *cluster.Cluster, prefix string) configMaps {
	t.Helper()
	names, err := load.MakeNamespaces(t.Context(), c.Clients, prefix, 1)
	if err != nil {
		t.Fatal(err)
	}
	return configMaps{c.Clients.CoreV1().ConfigMaps(names[0]), names[0]}
}

// applyInTurn applies the numbers from 1 to n as the manager's key of the object.
func (c configMaps) applyInTurn(ctx context.Context, written *ledger, manager string, n int) error {
	for i := 1; i <= n; i++ {
		data := map[string]string{manager: strconv.Itoa(i)}
		// kube-apiserver itself retries a few times, not forever.
		err := untilNoConflict(func() error {
			got, err := c.Apply(ctx, apply.ConfigMap("shared", c.namespace).WithData(data), metav1.ApplyOptions{
				FieldManager: manager,
			})
			if err != nil {
				return err
			}
			return written.add(got)
		})
		if err != nil {
			return fmt.Errorf("apply by %s: %w", manager, err)
		}
	}
	return nil
}

// add adds 1 to the counter n times.
func (c configMaps) add(ctx context.Context, written *ledger, n int) error {
	for range n {
		err := untilNoConflict(func() error {
			object, err := c.Get(ctx, "shared", metav1.GetOptions{})
			if err != nil {
				return err
			}
			counter, err := strconv.Atoi(object.Data["counter"])
			if err != nil {
				return err
			}
			object.Data["counter"] = strconv.Itoa(counter + 1)
			got, err := c.Update(ctx, object, metav1.UpdateOptions{})
			if err != nil {
				return err
			}
			return written.add(got)
		})
		if err != nil {
			return fmt.Errorf("add to the counter: %w", err)
		}
	}
	return nil
}

func untilNoConflict(do func() error) error {
	backoff := retry.DefaultBackoff
	backoff.Steps, backoff.Factor, backoff.Jitter = 1000, 1, 1
	return retry.RetryOnConflict(backoff, do)
}
