package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/kine"
	"github.com/sqlstore/sqlstore/internal/transfer/etcdfile"
	"github.com/sqlstore/sqlstore/internal/transfer/live"
)

// sourceFlags say what to import.
type sourceFlags struct {
	certificates
	login

	from, dir      string
	dbPasswordFile string
}

func (s *sourceFlags) register(f *pflag.FlagSet) {
	f.StringVar(&s.from, "from", "", "what to import: a snapshot file, a server's URL, sqlite:///path, "+
		"postgres://user@host/database, or kine+ and the URL of kine's database")
	f.StringVar(&s.dir, "work-dir", ".", "directory for the snapshot of a running server, which is removed at the end")
	s.certificates.register(f)
	s.login.register(f)
	f.StringVar(&s.dbPasswordFile, "from-password-file", "", "file with the password of a Postgres source")
}

// openSource is a source, and the file that was made for it.
type openSource struct {
	backend.Source

	temporary string // "" if none was made
	keep      bool   // for the next run, which continues
}

// Close closes the source, and removes what was made to read it.
func (o *openSource) Close() error {
	err := o.Source.Close()
	if o.temporary == "" || o.keep {
		return err
	}
	return errors.Join(err, os.RemoveAll(o.temporary))
}

// name is the source's name without secrets, the same for every spelling.
func (s *sourceFlags) name() string {
	if !strings.Contains(s.from, "://") {
		return resolvedPath(s.from)
	}
	u, err := url.Parse(s.from)
	if err != nil {
		return s.from
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u.Redacted()
}

// resolvedPath returns the absolute path without symbolic links, as far as it exists.
func resolvedPath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	return path
}

// open opens the source. If it is a running server, a snapshot of it is saved as file says; with nil, for this run
// only.
func (s *sourceFlags) open(ctx context.Context, file *snapshotFile, errOut io.Writer) (*openSource, error) {
	scheme, _, isURL := strings.Cut(s.from, "://")
	scheme = strings.ToLower(scheme)
	if err := checkSQLiteURL("from", s.from); err != nil {
		return nil, err
	}
	switch {
	case s.from == "":
		return nil, fmt.Errorf("%w: --from is required: %s", errSettings, sourceForms)
	case !isURL:
		return s.openFile(ctx)
	case strings.HasPrefix(scheme, kine.Prefix):
		src, err := kine.Open(ctx, s.from)
		return &openSource{Source: src}, err
	}
	switch scheme {
	case "http", "https":
		return s.openLive(ctx, file, errOut)
	case "sqlite", "postgres", "postgresql":
		src, err := openDatabaseSource(ctx, &sqlstore.Config{
			Datastore: s.from, DatastorePasswordFile: s.dbPasswordFile,
		})
		return &openSource{Source: src}, ofKine(s.from, err)
	}
	return nil, unknownKind(scheme)
}

// openFile opens a snapshot, or the database in etcd's data directory.
func (s *sourceFlags) openFile(ctx context.Context) (*openSource, error) {
	path := s.from
	if inside := filepath.Join(path, "member", "snap", "db"); isFile(inside) {
		path = inside
	}
	if err := checkSourceFile(path); err != nil {
		return nil, err
	}
	src, err := etcdfile.Open(ctx, path)
	return &openSource{Source: src}, err
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// server says how to reach a running server.
func (s *sourceFlags) server() (*live.Server, error) {
	u, err := url.Parse(s.from)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%w: --from is not a URL like https://10.0.0.1:2379", errSettings)
	}
	server := &live.Server{Endpoint: u.Scheme + "://" + u.Host, User: s.user}
	if u.Scheme == "https" {
		if server.TLS, err = s.tls(); err != nil {
			return nil, err
		}
	}
	if server.Password, err = s.password(); err != nil {
		return nil, err
	}
	return server, nil
}
