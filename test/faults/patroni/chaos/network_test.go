package chaos

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/test/faults/patroni/rig"
	"github.com/sqlstore/sqlstore/test/support/hosts"
)

var networkKinds = []kind{
	{"replica does not reach the primary", nodes, func(s *stage, r *rand.Rand) fault {
		return s.cut(shortOrLong(r), rig.In, oneReplica(r))
	}},
	{"primary does not reach a replica", nodes, func(s *stage, r *rand.Rand) fault {
		return s.cut(shortOrLong(r), rig.Out, oneReplica(r))
	}},
	{"standbys do not reach the primary", nodes, func(s *stage, r *rand.Rand) fault {
		return s.cut(shortOrLong(r), rig.In, (*stage).otherNodes)
	}},
	{"primary does not reach the standbys", nodes, func(s *stage, r *rand.Rand) fault {
		return s.cut(shortOrLong(r), rig.Out, (*stage).otherNodes)
	}},
	{"Patroni's store does not reach the primary", nodes, func(s *stage, r *rand.Rand) fault {
		return s.cut(shortOrLong(r), rig.In, store)
	}},
	{"primary does not reach Patroni's store", nodes, func(s *stage, r *rand.Rand) fault {
		return s.cut(shortOrLong(r), rig.Out, store)
	}},
	{"primary is cut off from all but one replica", nodes, func(s *stage, r *rand.Rand) fault {
		stays := r.IntN(rig.Replicas)
		return s.cut(between(r, 28, 45), rig.Both, func(s *stage, primary *hosts.Host) []*hosts.Host {
			return slices.Concat(s.otherNodes(primary), []*hosts.Host{s.Store}, without(s.Replicas, s.Replicas[stays]))
		})
	}},
}

// peers returns the hosts from which a cut separates the primary.
type peers func(s *stage, primary *hosts.Host) []*hosts.Host

// cut makes the primary drop packets in one direction or both.
func (s *stage) cut(holds time.Duration, d rig.Direction, from peers) fault {
	return s.onNode("leader", holds,
		func(h *hosts.Host) error { return rig.Cut(h, d, from(s, h)...) }, rig.Mend)
}

func oneReplica(r *rand.Rand) peers {
	i := r.IntN(rig.Replicas)
	return func(s *stage, _ *hosts.Host) []*hosts.Host { return s.Replicas[i : i+1] }
}

func store(s *stage, _ *hosts.Host) []*hosts.Host { return []*hosts.Host{s.Store} }

func (s *stage) otherNodes(primary *hosts.Host) []*hosts.Host { return without(s.Nodes, primary) }

func without(all []*hosts.Host, one *hosts.Host) []*hosts.Host {
	return slices.DeleteFunc(slices.Clone(all), func(h *hosts.Host) bool { return h == one })
}
