package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/test/faults/patroni/rig"
	"github.com/sqlstore/sqlstore/test/support/hosts"
)

// kinds are all kinds of faults.
func kinds() []kind {
	return slices.Concat(replicaKinds, nodeKinds, networkKinds, failoverKinds, resourceKinds, backupKinds)
}

// between draws a duration.
func between(r *rand.Rand, from, to float64) time.Duration {
	return time.Duration((from + r.Float64()*(to-from)) * float64(time.Second))
}

// shortOrLong draws a duration that is shorter than Patroni needs for a failover, or longer.
func shortOrLong(r *rand.Rand) time.Duration {
	short, long := between(r, 3, 10), between(r, 28, 40)
	if r.IntN(2) == 0 {
		return short
	}
	return long
}

// shorterThanTTL draws a duration for which Patroni itself may be frozen, or wait for a frozen Postgres. Before version
// 3.0.3, a Patroni that resumes after its key has expired overwrites the key of the new primary
// (https://github.com/patroni/patroni/pull/2689), and what that primary has acknowledged is lost.
func shorterThanTTL(r *rand.Rand) time.Duration { return between(r, 3, 10) }

var replicaKinds = []kind{
	{"replica is killed", replicas, func(s *stage, r *rand.Rand) fault {
		h := s.Replicas[r.IntN(rig.Replicas)]
		return fault{
			detail: h.Name, holds: between(r, 0, 8),
			inject: func() error { return end(h, "KILL") }, heal: h.Start,
		}
	}},
	{"all replicas are killed", replicas, func(s *stage, r *rand.Rand) fault {
		return fault{
			holds:  between(r, 0, 3),
			inject: func() error { return each(s.Replicas, kill) },
			heal:   func() error { return each(s.Replicas, (*hosts.Host).Start) },
		}
	}},
	{"replica is frozen", replicas, func(s *stage, r *rand.Rand) fault {
		h := s.Replicas[r.IntN(rig.Replicas)]
		return fault{
			detail: h.Name, holds: between(r, 1, 15),
			inject: func() error { return h.Signal("STOP") },
			heal:   func() error { return h.Signal("CONT") },
		}
	}},
	{"replica's clock is stepped", replicas, func(s *stage, r *rand.Rand) fault {
		h, by := s.Replicas[r.IntN(rig.Replicas)], step(r)
		return fault{
			detail: fmt.Sprintf("%s by %v", h.Name, by), holds: between(r, 5, 15),
			inject: func() error { return rig.StepReplica(h, by) },
			heal:   func() error { return rig.StepReplica(h, 0) },
		}
	}},
	{"replicas are restarted", replicas, func(s *stage, _ *rand.Rand) fault {
		return fault{inject: s.restart}
	}},
}

// step draws the step of a clock. It is 3 s at least: sqlstore does not notice steps of Postgres' clock ahead by less
// than 2 s, which shorten leases.
func step(r *rand.Rand) time.Duration {
	by := time.Duration(3+r.IntN(300)) * time.Second
	if r.IntN(2) == 0 {
		return -by
	}
	return by
}

var nodeKinds = []kind{
	{"primary's machine is killed", nodes, func(s *stage, r *rand.Rand) fault {
		return s.onNode("leader", shortOrLong(r), kill, (*hosts.Host).Start)
	}},
	{"standby's machine is killed", nodes, func(s *stage, r *rand.Rand) fault {
		return s.onNode("sync_standby", between(r, 1, 15), kill, (*hosts.Host).Start)
	}},
	{"primary's machine is frozen", nodes, func(s *stage, r *rand.Rand) fault {
		return s.onNode("leader", shorterThanTTL(r), (*hosts.Host).Pause, (*hosts.Host).Unpause)
	}},
	{"standby's machine is frozen", nodes, func(s *stage, r *rand.Rand) fault {
		return s.onNode("sync_standby", shortOrLong(r), (*hosts.Host).Pause, (*hosts.Host).Unpause)
	}},
	{"Postgres is killed on the primary", nodes, func(s *stage, _ *rand.Rand) fault {
		return s.onNode("leader", 0, killPostgres, nil)
	}},
	{"Postgres is killed on the standby", nodes, func(s *stage, _ *rand.Rand) fault {
		return s.onNode("sync_standby", 0, killPostgres, nil)
	}},
	{"Postgres is frozen on the primary", nodes, func(s *stage, r *rand.Rand) fault {
		return s.frozen(shorterThanTTL(r), "postgres")
	}},
	{"Patroni is frozen on the primary", nodes, func(s *stage, r *rand.Rand) fault {
		return s.frozen(shorterThanTTL(r), "patroni")
	}},
	{"Patroni's store is killed", nodes, func(s *stage, r *rand.Rand) fault {
		return fault{
			holds:  between(r, 1, 15),
			inject: func() error { return end(s.Store, "KILL") }, heal: s.Store.Start,
		}
	}},
}

// onNode returns a fault of the node that has a role when the fault begins.
func (s *stage) onNode(role string, holds time.Duration, inject, heal func(*hosts.Host) error) fault {
	var h *hosts.Host
	f := fault{detail: role, holds: holds, inject: func() error {
		h = s.Node(s.Until("a "+role, func(ms rig.Members) bool { return ms.With(role) != "" }).With(role))
		return inject(h)
	}}
	if heal != nil {
		f.heal = func() error { return heal(h) }
	}
	return f
}

// frozen freezes a program on the primary. Patroni may replace Postgres' frozen processes meanwhile.
func (s *stage) frozen(holds time.Duration, program string) fault {
	return s.onNode("leader", holds,
		func(h *hosts.Host) error { return rig.SignalAll(h, "STOP", program) },
		func(h *hosts.Host) error { return rig.SignalAll(h, "CONT", program) })
}

func killPostgres(h *hosts.Host) error { return rig.SignalAll(h, "KILL", "postgres") }

func kill(h *hosts.Host) error { return end(h, "KILL") }

func end(h *hosts.Host, signal string) error {
	_, err := h.End(signal)
	return err
}

func each(all []*hosts.Host, do func(*hosts.Host) error) error {
	for _, h := range all {
		if err := do(h); err != nil {
			return err
		}
	}
	return nil
}
