package pgserver

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
)

// conninfo is how a standby of this name connects to its primary.
func conninfo(host, port, name string) string {
	return fmt.Sprintf("host=%s port=%s user=%s password=%s application_name=%s", host, port, superuser, password, name)
}

// Standby starts a synchronous standby: from now on a commit waits for it. It is removed when the test ends. While it
// is down ([Server.Stop], [Server.Kill], [Server.Pause]) commits wait forever; see [Server.Asynchronous].
func (s *Server) Standby(tb testing.TB) *Server {
	tb.Helper()
	const name = "standby"
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	n, err := s.node.standby(ctx, name)
	if err != nil {
		tb.Fatalf("pgserver: make a standby of %s: %v", s.node.describe(), err)
	}
	standby := &Server{node: n}
	standby.removeAfter(tb)
	if err := standby.Start(); err != nil {
		tb.Fatalf("pgserver: %v", err)
	}
	if err := s.synchronous(ctx, name); err != nil {
		tb.Fatalf("pgserver: make %s wait for its standby: %v", s.node.describe(), err)
	}
	return standby
}

// synchronous makes commits wait for the standby of this name, and waits until they do.
func (s *Server) synchronous(ctx context.Context, name string) error {
	if err := s.setStandbys(name); err != nil {
		return err
	}
	return s.until(ctx, func(ctx context.Context, conn *pgx.Conn) (sync bool, err error) {
		err = conn.QueryRow(ctx, "SELECT count(*) > 0 FROM pg_stat_replication WHERE application_name = $1 AND "+
			"sync_state = 'sync'", name).Scan(&sync)
		return sync, err
	})
}

// Asynchronous makes commits wait for no standby: [Server.Promote] can then lose what they commit.
func (s *Server) Asynchronous() error {
	return s.step("make asynchronous", func(context.Context) error { return s.setStandbys("") })
}

func (s *Server) setStandbys(names string) error {
	if err := execute(s.DSN(), "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'"); err != nil {
		return err
	}
	return execute(s.DSN(), "SELECT pg_reload_conf()")
}

// Promote makes a standby a primary, and waits until it accepts writes. It does not stop the old primary.
func (s *Server) Promote() error {
	return s.step("promote", func(ctx context.Context) error {
		if err := execute(s.DSN(), "SELECT pg_promote(false)"); err != nil {
			return err
		}
		return s.until(ctx, func(ctx context.Context, conn *pgx.Conn) (primary bool, err error) {
			err = conn.QueryRow(ctx, "SELECT NOT pg_is_in_recovery()").Scan(&primary)
			return primary, err
		})
	})
}
