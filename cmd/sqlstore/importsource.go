package main

import (
	"context"
	"fmt"
	"hash/fnv"
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
	temporary string
}

// discard removes what was made to read the source.
func (o *openSource) discard() error {
	if o.temporary == "" {
		return nil
	}
	return os.Remove(o.temporary)
}

// name is the source's name without secrets.
func (s *sourceFlags) name() string {
	if u, err := url.Parse(s.from); err == nil {
		return u.Redacted()
	}
	return s.from
}

func (s *sourceFlags) open(ctx context.Context, errOut io.Writer) (*openSource, error) {
	scheme, _, isURL := strings.Cut(s.from, "://")
	scheme = strings.ToLower(scheme)
	switch {
	case s.from == "":
		return nil, fmt.Errorf("%w: --from is required: a file, or a URL", errSettings)
	case !isURL:
		return s.openFile(ctx)
	case strings.HasPrefix(scheme, kine.Prefix):
		src, err := kine.Open(ctx, s.from)
		return &openSource{Source: src}, err
	}
	switch scheme {
	case "http", "https":
		return s.openLive(ctx, errOut)
	case "sqlite", "postgres", "postgresql":
		src, err := openDatabaseSource(ctx, &sqlstore.Config{
			Datastore: s.from, DatastorePasswordFile: s.dbPasswordFile,
		})
		return &openSource{Source: src}, err
	}
	return nil, fmt.Errorf("%w: --from has the unknown kind %s://: give a file, http(s)://, sqlite:///, postgres:// "+
		"or kine+", errSettings, scheme)
}

// openFile opens a snapshot, or the database in etcd's data directory.
func (s *sourceFlags) openFile(ctx context.Context) (*openSource, error) {
	path := s.from
	if inside := filepath.Join(path, "member", "snap", "db"); isFile(inside) {
		path = inside
	}
	src, err := etcdfile.Open(ctx, path)
	return &openSource{Source: src}, err
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// openLive saves a snapshot of a running server. An import that was interrupted finds the snapshot and continues.
func (s *sourceFlags) openLive(ctx context.Context, errOut io.Writer) (*openSource, error) {
	server, err := s.server()
	if err != nil {
		return nil, err
	}
	path := s.snapshotPath()
	if info, err := os.Stat(path); err == nil {
		_, _ = fmt.Fprintf(errOut, "continuing with the snapshot of %s in %s; remove it to take a new one\n",
			info.ModTime().UTC().Format("2006-01-02T15:04:05Z"), path)
	} else {
		_, _ = fmt.Fprintf(errOut, "saving a snapshot of %s in %s\n", s.name(), path)
	}
	src, err := live.Open(ctx, server, path)
	return &openSource{src, path}, err
}

// snapshotPath is where the snapshot of a running server lies.
func (s *sourceFlags) snapshotPath() string {
	h := fnv.New64a()
	_, _ = io.WriteString(h, s.name())
	return filepath.Join(s.dir, fmt.Sprintf("sqlstore-import-%016x.db", h.Sum64()))
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
