package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/internal/testing/env"
)

// The superuser of every server started here, which listens on the loopback interface and lives as long as a test.
const (
	superuser = "postgres"
	password  = "pgserver"
	// verifier is what Postgres stores of the password: SCRAM with 1 iteration instead of 4096, which take most of a
	// login's time.
	verifier = "SCRAM-SHA-256$1:c3Fsc3RvcmUtdGVzdC0wMQ==$" +
		"jMjPJNUt+1D9gI1r2mcYlgsnwEjBEcVAaHqq6R/XvyQ=:KEjKNU6S524k1Vdl3pkzeYzP8i1imbn9eVq4zWkU2cI="
)

// stepTimeout limits each step (start, stop, promote ...); connectTimeout limits one attempt to connect.
const (
	stepTimeout    = 90 * time.Second
	connectTimeout = 2 * time.Second
)

// Options configures a server for [Start].
type Options struct {
	// Version is the major version, for example "15". Empty means that of SQLSTORE_TEST_POSTGRES_VERSION, or else what
	// is available.
	Version string
	// Settings are Postgres settings, NAME=VALUE.
	Settings []string
	// PageChecksums turns data_checksums on. Otherwise it is off, whatever the version's default.
	PageChecksums bool
	// Memory keeps the data of a server in a container in memory: syncs cost nothing, and a restart loses everything.
	Memory bool
}

// pages returns initdb's arguments for PageChecksums.
func (o *Options) pages(version string) []string {
	n, err := strconv.Atoi(version)
	switch {
	case o.PageChecksums:
		return []string{"--data-checksums"}
	case err == nil && n >= 18: // on by default
		return []string{"--no-data-checksums"}
	}
	return nil
}

// secret returns what initdb of this major version reads as the password: up to 13, at most 99 bytes.
func secret(version string) string {
	if n, err := strconv.Atoi(version); err == nil && n <= 13 {
		return password
	}
	return verifier
}

// Server is a Postgres server dedicated to a test. Its address never changes. Its methods may be called from any
// goroutine, but not concurrently.
type Server struct {
	node node
}

// node is how a server runs: in a container or as processes of this machine.
type node interface {
	// start starts the server, for the first time or again; it need not wait for connections.
	start(ctx context.Context) error
	// stop shuts it down cleanly, without waiting for clients.
	stop(ctx context.Context) error
	kill(ctx context.Context) error
	pause(ctx context.Context) error
	unpause(ctx context.Context) error
	// running reports whether it is still running.
	running(ctx context.Context) bool
	// remove ends it in any state, and deletes its data.
	remove(ctx context.Context) error
	logs(ctx context.Context) string
	// standby makes a node that will copy this one at its first start and follow it under this name.
	standby(ctx context.Context, name string) (node, error)
	// addr is HOST:PORT, the same for the node's life.
	addr() string
	describe() string
}

// Start starts a server and removes it when the test ends. If the test failed, it shows the server's log.
func Start(tb testing.TB, o Options) *Server {
	tb.Helper()
	s, err := start(o, newNode)
	if err != nil {
		tb.Fatalf("pgserver: %v", err)
	}
	tb.Logf("pgserver: %s at %s", s.node.describe(), s.Addr())
	s.removeAfter(tb)
	return s
}

func (s *Server) removeAfter(tb testing.TB) {
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
		defer cancel()
		if tb.Failed() {
			tb.Logf("log of Postgres at %s:\n%s", s.node.addr(), s.node.logs(ctx))
		}
		if err := s.node.remove(ctx); err != nil {
			tb.Errorf("pgserver: remove the server at %s: %v", s.node.addr(), err)
		}
	})
}

func start(o Options, newNode func(context.Context, Options) (node, error)) (*Server, error) {
	if o.Version == "" {
		o.Version = env.PostgresVersion.Text()
	}
	// Package images limits the time to get an image.
	n, err := newNode(context.Background(), o)
	if err != nil {
		return nil, err
	}
	s := &Server{node: n}
	if err := s.Start(); err != nil {
		return nil, errors.Join(err, n.remove(context.Background()))
	}
	return s, nil
}

// Addr returns the server's HOST:PORT.
func (s *Server) Addr() string { return s.node.addr() }

// DSN returns the DSN of the server's database "postgres", for its superuser.
func (s *Server) DSN() string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(superuser, password), Host: s.node.addr(),
		Path: "/postgres", RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Database creates a database on this server and returns its DSN. It is dropped when the test ends, if the server still
// runs.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	return database(tb, s.DSN(), func(statement string) error { return execute(s.DSN(), statement) })
}

// Start starts the stopped or killed server again and waits until it accepts connections.
func (s *Server) Start() error {
	return s.step("start", func(ctx context.Context) error {
		if err := s.node.start(ctx); err != nil {
			return err
		}
		return s.ready(ctx)
	})
}

// Stop shuts the server down cleanly, breaking clients' connections.
func (s *Server) Stop() error { return s.step("stop", s.node.stop) }

// Restart stops the server and starts it again.
func (s *Server) Restart() error { return errors.Join(s.Stop(), s.Start()) }

// Kill ends the server at once, as a crash would; [Server.Start] makes it recover.
func (s *Server) Kill() error { return s.step("kill", s.node.kill) }

// Pause freezes all of the server's processes: connections stay open, and nothing answers.
func (s *Server) Pause() error { return s.step("pause", s.node.pause) }

// Unpause resumes a paused server.
func (s *Server) Unpause() error { return s.step("unpause", s.node.unpause) }

func (s *Server) step(what string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	if err := do(ctx); err != nil {
		return fmt.Errorf("%s Postgres (%s): %w", what, s.node.describe(), err)
	}
	return nil
}

// ready waits until the server accepts connections.
func (s *Server) ready(ctx context.Context) error {
	return s.until(ctx, func(ctx context.Context, conn *pgx.Conn) (bool, error) { return true, nil })
}

// until polls over new connections until done returns true, and ends early when the server does.
func (s *Server) until(ctx context.Context, done func(context.Context, *pgx.Conn) (bool, error)) error {
	for {
		ok, err := s.try(ctx, done)
		if ok {
			return nil
		}
		if ctx.Err() != nil || !s.node.running(ctx) {
			return fmt.Errorf("%w\n%s", errors.Join(ctx.Err(), err),
				strings.TrimSpace(s.node.logs(context.WithoutCancel(ctx))))
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *Server) try(ctx context.Context, done func(context.Context, *pgx.Conn) (bool, error)) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		return false, err
	}
	defer conn.Close(ctx)
	return done(ctx, conn)
}
