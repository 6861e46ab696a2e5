package load

import (
	"context"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// member is a replica under load.
type member struct {
	Replica
	ctx     context.Context // of the clients that use only this replica
	stop    context.CancelFunc
	bound   []*clientv3.Client // those clients, and those of the watches that begin on this replica
	renewer *client            // of the leases that are always kept alive
}

func (r *Run) newMember(tb testing.TB, replica Replica) *member {
	tb.Helper()
	m := &member{Replica: replica}
	m.ctx, m.stop = context.WithCancel(r.ctx)
	m.renewer = &client{run: r, j: r.Journal, Client: connect(tb, m.Endpoint)}
	return m
}

func everything(name string) *Watch { return &Watch{Name: "everything on " + name} }

func part(name string) *Watch {
	return &Watch{Name: "k/ on " + name + ", asking for a leader", Prefix: "k/", leader: true}
}

func (m *member) watch(tb testing.TB, r *Run, w *Watch) {
	tb.Helper()
	m.bound = append(m.bound, r.watch(tb, w, m.Endpoint))
}

// serve starts the clients that use only this replica.
func (m *member) serve(tb testing.TB, r *Run) {
	tb.Helper()
	for range perReplica {
		m.bound = append(m.bound, r.start(tb, m.ctx, m.Name, (*client).serve, m.Endpoint))
	}
	m.bound = append(m.bound, r.start(tb, m.ctx, m.Name, (*client).look, m.Endpoint))
	r.keep(tb, m.Endpoint)
}

// Members returns the replicas that are under load.
func (r *Run) Members() []Replica {
	r.mu.Lock()
	defer r.mu.Unlock()
	var replicas []Replica
	for _, m := range r.members {
		replicas = append(replicas, m.Replica)
	}
	return replicas
}

func (r *Run) endpoints() []string {
	var endpoints []string
	for _, replica := range r.Members() {
		endpoints = append(endpoints, replica.Endpoint)
	}
	return endpoints
}

// Join puts another replica under load. Its watches begin where those of the others did.
func (r *Run) Join(tb testing.TB, replica Replica) {
	tb.Helper()
	m := r.newMember(tb, replica)
	r.mu.Lock()
	r.members = append(r.members, m)
	r.mu.Unlock()
	r.follow()
	m.watch(tb, r, everything(m.Name))
	m.watch(tb, r, part(m.Name))
	m.serve(tb, r)
}

// Leave takes a replica out of the load; another one must remain. Its watches resume on the others, and requests that
// still wait for it go there, too.
func (r *Run) Leave(name string) {
	r.mu.Lock()
	i := slices.IndexFunc(r.members, func(m *member) bool { return m.Name == name })
	m := r.members[i]
	r.members = slices.Delete(slices.Clone(r.members), i, i+1)
	r.mu.Unlock()
	m.stop()
	r.roaming = append(r.roaming, m.bound...)
	r.follow()
}

// follow makes the roaming clients use the present members.
func (r *Run) follow() {
	endpoints := r.endpoints()
	for _, c := range r.roaming {
		c.SetEndpoints(endpoints...)
	}
}

// renewer returns the client that renews leases through the i-th replica, modulo their number.
func (r *Run) renewer(i int) *client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.members[i%len(r.members)].renewer
}
