package apiserver_test

import (
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestLedger passes a ledger the events of faulty stores, and it must notice each fault.
func TestLedger(t *testing.T) {
	at := func(version int, content string) watch.Event {
		return watch.Event{Type: watch.Modified, Object: &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "object", ResourceVersion: strconv.Itoa(version)},
			Data:       map[string]string{"content": content},
		}}
	}
	for name, tc := range map[string]struct {
		events []watch.Event
		ok     bool
	}{
		"as written":      {[]watch.Event{at(2, "a"), at(4, "b"), at(5, "c")}, true},
		"one is missing":  {[]watch.Event{at(2, "a"), at(5, "c")}, false},
		"the last is not": {[]watch.Event{at(2, "a"), at(4, "b")}, false},
		"one is repeated": {[]watch.Event{at(2, "a"), at(2, "a"), at(4, "b"), at(5, "c")}, false},
		"out of order":    {[]watch.Event{at(4, "b"), at(2, "a"), at(5, "c")}, false},
		"other content":   {[]watch.Event{at(2, "a"), at(4, "x"), at(5, "c")}, false},
		"unknown write":   {[]watch.Event{at(2, "a"), at(3, "x"), at(4, "b"), at(5, "c")}, false},
		"a deletion": {
			[]watch.Event{at(2, "a"), {Type: watch.Deleted, Object: at(4, "b").Object}, at(5, "c")},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			written := newLedger()
			for i, content := range []string{"a", "b", "c"} {
				if err := written.add(at([]int{2, 4, 5}[i], content).Object); err != nil {
					t.Fatal(err)
				}
			}
			if err := written.add(at(4, "other").Object); err == nil {
				t.Error("two writes at one resource version went unnoticed")
			}
			stream := watch.NewFakeWithChanSize(len(tc.events), false)
			for _, event := range tc.events {
				stream.Action(event.Type, event.Object)
			}
			stream.Stop()
			if err := written.check(t.Context(), stream, nil); (err == nil) != tc.ok {
				t.Errorf("check: %v", err)
			}
		})
	}
}

// TestLeaseFollows checks histories of a Lease that an election may and may not produce.
func TestLeaseFollows(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	lease := func(holder string, acquired time.Duration, transitions int32) *coordinationv1.Lease {
		at := metav1.NewMicroTime(start.Add(acquired))
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, AcquireTime: &at, RenewTime: &at, LeaseTransitions: &transitions,
		}}
	}
	for _, tc := range []struct {
		name          string
		previous, now *coordinationv1.Lease
		ok            bool
	}{
		{"renewed", lease("a", 0, 3), lease("a", time.Second, 3), true},
		{"given back", lease("a", 0, 3), lease("", time.Second, 3), true},
		{"taken after it was given back", lease("", 0, 3), lease("b", time.Second, 4), true},
		{"taken after it ran out", lease("a", 0, 3), lease("b", lockDuration, 4), true},
		{"taken too early", lease("a", 0, 3), lease("b", lockDuration-time.Second, 4), false},
		{"taken uncounted", lease("a", 0, 3), lease("b", lockDuration, 3), false},
		{"a version was skipped", lease("a", 0, 3), lease("b", time.Minute, 5), false},
	} {
		if err := follows(tc.previous, tc.now); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
