package etcdflags

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/types"
)

// Members returns the names in --initial-cluster. Without it, the only member is this one.
func (o *Options) Members() []string {
	members, err := o.cluster()
	if err != nil || len(members) == 0 {
		return []string{o.Text("name")}
	}
	return slices.Sorted(maps.Keys(members))
}

// checkCluster checks that --initial-cluster is well formed.
func (o *Options) checkCluster() error {
	if state := o.Text("initial-cluster-state"); state != "new" && state != "existing" {
		return fmt.Errorf("%w: unexpected clusterState %q", ErrSettings, state)
	}
	_, err := o.cluster()
	return err
}

// cluster parses --initial-cluster.
func (o *Options) cluster() (types.URLsMap, error) {
	text := o.Text("initial-cluster")
	members, err := types.NewURLsMap(text)
	if err == nil {
		return members, nil
	}
	err = fmt.Errorf("%w: error setting up initial cluster: %w", ErrSettings, err)
	if !strings.Contains(text, "://") {
		err = fmt.Errorf("%w: each member is a name and a URL, as in default=http://127.0.0.1:2380", err)
	}
	return nil, err
}

// CheckBootstrap checks --initial-cluster as etcd does when it starts for the first time. Errors: [ErrSettings].
func (o *Options) CheckBootstrap() error {
	text := o.Text("initial-cluster")
	if text == "" {
		return nil
	}
	members, err := o.cluster()
	if err != nil {
		return err
	}
	name := o.Text("name")
	own, ok := members[name]
	if !ok {
		return fmt.Errorf("%w: couldn't find local name %q in the initial cluster configuration", ErrSettings, name)
	}
	seen := map[string]bool{}
	for _, u := range members.URLs() {
		if seen[u] {
			return fmt.Errorf("%w: initial cluster %s has duplicate url", ErrSettings, members)
		}
		seen[u] = true
	}
	if o.Text("initial-cluster-state") != "new" {
		return nil
	}
	listed, advertised := own.StringSlice(), o.List("initial-advertise-peer-urls")
	if missing := without(listed, advertised); len(missing) > 0 {
		return fmt.Errorf("%w: --initial-cluster has %s=%s but missing from --initial-advertise-peer-urls=%s",
			ErrSettings, name, strings.Join(missing, ","), strings.Join(advertised, ","))
	}
	if missing := without(advertised, listed); len(missing) > 0 {
		return fmt.Errorf("%w: --initial-advertise-peer-urls has %s but missing from --initial-cluster=%s",
			ErrSettings, strings.Join(missing, ","), text)
	}
	return nil
}

// without returns the elements of a that are not in b.
func without(a, b []string) (rest []string) {
	for _, s := range a {
		if !slices.Contains(b, s) {
			rest = append(rest, s)
		}
	}
	return rest
}
