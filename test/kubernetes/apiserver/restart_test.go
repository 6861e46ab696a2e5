package apiserver_test

import (
	"context"
	"testing"

	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
)

// TestRestart kills and restarts one of two kube-apiservers that share the store, while objects are written through the
// other. A watcher of the first continues after the last event or bookmark, or lists again if its watch cache begins
// later, and has then seen each change once and in order.
func TestRestart(t *testing.T) {
	store := cluster.StartStore(t)
	both := make([]*cluster.Cluster, len(servers))
	for i, server := range servers {
		both[i] = cluster.Start(t, store, server.config)
	}
	for i, server := range servers {
		t.Run(server.name, func(sub *testing.T) {
			killed, other := both[i], both[len(both)-1-i]
			trial := newTrial(sub, other, "restart-"+[]string{"a", "b"}[i])
			trial.Objects = (trial.Objects + 1) / 2
			trial.Beside = killed.Dynamic
			result, err := trial.Run(sub.Context(), func(ctx context.Context) error {
				select {
				case <-trial.History.Reached(trial.Objects, 0): // there are more than four changes per object
				case <-ctx.Done():
					return ctx.Err()
				}
				killed.Kill()
				changes := trial.History.Count()
				killed.Restart(t) // for the next trial, too
				sub.Logf("killed after %d changes, back at %d", changes, trial.History.Count())
				return nil
			})
			if err != nil {
				sub.Fatal(err)
			}
			sub.Log(result)
			if result.Reopened == 0 {
				sub.Error("no watch was open when its kube-apiserver was killed")
			}
			checkLive(sub, killed, trial)
		})
	}
}
