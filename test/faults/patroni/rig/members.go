package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/test/support/hosts"
)

// Member is a node as Patroni describes it.
type Member struct {
	Name, Role, State string
	Timeline          any
}

// Members are the nodes of the cluster as one of them describes it.
type Members []Member

// With returns the name of the running member with a role, "" unless there is exactly one.
func (ms Members) With(role string) string {
	var names []string
	for _, m := range ms {
		if m.Role == role && (m.State == "running" || m.State == "streaming") {
			names = append(names, m.Name)
		}
	}
	if len(names) != 1 {
		return ""
	}
	return names[0]
}

// Healthy reports whether all nodes run, on one timeline, with one synchronous standby.
func Healthy(ms Members) bool {
	for _, m := range ms {
		if m.Timeline != ms[0].Timeline {
			return false
		}
	}
	return len(ms) == Nodes && ms.With("leader") != "" && ms.With("sync_standby") != "" && ms.With("replica") != ""
}

// Eventually waits until reached returns nil, and fails the test after StateTimeout.
func Eventually(tb testing.TB, state string, reached func() error) {
	tb.Helper()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for end := time.After(StateTimeout); ; {
		err := reached()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			tb.Fatalf("no %s within %v: %v", state, StateTimeout, err)
		}
	}
}

// Until waits until every node that answers reports a state, and returns what the first one reports.
func (c *Cluster) Until(state string, reached func(Members) bool) (now Members) {
	c.Helper()
	Eventually(c, state, func() error {
		reports := c.Members()
		if len(reports) == 0 || slices.ContainsFunc(reports, func(ms Members) bool { return !reached(ms) }) {
			return fmt.Errorf("nodes report %+v", reports)
		}
		now = reports[0]
		return nil
	})
	return now
}

// Members returns what each node that answers reports about the cluster.
func (c *Cluster) Members() (all []Members) {
	for _, m := range c.Nodes {
		var answer struct{ Members Members }
		if err := GetJSON(c.Context(), REST(m)+"/cluster", &answer); err == nil {
			all = append(all, answer.Members)
		}
	}
	return all
}

// GetJSON decodes an answer of Patroni's REST API.
func GetJSON(ctx context.Context, url string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(into)
}

// REST returns the URL of Patroni's REST API on a node.
func REST(node *hosts.Host) string { return "http://" + node.Address(restPort) }
