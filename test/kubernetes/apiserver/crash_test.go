package apiserver_test

import (
	"context"
	"testing"

	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
)

// TestCrash kills the store several times while a load is being written. kube-apiserver recovers. Every acknowledged
// change exists, and watches, including those open during a crash, show each change once and in order. A new
// kube-apiserver finds the same. Of several replicas one is killed at a time, while the others serve.
func TestCrash(t *testing.T) {
	for i, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			store := cluster.StartStore(t)
			c := cluster.Start(t, store, server.config)
			trial := newTrial(t, c, "crash")
			trial.Interrupted = true
			const kills = 3
			result, err := trial.Run(t.Context(), func(ctx context.Context) error {
				for kill := range kills {
					select {
					case <-trial.History.Reached(trial.Objects*(kill+1), 0): // over four changes per object
					case <-ctx.Done():
						return ctx.Err()
					}
					changes := trial.History.Count()
					store.Kill()
					if kill == kills-1 && !store.Replicated() { // a longer outage
						if err := c.Await(ctx, false); err != nil {
							return err
						}
					}
					store.Restart(t)
					t.Logf("killed after %d changes, back at %d", changes, trial.History.Count())
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Log(result)
			if result.Unclear == 0 && !store.Replicated() {
				t.Error("no request failed: the kills came too late to prove anything")
			}
			if err := c.Await(t.Context(), true); err != nil {
				t.Error(err)
			}
			checkLive(t, c, trial)

			c.Kill()
			other := servers[len(servers)-1-i].config
			checkLive(t, cluster.Start(t, store, other), trial)
		})
	}
}
