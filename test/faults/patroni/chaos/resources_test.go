package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sqlstore/sqlstore/test/faults/patroni/rig"
	"github.com/sqlstore/sqlstore/test/support/hosts"
)

var resourceKinds = []kind{
	{"primary's disk is full", nodes, func(s *stage, r *rand.Rand) fault {
		return s.onNode("leader", shortOrLong(r), rig.FillDisk, rig.FreeDisk)
	}},
	{"standby's disk is full", nodes, func(s *stage, r *rand.Rand) fault {
		return s.onNode("sync_standby", between(r, 3, 20), rig.FillDisk, rig.FreeDisk)
	}},
	{"primary's clock is stepped", everything, func(s *stage, r *rand.Rand) fault {
		return s.stepped(r, "leader")
	}},
	{"standby's clock is stepped", nodes, func(s *stage, r *rand.Rand) fault { return s.stepped(r, "sync_standby") }},
}

// stepped makes the clock of a node wrong, and right again.
func (s *stage) stepped(r *rand.Rand, role string) fault {
	by := step(r)
	f := s.onNode(role, between(r, 5, 20),
		func(h *hosts.Host) error { return rig.StepClock(h, by) },
		func(h *hosts.Host) error { return rig.StepClock(h, 0) })
	f.detail += fmt.Sprintf(" by %v", by)
	return f
}

var failoverKinds = []kind{
	{"primary is moved by hand", nodes, func(s *stage, _ *rand.Rand) fault {
		return fault{inject: func() error { return s.move("switchover --force --leader %[1]s --candidate %[2]s") }}
	}},
	{"failover by hand", nodes, func(s *stage, _ *rand.Rand) fault {
		return fault{inject: func() error { return s.move("failover --force --candidate %[2]s") }}
	}},
}

// move makes the synchronous standby the primary.
func (s *stage) move(command string) error {
	now := s.Until("a healthy cluster", rig.Healthy)
	standby := now.With("sync_standby")
	if _, err := s.Node(standby).Run(fmt.Sprintf("patronictl "+command, now.With("leader"), standby)); err != nil {
		return err
	}
	s.Until(standby+" leading", func(ms rig.Members) bool { return ms.With("leader") == standby })
	return nil
}

// backupTime limits a backup, whatever happens during it.
const backupTime = 3 * time.Minute

var backupKinds = []kind{
	{"base backup is under way", nothing, func(s *stage, r *rand.Rand) fault {
		role := []string{"leader", "sync_standby", "replica"}[r.IntN(3)]
		// At this rate it takes about ten seconds.
		return s.backup(role, `rm -rf /tmp/backup && export PGPASSWORD=$POSTGRES_PASSWORD && pg_basebackup \
			--host 127.0.0.1 --username postgres --pgdata /tmp/backup --checkpoint fast --max-rate 5M &&
			pg_verifybackup /tmp/backup && rm -rf /tmp/backup`)
	}},
	{"dumps are under way", nothing, func(s *stage, _ *rand.Rand) fault {
		// The second one is restored. Its clock must match its rows, because a dump is one snapshot.
		return s.backup("leader", `set -e
			psql() { command psql --no-psqlrc -h /tmp -U postgres -v ON_ERROR_STOP=1 "$@"; }
			for i in 1 2; do pg_dump -h /tmp -U postgres -Fc -f /tmp/dump sqlstore; done
			psql -qc 'DROP DATABASE IF EXISTS restored' -c 'CREATE DATABASE restored'
			pg_restore -h /tmp -U postgres --no-owner -d restored /tmp/dump
			test "$(psql -At restored -c \
				'SELECT revision = (SELECT max(resource_version) FROM object_versions) FROM clock')" = t
			psql -qc 'DROP DATABASE restored'; rm /tmp/dump`)
	}},
}

// backup runs a command in the background on the node that has a role when it starts. Alone it must succeed; with
// another fault it may fail.
func (s *stage) backup(role, command string) fault {
	done := make(chan error, 1)
	f := s.onNode(role, 0, func(h *hosts.Host) error {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), backupTime)
			defer cancel()
			_, err := h.RunLong(ctx, command)
			done <- err
		}()
		return nil
	}, func(*hosts.Host) error {
		err := <-done
		if err != nil && s.others > 0 {
			s.report.note("the backup failed during another fault: %v", err)
			return nil
		}
		return err
	})
	return f
}
